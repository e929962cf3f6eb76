//! Lists that may not contain further such lists, for types that contain lists of themselves.
//!
//! A tuple of values is a value. Bytes from the network could nest tuples deep enough to overflow
//! the stack while they are decoded, so a tuple inside a tuple is refused.

use serde::de::{Deserialize, Deserializer, Error};
use std::cell::Cell;

/// Largest number of elements of a tuple.
pub(super) const ELEMENTS_MAX: usize = 16;

thread_local! {
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Reads a list; refuses a list inside another such list, and more than [`ELEMENTS_MAX`] elements.
/// For `#[serde(deserialize_with)]`.
pub(super) fn deserialize<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    /// Leaves the list when it is dropped.
    struct Inside;
    impl Drop for Inside {
        fn drop(&mut self) {
            IS_INSIDE.set(false);
        }
    }

    if IS_INSIDE.replace(true) {
        return Err(D::Error::custom("a tuple of a reduction contains a tuple"));
    }
    let _inside = Inside;
    let list = Vec::deserialize(deserializer)?;
    match list.len() <= ELEMENTS_MAX {
        true => Ok(list),
        false => Err(D::Error::custom("a tuple of a reduction has more than 16 elements")),
    }
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
        assert_eq!(decode::<Value>("a value", &encode(&flat)), Ok(flat), "a flat one is accepted");
        let nested = Op::Tuple(vec![Op::Tuple(vec![Op::Sum])]);
        assert!(decode::<Op>("an operation", &encode(&nested)).is_err());
    }
}
