//! What a message carries: a block of bytes, and the kind of its elements.

use crate::element::Element;
use crate::error::{CallSite, RankError, kind_name};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::any::type_name;

/// Marks the kind of a value that is encoded, so that no kind of numbers equals it.
const VALUE: u64 = 0x9e37_79b9_7f4a_7c15;

/// The data of a message. Clones share it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Content {
    pub(crate) kind: u64,
    pub(crate) bytes: Bytes,
}

/// Owns the numbers of a message, and shows their bytes.
struct Block<T>(Vec<T>);

impl<T: Element> AsRef<[u8]> for Block<T> {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

impl Content {
    /// No data, for messages of which only the arrival counts.
    pub(crate) fn empty() -> Self {
        Self { kind: 0, bytes: Bytes::new() }
    }

    /// Copies numbers.
    pub(crate) fn copied<T: Element>(numbers: &[T]) -> Self {
        Self { kind: T::KIND, bytes: Bytes::copy_from_slice(bytemuck::cast_slice(numbers)) }
    }

    /// Takes numbers without a copy.
    pub(crate) fn owned<T: Element>(numbers: Vec<T>) -> Self {
        Self { kind: T::KIND, bytes: Bytes::from_owner(Block(numbers)) }
    }

    /// Encodes a value.
    pub(crate) fn encoded<V: Serialize + 'static>(
        value: &V,
        at: CallSite,
    ) -> Result<Self, RankError> {
        let bytes = postcard::to_stdvec(value).map_err(|error| RankError::Malformed {
            at,
            of: type_name::<V>(),
            reason: error.to_string(),
        })?;
        Ok(Self { kind: value_kind::<V>(), bytes: bytes.into() })
    }

    fn check_kind<T: Element>(&self, at: CallSite) -> Result<(), RankError> {
        if self.kind == T::KIND && self.bytes.len().is_multiple_of(size_of::<T>().max(1)) {
            return Ok(());
        }
        let sent = kind_name(self.kind);
        Err(RankError::TypeMismatch { at, sent, expected: type_name::<T>() })
    }

    /// Copies the numbers into a buffer, and returns their number.
    pub(crate) fn copy_to<T: Element>(
        &self,
        buffer: &mut [T],
        at: CallSite,
    ) -> Result<usize, RankError> {
        self.check_kind::<T>(at)?;
        let target: &mut [u8] = bytemuck::cast_slice_mut(buffer);
        let (sent, room) = (self.bytes.len(), target.len());
        let target = target.get_mut(..sent).ok_or(RankError::Truncated { at, sent, room })?;
        target.copy_from_slice(&self.bytes);
        Ok(sent / size_of::<T>().max(1))
    }

    /// Copies the numbers into a buffer that they must fill.
    pub(crate) fn fill<T: Element>(&self, buffer: &mut [T], at: CallSite) -> Result<(), RankError> {
        self.check_kind::<T>(at)?;
        let (found, expected) = (self.bytes.len() / size_of::<T>().max(1), buffer.len());
        if found != expected {
            return Err(RankError::WrongLength { at, found, expected });
        }
        self.copy_to(buffer, at).map(drop)
    }

    /// Returns the numbers.
    pub(crate) fn to_vec<T: Element>(&self, at: CallSite) -> Result<Vec<T>, RankError> {
        self.check_kind::<T>(at)?;
        // Aligned numbers are copied at once. Those that this process has created are aligned.
        if let Ok(numbers) = bytemuck::try_cast_slice::<u8, T>(&self.bytes) {
            return Ok(numbers.to_vec());
        }
        let mut numbers = vec![T::zeroed(); self.bytes.len() / size_of::<T>().max(1)];
        bytemuck::cast_slice_mut(&mut numbers).copy_from_slice(&self.bytes);
        Ok(numbers)
    }

    /// Decodes a value.
    pub(crate) fn decode<V: DeserializeOwned + 'static>(
        &self,
        at: CallSite,
    ) -> Result<V, RankError> {
        if self.kind != value_kind::<V>() {
            let sent = kind_name(self.kind);
            return Err(RankError::TypeMismatch { at, sent, expected: type_name::<V>() });
        }
        postcard::from_bytes(&self.bytes).map_err(|error| RankError::Malformed {
            at,
            of: type_name::<V>(),
            reason: error.to_string(),
        })
    }
}

/// The kind of an encoded value: that of its type's name, since all nodes run the same program.
fn value_kind<V: 'static>() -> u64 {
    VALUE ^ crate::element::kind_of(type_name::<V>())
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: CallSite = CallSite { call: "recv", peer: Some(3), tag: Some(1), communicator: 0 };

    #[test]
    fn numbers_return_with_their_bits() {
        let numbers = [1.5, -0.0, f64::NAN];
        for content in [Content::copied(&numbers), Content::owned(numbers.to_vec())] {
            let mut buffer = [0.0; 4];
            assert_eq!(content.copy_to(&mut buffer, AT), Ok(3));
            let bits = |numbers: &[f64]| numbers.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&buffer[..3]), bits(&numbers));
            assert_eq!(bits(&content.to_vec(AT).unwrap()), bits(&numbers));
        }
    }

    #[test]
    fn numbers_return_from_any_place_in_memory() {
        let numbers = [1.5, -2.5];
        let bytes = [&[0_u8; 8][..], bytemuck::cast_slice(&numbers)].concat();
        for offset in 0..8 {
            let bytes = Bytes::from(bytes[8 - offset..].to_vec()).slice(offset..);
            let content = Content { kind: f64::KIND, bytes };
            assert_eq!(content.to_vec::<f64>(AT), Ok(numbers.to_vec()));
        }
    }

    #[test]
    fn other_types_and_small_buffers_are_errors_that_name_the_call() {
        let content = Content::copied(&[1.5, 2.5]);
        let error = content.copy_to(&mut [0_i64; 2], AT).unwrap_err();
        assert_eq!(
            error.to_string(),
            "recv with rank 3, tag 1, on the world: f64 was sent where i64 is expected"
        );
        let truncated = RankError::Truncated { at: AT, sent: 16, room: 8 };
        assert_eq!(content.copy_to(&mut [0.0], AT), Err(truncated));
        assert!(matches!(content.decode::<f64>(AT), Err(RankError::TypeMismatch { .. })));
    }

    #[test]
    fn values_return_and_other_types_are_refused() {
        let content = Content::encoded(&("three".to_owned(), 3_u8), AT).unwrap();
        assert_eq!(content.decode::<(String, u8)>(AT), Ok(("three".to_owned(), 3)));
        assert!(matches!(content.decode::<String>(AT), Err(RankError::TypeMismatch { .. })));
    }
}
