//! The values that reductions combine.

use super::flat;
use super::statistics::Statistics;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A contributed or combined value.
///
/// ```
/// use gridspan::{Reducible, Value};
///
/// let pair = (1.5, 2_u64).into_value();
/// assert_eq!(pair, Value::Tuple(vec![Value::F64(1.5), Value::U64(2)]));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Value {
    /// No value; the reduction is a barrier.
    Unit,
    /// A truth value.
    Bool(bool),
    /// A signed number.
    I64(i64),
    /// An unsigned number, or 64 bits.
    U64(u64),
    /// A floating-point number.
    F64(f64),
    /// Signed numbers, combined element by element.
    I64s(Vec<i64>),
    /// Unsigned numbers, combined element by element.
    U64s(Vec<u64>),
    /// Floating-point numbers, combined element by element.
    F64s(Vec<f64>),
    /// Bytes, for concatenation and for custom operations.
    Bytes(Vec<u8>),
    /// Encoded elements, for concatenation and union; see [`List`](crate::List).
    Items(Vec<Vec<u8>>),
    /// Statistics of numbers.
    Statistics(Statistics),
    /// Values that are each combined by their own operation. None of them is a tuple.
    Tuple(#[serde(deserialize_with = "flat::deserialize")] Vec<Value>),
}

impl Value {
    /// Whether this is a tuple that contains a tuple, or too many elements.
    pub(crate) fn is_unsound(&self) -> bool {
        let is_tuple = |value: &Self| matches!(value, Self::Tuple(_));
        matches!(self, Self::Tuple(all) if all.len() > flat::ELEMENTS_MAX || all.iter().any(is_tuple))
    }

    /// Returns the kind of value, for error messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Unit => "()",
            Self::Bool(_) => "bool",
            Self::I64(_) => "i64",
            Self::U64(_) => "u64",
            Self::F64(_) => "f64",
            Self::I64s(_) => "Vec<i64>",
            Self::U64s(_) => "Vec<u64>",
            Self::F64s(_) => "Vec<f64>",
            Self::Bytes(_) => "Vec<u8>",
            Self::Items(_) => "a list or set",
            Self::Statistics(_) => "Statistics",
            Self::Tuple(_) => "a tuple",
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())
    }
}

/// A type that can be contributed to a reduction, or awaited from one.
///
/// ```
/// use gridspan::{Reducible, Value};
///
/// #[derive(Debug, PartialEq)]
/// struct Joules(f64);
///
/// impl Reducible for Joules {
///     fn into_value(self) -> Value { self.0.into_value() }
///
///     fn from_value(value: Value) -> Option<Self> { f64::from_value(value).map(Joules) }
/// }
///
/// assert_eq!(Joules::from_value(Value::F64(2.5)), Some(Joules(2.5)));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be contributed to a reduction",
    label = "this type has no form that reductions combine",
    note = "contribute a number, a `bool`, a `Vec` or an array of numbers, `Statistics`, or a tuple of these; wrap values of other types as `List(vec![value])`, with `Concat`"
)]
pub trait Reducible: Sized {
    /// Converts it into a value.
    fn into_value(self) -> Value;
    /// Converts a value back, or returns `None` if it has another kind.
    fn from_value(value: Value) -> Option<Self>;
}

macro_rules! reducible {
    ($($type:ty => $kind:ident),* $(,)?) => {$(
        impl Reducible for $type {
            fn into_value(self) -> Value {
                Value::$kind(self)
            }

            fn from_value(value: Value) -> Option<Self> {
                match value {
                    Value::$kind(inner) => Some(inner),
                    _ => None,
                }
            }
        }
    )*};
}

reducible! {
    bool => Bool,
    i64 => I64,
    u64 => U64,
    f64 => F64,
    Vec<i64> => I64s,
    Vec<u64> => U64s,
    Vec<f64> => F64s,
    Vec<u8> => Bytes,
    Statistics => Statistics,
}

/// Implements [`Reducible`] for tuples, which take operations that are tuples of equal length.
macro_rules! reducible_tuples {
    ($(($($type:ident),+))*) => {$(
        impl<$($type: Reducible),+> Reducible for ($($type,)+) {
            fn into_value(self) -> Value {
                #[allow(non_snake_case)]
                let ($($type,)+) = self;
                Value::Tuple(vec![$($type.into_value()),+])
            }

            fn from_value(value: Value) -> Option<Self> {
                let Value::Tuple(values) = value else { return None };
                let mut values = values.into_iter();
                let tuple = ($($type::from_value(values.next()?)?,)+);
                values.next().is_none().then_some(tuple)
            }
        }
    )*};
}

reducible_tuples! { (A, B) (A, B, C) (A, B, C, D) (A, B, C, D, E) (A, B, C, D, E, F) }

impl Reducible for () {
    fn into_value(self) -> Value {
        Value::Unit
    }

    fn from_value(value: Value) -> Option<Self> {
        (value == Value::Unit).then_some(())
    }
}

/// Implements [`Reducible`] for types that are reduced as a wider type. A result that does not fit
/// is refused, not truncated.
macro_rules! reducible_as {
    ($($type:ty => $wide:ty),* $(,)?) => {$(
        impl Reducible for $type {
            fn into_value(self) -> Value {
                (self as $wide).into_value()
            }

            fn from_value(value: Value) -> Option<Self> {
                <$wide>::from_value(value)?.try_into().ok()
            }
        }
    )*};
}

reducible_as! { i16 => i64, i32 => i64, u8 => u64, u16 => u64, u32 => u64, usize => u64 }

/// Reduced as an `f64`; the result is rounded.
impl Reducible for f32 {
    fn into_value(self) -> Value {
        Value::F64(f64::from(self))
    }

    fn from_value(value: Value) -> Option<Self> {
        f64::from_value(value).map(|wide| wide as f32)
    }
}

/// Text is concatenated as bytes.
impl Reducible for String {
    fn into_value(self) -> Value {
        Value::Bytes(self.into_bytes())
    }

    fn from_value(value: Value) -> Option<Self> {
        Self::from_utf8(Vec::from_value(value)?).ok()
    }
}

impl<T, const N: usize> Reducible for [T; N]
where
    Vec<T>: Reducible,
{
    fn into_value(self) -> Value {
        Vec::from(self).into_value()
    }

    fn from_value(value: Value) -> Option<Self> {
        Vec::from_value(value)?.try_into().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_types_are_widened_and_refuse_values_that_do_not_fit() {
        assert_eq!((-7i32).into_value(), Value::I64(-7));
        assert_eq!(u32::from_value(Value::U64(7)), Some(7));
        assert_eq!(u32::from_value(Value::U64(1 << 32)), None);
        assert_eq!(u32::from_value(Value::I64(7)), None);
    }

    #[test]
    fn arrays_of_another_length_and_invalid_text_are_refused() {
        assert_eq!([1u64, 2].into_value(), Value::U64s(vec![1, 2]));
        assert_eq!(<[f64; 2]>::from_value(Value::F64s(vec![1.0, 2.0])), Some([1.0, 2.0]));
        assert_eq!(<[f64; 2]>::from_value(Value::F64s(vec![1.0])), None);
        assert_eq!(String::from_value("µs".to_owned().into_value()).as_deref(), Some("µs"));
        assert_eq!(String::from_value(Value::Bytes(vec![0xff])), None);
    }
}
