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

impl<const N: usize> Reducible for [f64; N] {
    fn into_value(self) -> Value {
        Value::F64s(self.to_vec())
    }

    fn from_value(value: Value) -> Option<Self> {
        Vec::from_value(value)?.try_into().ok()
    }
}
