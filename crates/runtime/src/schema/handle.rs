//! Handles: values that stand for others of some type, which travel because of them.
//!
//! The bytes of a handle say nothing of that type, but its structure has to: a node that answers
//! with an `i64` where another one waits for a `u64` is as wrong as one that sends it. So a handle
//! asks for a newtype of a name that only a search for a structure knows. All other formats see
//! through newtypes and read the bytes; the search offers two parts, the bytes and what they stand
//! for.

use crate::schema::HANDLE;
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;

/// Reads the `H` that a handle is on the wire, and shows that it stands for values of type `T`.
pub(crate) fn read<'de, H, T, D>(deserializer: D) -> Result<H, D::Error>
where
    H: Deserialize<'de>,
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    deserializer.deserialize_newtype_struct(HANDLE, HandleVisitor::<H, T>(PhantomData))
}

struct HandleVisitor<H, T>(PhantomData<fn() -> (H, T)>);

impl<'de, H: Deserialize<'de>, T: Deserialize<'de>> Visitor<'de> for HandleVisitor<H, T> {
    type Value = H;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a handle")
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, bytes: D) -> Result<H, D::Error> {
        H::deserialize(bytes)
    }

    /// From a search for the structure only.
    fn visit_seq<S: SeqAccess<'de>>(self, mut parts: S) -> Result<H, S::Error> {
        let handle = parts.next_element()?.ok_or_else(|| S::Error::invalid_length(0, &self))?;
        // A handle needs no value of what it stands for.
        let _ = parts.next_element::<T>();
        Ok(handle)
    }
}
