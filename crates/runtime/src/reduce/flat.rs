//! Lists of elements that may not contain such lists again, for types that contain themselves.
//!
//! A tuple of values is a value. Bytes from the network could nest tuples deep enough to overflow
//! the stack while they are decoded, so a tuple inside a tuple is refused.

use serde::de::{Deserialize, Deserializer, Error};
use std::cell::Cell;

thread_local! {
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Reads a list outside of any other such list. For `#[serde(deserialize_with)]`.
pub(super) fn deserialize<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    if IS_INSIDE.replace(true) {
        return Err(D::Error::custom("a tuple of a reduction contains a tuple"));
    }
    let list = Vec::deserialize(deserializer);
    IS_INSIDE.set(false);
    list
}

#[cfg(test)]
mod tests {
    use crate::message::codec::{decode, encode};
    use crate::reduce::{Op, Value};

    #[test]
    fn nested_tuples_from_the_network_are_refused_at_any_depth() {
        let flat = Value::Tuple(vec![Value::Unit, Value::U64(7)]);
        assert_eq!(decode::<Value>("a value", &encode(&flat)).as_ref(), Ok(&flat));

        let tuple = encode(&Value::Tuple(vec![Value::Unit]));
        let (variant, length) = (tuple[0], tuple[1]);
        let deep = [variant, length].repeat(1_000_000);

        assert!(decode::<Value>("a value", &deep).is_err());
        assert_eq!(decode::<Value>("a value", &encode(&flat)), Ok(flat), "and this one still is");
        let nested = Op::Tuple(vec![Op::Tuple(vec![Op::Sum])]);
        assert!(decode::<Op>("an operation", &encode(&nested)).is_err());
    }
}
