//! Data of any type, for exchanges in which each pair of ranks may use another type.

use crate::content::Content;
use crate::element::Element;
use crate::error::{CallSite, RankError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;

/// The call site of the errors of blocks that no rank has sent.
const OWN: CallSite = CallSite { call: "TypedBlock", peer: None, tag: None, communicator: 0 };

/// What one rank gives another in an [`alltoallw`](crate::Comm::alltoallw): numbers or a value, of
/// any type and length. The receiver names the type.
///
/// ```
/// use gridspan::ranks::{self, RankError, TypedBlock};
///
/// let job = ranks::run(2, async |world| {
///     // Rank 0 gives floats to itself and a text to rank 1. Rank 1 gives integers to rank 0 and
///     // nothing to itself.
///     let blocks = match world.rank() {
///         0 => vec![TypedBlock::from(vec![0.5, 1.5]), TypedBlock::value(&"text".to_owned())?],
///         _ => vec![TypedBlock::from(vec![3_u8]), TypedBlock::empty()],
///     };
///     let found = world.alltoallw(blocks).await?;
///     if world.rank() == 0 {
///         assert_eq!(found[0].to_vec::<f64>()?, [0.5, 1.5]);
///         assert_eq!(found[1].to_vec::<u8>()?, [3]);
///     } else {
///         assert_eq!(found[0].to_value::<String>()?, "text");
///         assert_eq!(found[1].bytes(), 0);
///         let error = found[0].to_vec::<f64>().unwrap_err();
///         assert!(matches!(error, RankError::TypeMismatch { .. }));
///     }
///     Ok(())
/// });
/// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Clone)]
pub struct TypedBlock {
    content: Content,
    at: CallSite,
}

impl fmt::Debug for TypedBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TypedBlock({} bytes)", self.bytes())
    }
}

impl<T: Element> From<Vec<T>> for TypedBlock {
    /// Takes numbers without a copy.
    fn from(numbers: Vec<T>) -> Self {
        Self { content: Content::owned(numbers), at: OWN }
    }
}

impl<T: Element> From<&[T]> for TypedBlock {
    /// Copies numbers.
    fn from(numbers: &[T]) -> Self {
        Self { content: Content::copied(numbers), at: OWN }
    }
}

impl TypedBlock {
    /// No data: zero numbers of any type.
    pub fn empty() -> Self {
        Self { content: Content::empty(), at: OWN }
    }

    /// Encodes a value.
    ///
    /// # Errors
    ///
    /// [`RankError::Malformed`] for a value that does not serialise.
    pub fn value<V: Serialize + 'static>(value: &V) -> Result<Self, RankError> {
        Ok(Self { content: Content::encoded(value, OWN)?, at: OWN })
    }

    pub(crate) fn received(content: Content, at: CallSite) -> Self {
        Self { content, at }
    }

    pub(crate) fn into_content(self) -> Content {
        self.content
    }

    /// Number of bytes.
    pub fn bytes(&self) -> usize {
        self.content.bytes().len()
    }

    fn is_empty(&self) -> bool {
        self.content == Content::empty()
    }

    /// Returns the numbers.
    ///
    /// # Errors
    ///
    /// [`RankError::TypeMismatch`].
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, RankError> {
        if self.is_empty() {
            return Ok(Vec::new());
        }
        self.content.to_vec(self.at)
    }

    /// Copies the numbers into the front of a buffer, and returns how many there are.
    ///
    /// # Errors
    ///
    /// [`RankError::TypeMismatch`], and [`RankError::Truncated`] if the buffer is too short.
    pub fn copy_to<T: Element>(&self, buffer: &mut [T]) -> Result<usize, RankError> {
        if self.is_empty() {
            return Ok(0);
        }
        self.content.copy_to(buffer, self.at)
    }

    /// Returns the value.
    ///
    /// # Errors
    ///
    /// [`RankError::TypeMismatch`] and [`RankError::Malformed`].
    pub fn to_value<V: DeserializeOwned + 'static>(&self) -> Result<V, RankError> {
        self.content.decode(self.at)
    }
}
