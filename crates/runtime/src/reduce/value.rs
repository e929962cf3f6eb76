//! The values that reductions combine.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A contributed or combined value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Value {
    /// Nothing; the reduction is a barrier.
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
}

impl Value {
    /// The kind of value, for error messages.
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
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())
    }
}

/// A type that can be contributed to a reduction, or awaited from one.
pub trait Reducible: Sized {
    /// Turns it into a value.
    fn into_value(self) -> Value;
    /// Turns a value of the right kind back.
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
}

impl Reducible for () {
    fn into_value(self) -> Value {
        Value::Unit
    }

    fn from_value(value: Value) -> Option<Self> {
        (value == Value::Unit).then_some(())
    }
}

/// Types that are reduced as a wider one. A result that does not fit is refused, not cut.
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

reducible_as! { i32 => i64, u32 => u64, usize => u64 }

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
    fn narrow_types_travel_as_wide_ones_and_refuse_what_does_not_fit() {
        assert_eq!((-7i32).into_value(), Value::I64(-7));
        assert_eq!(u32::from_value(Value::U64(7)), Some(7));
        assert_eq!(u32::from_value(Value::U64(1 << 32)), None);
        assert_eq!(u32::from_value(Value::I64(7)), None);
    }

    #[test]
    fn arrays_keep_their_length_and_text_its_encoding() {
        assert_eq!([1u64, 2].into_value(), Value::U64s(vec![1, 2]));
        assert_eq!(<[f64; 2]>::from_value(Value::F64s(vec![1.0, 2.0])), Some([1.0, 2.0]));
        assert_eq!(<[f64; 2]>::from_value(Value::F64s(vec![1.0])), None);
        assert_eq!(String::from_value("µs".to_owned().into_value()).as_deref(), Some("µs"));
        assert_eq!(String::from_value(Value::Bytes(vec![0xff])), None);
    }
}
