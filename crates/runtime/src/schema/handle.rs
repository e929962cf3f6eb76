//! Handles: values that refer to values of another type, as a `Reply` refers to its answer.
//!
//! The bytes of a handle contain nothing of that type, but its structure must: a node that answers
//! with an `i64` where another node expects a `u64` is as wrong as one that sends it in a message.
//! So a handle deserialises as a newtype with a name that only the structure search knows. All
//! other formats ignore the name of a newtype and read the bytes; the search offers two parts, the
//! bytes and the value that the handle refers to.

use crate::schema::HANDLE;
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;

/// Reads a handle as its wire type `H`, and shows a structure search that it refers to values of
/// type `T`.
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

    /// Only a structure search calls this.
    fn visit_seq<S: SeqAccess<'de>>(self, mut parts: S) -> Result<H, S::Error> {
        let handle = parts.next_element()?.ok_or_else(|| S::Error::invalid_length(0, &self))?;
        // A handle does not need the value that it refers to.
        let _ = parts.next_element::<T>();
        Ok(handle)
    }
}
