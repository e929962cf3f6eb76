//! The peers and tags of messages: destinations, selections of a receive, and the status of a
//! received message.

/// The rank to which a message is sent.
///
/// A number, or [`PROC_NULL`] or `None`, to which nothing is sent.
///
/// ```
/// use gridspan::ranks::{Destination, PROC_NULL};
///
/// assert_eq!(Destination::from(3), Destination::Rank(3));
/// assert_eq!(Destination::from(None), Destination::from(PROC_NULL));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Destination {
    /// This rank of the communicator.
    Rank(u32),
    /// No rank: the operation does nothing and completes at once.
    Null,
}

/// The ranks from which a receive or a probe takes a message.
///
/// ```
/// use gridspan::ranks::{ANY_SOURCE, PROC_NULL, SourceSelector};
///
/// assert_eq!(SourceSelector::from(3), SourceSelector::Rank(3));
/// assert_eq!(SourceSelector::from(PROC_NULL), SourceSelector::Null);
/// assert_eq!(ANY_SOURCE, SourceSelector::Any);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SourceSelector {
    /// Any rank of the communicator.
    Any,
    /// This rank of the communicator.
    Rank(u32),
    /// No rank: the operation receives an empty message at once.
    Null,
}

/// The tags that a receive or a probe accepts.
///
/// ```
/// use gridspan::ranks::{ANY_TAG, TagSelector};
///
/// assert_eq!(TagSelector::from(7), TagSelector::Tag(7));
/// assert_eq!(ANY_TAG, TagSelector::Any);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TagSelector {
    /// Any tag.
    Any,
    /// This tag.
    Tag(u32),
}

/// Receives from any rank.
pub const ANY_SOURCE: SourceSelector = SourceSelector::Any;
/// Receives messages of any tag.
pub const ANY_TAG: TagSelector = TagSelector::Any;
/// No rank: a message to it is dropped, and one from it is empty.
pub const PROC_NULL: ProcNull = ProcNull;

/// The type of [`PROC_NULL`], which is a [`Destination`] and a [`SourceSelector`].
///
/// ```
/// use gridspan::ranks::{Destination, PROC_NULL, ProcNull};
///
/// let none: ProcNull = PROC_NULL;
/// assert_eq!(Destination::from(none), Destination::Null);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcNull;

impl From<u32> for Destination {
    fn from(rank: u32) -> Self {
        Self::Rank(rank)
    }
}

impl From<Option<u32>> for Destination {
    fn from(rank: Option<u32>) -> Self {
        rank.map_or(Self::Null, Self::Rank)
    }
}

impl From<ProcNull> for Destination {
    fn from(_: ProcNull) -> Self {
        Self::Null
    }
}

impl From<u32> for SourceSelector {
    fn from(rank: u32) -> Self {
        Self::Rank(rank)
    }
}

impl From<Option<u32>> for SourceSelector {
    fn from(rank: Option<u32>) -> Self {
        rank.map_or(Self::Null, Self::Rank)
    }
}

impl From<ProcNull> for SourceSelector {
    fn from(_: ProcNull) -> Self {
        Self::Null
    }
}

impl From<u32> for TagSelector {
    fn from(tag: u32) -> Self {
        Self::Tag(tag)
    }
}

impl TagSelector {
    /// Whether a message of this tag is accepted.
    pub fn accepts(self, tag: u32) -> bool {
        match self {
            Self::Any => true,
            Self::Tag(wanted) => wanted == tag,
        }
    }
}

/// What a receive or a probe found.
///
/// ```
/// use gridspan::ranks::{self, ANY_SOURCE, ANY_TAG, Status};
///
/// let job = ranks::run(2, async |world| {
///     if world.rank() == 1 {
///         world.send(&[1.5, 2.5], 0, 7).await?;
///     } else {
///         let status: Status = world.probe(ANY_SOURCE, ANY_TAG).await?;
///         assert_eq!((status.source, status.tag), (Some(1), Some(7)));
///         assert_eq!(status.count::<f64>(), Some(2));
///         let (numbers, _) = world.recv::<f64>(1, 7).await?;
///         assert_eq!(numbers, [1.5, 2.5]);
///     }
///     Ok(())
/// });
/// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The rank of the sender in the communicator; `None` for [`PROC_NULL`].
    pub source: Option<u32>,
    /// The tag; `None` for a message from [`PROC_NULL`].
    pub tag: Option<u32>,
    /// Number of bytes of the message.
    pub bytes: usize,
}

impl Status {
    /// The status of a receive from [`PROC_NULL`].
    pub const NULL: Self = Self { source: None, tag: None, bytes: 0 };

    /// Number of elements of the message, or `None` if its bytes are no whole number of them.
    pub fn count<T>(&self) -> Option<usize> {
        match size_of::<T>() {
            0 => None,
            size => self.bytes.is_multiple_of(size).then_some(self.bytes / size),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_of_whole_elements() {
        let status = Status { source: Some(0), tag: Some(1), bytes: 12 };
        assert_eq!((status.count::<f32>(), status.count::<f64>()), (Some(3), None));
        assert_eq!((status.count::<()>(), Status::NULL.count::<f64>()), (None, Some(0)));
    }

    #[test]
    fn tags_are_accepted_by_number_or_all() {
        assert!(ANY_TAG.accepts(9) && TagSelector::from(9).accepts(9));
        assert!(!TagSelector::from(9).accepts(8));
    }
}
