//! What a message carries: a block of bytes, and the kind of its elements.

use crate::element::Element;
use crate::error::{CallSite, RankError, kind_name};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::any::{Any, type_name};
use std::fmt;
use std::sync::Arc;

/// Marks the kind of a value that is encoded, so that no kind of numbers equals it.
const VALUE: u64 = 0x9e37_79b9_7f4a_7c15;

/// The data of a message. Clones share it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Content {
    pub(crate) kind: u64,
    block: Block,
}

/// The block of bytes. Both variants have the same encoding.
#[derive(Clone)]
enum Block {
    /// Numbers that were copied, a value that was encoded, or data from another node.
    Bytes(Bytes),
    /// Numbers that the sender has given away. The last owner can take the vector itself.
    Vector(Arc<dyn Vector>),
}

/// A vector of numbers of some type.
trait Vector: Send + Sync {
    fn as_bytes(&self) -> &[u8];
    fn as_any(&mut self) -> &mut dyn Any;
}

impl<T: Element> Vector for Vec<T> {
    fn as_bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self)
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

impl Block {
    fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Vector(vector) => vector.as_bytes(),
        }
    }

    /// Takes the vector, and leaves an empty one. `None` if there is none of this type, or if
    /// another message shares it.
    fn take_vector<T: Element>(&mut self) -> Option<Vec<T>> {
        let Self::Vector(vector) = self else { return None };
        Arc::get_mut(vector)?.as_any().downcast_mut::<Vec<T>>().map(std::mem::take)
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_bytes(), f)
    }
}

impl PartialEq for Block {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Serialize for Block {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.as_bytes())
    }
}

impl<'de> Deserialize<'de> for Block {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Bytes::deserialize(deserializer).map(Self::Bytes)
    }
}

impl Content {
    /// No data, for messages of which only the arrival counts.
    pub(crate) fn empty() -> Self {
        Self { kind: 0, block: Block::Bytes(Bytes::new()) }
    }

    /// The data.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.block.as_bytes()
    }

    /// Copies numbers.
    pub(crate) fn copied<T: Element>(numbers: &[T]) -> Self {
        let bytes = Bytes::copy_from_slice(bytemuck::cast_slice(numbers));
        Self { kind: T::KIND, block: Block::Bytes(bytes) }
    }

    /// Takes numbers without a copy.
    pub(crate) fn owned<T: Element>(numbers: Vec<T>) -> Self {
        Self { kind: T::KIND, block: Block::Vector(Arc::new(numbers)) }
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
        Ok(Self { kind: value_kind::<V>(), block: Block::Bytes(bytes.into()) })
    }

    fn check_kind<T: Element>(&self, at: CallSite) -> Result<(), RankError> {
        if self.kind == T::KIND && self.bytes().len().is_multiple_of(size_of::<T>().max(1)) {
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
        let (sent, room) = (self.bytes().len(), target.len());
        let target = target.get_mut(..sent).ok_or(RankError::Truncated { at, sent, room })?;
        target.copy_from_slice(self.bytes());
        Ok(sent / size_of::<T>().max(1))
    }

    /// Copies the numbers into a buffer that they must fill.
    pub(crate) fn fill<T: Element>(&self, buffer: &mut [T], at: CallSite) -> Result<(), RankError> {
        self.check_kind::<T>(at)?;
        let (found, expected) = (self.bytes().len() / size_of::<T>().max(1), buffer.len());
        if found != expected {
            return Err(RankError::WrongLength { at, found, expected });
        }
        self.copy_to(buffer, at).map(drop)
    }

    /// Returns the numbers: the vector that was sent, if it comes from this node and no other
    /// message shares it; otherwise a copy.
    pub(crate) fn into_vec<T: Element>(mut self, at: CallSite) -> Result<Vec<T>, RankError> {
        self.check_kind::<T>(at)?;
        match self.block.take_vector() {
            Some(numbers) => Ok(numbers),
            None => self.to_vec(at),
        }
    }

    /// Copies the numbers.
    pub(crate) fn to_vec<T: Element>(&self, at: CallSite) -> Result<Vec<T>, RankError> {
        self.check_kind::<T>(at)?;
        // Aligned numbers are copied at once. Those that this process has created are aligned.
        if let Ok(numbers) = bytemuck::try_cast_slice::<u8, T>(self.bytes()) {
            return Ok(numbers.to_vec());
        }
        let mut numbers = vec![T::zeroed(); self.bytes().len() / size_of::<T>().max(1)];
        bytemuck::cast_slice_mut(&mut numbers).copy_from_slice(self.bytes());
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
        postcard::from_bytes(self.bytes()).map_err(|error| RankError::Malformed {
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
            assert_eq!(bits(&content.into_vec(AT).unwrap()), bits(&numbers));
        }
    }

    #[test]
    fn a_vector_returns_itself_unless_another_message_shares_it() {
        let numbers = vec![1.5, 2.5];
        let place = numbers.as_ptr();
        let content = Content::owned(numbers);
        let shared = content.clone();
        let copy: Vec<f64> = content.into_vec(AT).unwrap();
        assert!(copy == [1.5, 2.5] && copy.as_ptr() != place);
        let itself: Vec<f64> = shared.into_vec(AT).unwrap();
        assert!(itself == [1.5, 2.5] && itself.as_ptr() == place);
    }

    #[test]
    fn a_vector_has_the_encoding_of_its_copy() {
        let (owned, copied) = (Content::owned(vec![1.5, 2.5]), Content::copied(&[1.5, 2.5]));
        let bytes = postcard::to_stdvec(&owned).unwrap();
        assert_eq!(bytes, postcard::to_stdvec(&copied).unwrap());
        let decoded: Content = postcard::from_bytes(&bytes).unwrap();
        assert!(decoded == owned && owned == copied);
        assert_eq!(decoded.into_vec::<f64>(AT), Ok(vec![1.5, 2.5]));
    }

    #[test]
    fn numbers_return_from_any_place_in_memory() {
        let numbers = [1.5, -2.5];
        let bytes = [&[0_u8; 8][..], bytemuck::cast_slice(&numbers)].concat();
        for offset in 0..8 {
            let bytes = Bytes::from(bytes[8 - offset..].to_vec()).slice(offset..);
            let content = Content { kind: f64::KIND, block: Block::Bytes(bytes) };
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
        let mismatch = Content::owned(vec![1.5]).into_vec::<i64>(AT);
        assert!(matches!(mismatch, Err(RankError::TypeMismatch { .. })));
    }

    #[test]
    fn values_return_and_other_types_are_refused() {
        let content = Content::encoded(&("three".to_owned(), 3_u8), AT).unwrap();
        assert_eq!(content.decode::<(String, u8)>(AT), Ok(("three".to_owned(), 3)));
        assert!(matches!(content.decode::<String>(AT), Err(RankError::TypeMismatch { .. })));
    }
}
