//! Deserialisation of tuples, which must not contain tuples.
//!
//! A tuple of values is a value. So bytes from the network could nest tuples so deeply that
//! decoding overflows the stack. A tuple inside a tuple is therefore an error.

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
    /// Clears [`IS_INSIDE`] when it is dropped.
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
        false => Err(D::Error::custom(format_args!(
            "a tuple of a reduction has more than {ELEMENTS_MAX} elements"
        ))),
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

    #[test]
    fn tuples_from_the_network_have_at_most_sixteen_elements() {
        let of = |elements| encode(&Value::Tuple(vec![Value::Unit; elements]));

        assert!(decode::<Value>("a value", &of(16)).is_ok());
        assert!(decode::<Value>("a value", &of(17)).is_err());
    }
}
