//! A slice of numbers that is cheap to send: cloned by reference, encoded as one block of bytes.

use crate::schema::BLOCK;
use bytemuck::Pod;
use bytemuck::allocation::zeroed_arc_slice;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

// The block is the memory image, because every supported target is little-endian.
const _: () = assert!(cfg!(target_endian = "little"), "the wire format is little-endian");

/// An immutable slice of plain numbers for use in messages.
///
/// Clones share the data, so that a multicast within a process copies nothing. Crossing the network
/// copies the whole block at once instead of element by element.
///
/// ```
/// use gridspan::Numbers;
///
/// let row = Numbers::from(vec![1.0, 2.0, 3.0]);
/// let same = row.clone(); // shares the data
/// assert_eq!(same.iter().sum::<f64>(), 6.0);
/// ```
#[derive(Clone, PartialEq)]
pub struct Numbers<T>(Arc<[T]>);

impl<T> Deref for Numbers<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> From<Vec<T>> for Numbers<T> {
    fn from(numbers: Vec<T>) -> Self {
        Self(numbers.into())
    }
}

impl<T: Clone> From<&[T]> for Numbers<T> {
    fn from(numbers: &[T]) -> Self {
        Self(numbers.into())
    }
}

impl<T> Default for Numbers<T> {
    fn default() -> Self {
        Self(Arc::new([]))
    }
}

impl<T: fmt::Debug> fmt::Debug for Numbers<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: Pod> Serialize for Numbers<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytemuck::cast_slice(&self.0))
    }
}

impl<'de, T: Pod> Deserialize<'de> for Numbers<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The name distinguishes the structure from that of other bytes. It is not on the wire.
        deserializer.deserialize_newtype_struct(BLOCK, NumbersVisitor(PhantomData))
    }
}

struct NumbersVisitor<T>(PhantomData<T>);

impl<'de, T: Pod> Visitor<'de> for NumbersVisitor<T> {
    type Value = Numbers<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a block of whole {}-byte numbers", size_of::<T>())
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, block: D) -> Result<Numbers<T>, D::Error> {
        block.deserialize_bytes(self)
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Numbers<T>, E> {
        if bytes.len().checked_rem(size_of::<T>()) != Some(0) {
            return Err(E::invalid_length(bytes.len(), &self));
        }
        let mut numbers = zeroed_arc_slice::<T>(bytes.len() / size_of::<T>());
        let target = Arc::get_mut(&mut numbers).expect("a new Arc has one owner");
        bytemuck::cast_slice_mut(target).copy_from_slice(bytes);
        Ok(Numbers(numbers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoded_numbers_equal_the_encoded_ones_bit_for_bit() {
        let numbers = Numbers::from(vec![1.5, -0.0, f64::INFINITY, f64::MIN_POSITIVE]);
        let bytes = postcard::to_stdvec(&numbers).unwrap();
        let back: Numbers<f64> = postcard::from_bytes(&bytes).unwrap();
        assert_eq!(bytes.len(), 1 + 4 * 8);
        assert!(numbers.iter().zip(back.iter()).all(|(a, b)| a.to_bits() == b.to_bits()));
    }

    #[test]
    fn a_block_that_ends_within_a_number_is_refused() {
        let bytes = postcard::to_stdvec(&Numbers::from(vec![1u8, 2, 3])).unwrap();
        assert!(postcard::from_bytes::<Numbers<u16>>(&bytes).is_err());
    }
}
