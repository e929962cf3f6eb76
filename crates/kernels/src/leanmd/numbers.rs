//! Numbers as one block of bytes, the form in which lists of vectors are sent.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The name by which the runtime recognises a block when it describes the structure of a message.
const BLOCK: &str = "gridspan block";

/// Bytes of a number.
const NUMBER_BYTES: usize = size_of::<f64>();

/// Numbers that are serialised like `Numbers` of the runtime, on which this crate does not depend.
/// The name and the parameter are the same as there, because the runtime's description of a message
/// contains both.
pub(super) struct Numbers<T>(pub(super) Vec<T>);

struct NumbersVisitor;

impl Numbers<f64> {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.0.len() * NUMBER_BYTES];
        for (bytes, number) in bytes.as_chunks_mut::<NUMBER_BYTES>().0.iter_mut().zip(&self.0) {
            *bytes = number.to_le_bytes();
        }
        bytes
    }

    /// Returns `None` if the bytes end within a number.
    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let (numbers, rest) = bytes.as_chunks::<NUMBER_BYTES>();
        let numbers = numbers.iter().map(|bytes| f64::from_le_bytes(*bytes));
        rest.is_empty().then(|| Self(numbers.collect()))
    }
}

impl Serialize for Numbers<f64> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.bytes())
    }
}

impl<'de> Deserialize<'de> for Numbers<f64> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(BLOCK, NumbersVisitor)
    }
}

impl<'de> Visitor<'de> for NumbersVisitor {
    type Value = Numbers<f64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a block of whole {NUMBER_BYTES}-byte numbers")
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(
        self,
        block: D,
    ) -> Result<Numbers<f64>, D::Error> {
        block.deserialize_bytes(self)
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Numbers<f64>, E> {
        Numbers::of_bytes(bytes).ok_or_else(|| E::invalid_length(bytes.len(), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoded_numbers_equal_the_encoded_ones_bit_for_bit() {
        let numbers = Numbers(vec![1.5, -0.0, f64::INFINITY, f64::MIN_POSITIVE]);
        let bytes = postcard::to_stdvec(&numbers).unwrap();
        let back: Numbers<f64> = postcard::from_bytes(&bytes).unwrap();
        assert_eq!(bytes.len(), 1 + 4 * 8);
        assert_eq!(bytes[1..9], 1.5_f64.to_le_bytes());
        assert!(numbers.0.iter().zip(&back.0).all(|(a, b)| a.to_bits() == b.to_bits()));
    }

    #[test]
    fn a_block_that_ends_within_a_number_is_refused() {
        let mut bytes = postcard::to_stdvec(&Numbers(vec![1.0, 2.0])).unwrap();
        // The length, which is first.
        bytes[0] = 15;
        assert!(postcard::from_bytes::<Numbers<f64>>(&bytes[..16]).is_err());
    }
}
