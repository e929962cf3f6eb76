//! Lists of arguments and results of a task, read with a bound.

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::marker::PhantomData;

/// Largest number of arguments, and of results, of a task. Without a limit a text could fill the
/// memory, because a few characters of it become a hundred bytes.
pub(crate) const PARTS_MAX: usize = 100_000;

/// Reads a list of a task's parts. Refuses a list as soon as it exceeds [`PARTS_MAX`].
pub(crate) fn bounded<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    struct Parts<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Parts<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list of at most {PARTS_MAX}")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
            let mut parts = Vec::new();
            while let Some(part) = list.next_element()? {
                if parts.len() == PARTS_MAX {
                    return Err(A::Error::invalid_length(PARTS_MAX + 1, &self));
                }
                parts.push(part);
            }
            Ok(parts)
        }
    }

    from.deserialize_seq(Parts(PhantomData))
}
