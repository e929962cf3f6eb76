//! Why a checkpoint cannot be read.

use gridspan_topology::PeId;
use serde::{Deserialize, Serialize};

/// Why a checkpoint, or the place with the checkpoints of a job, cannot be used. `place` is the
/// path or the address of what cannot be used.
///
/// ```
/// use gridspan::{CheckpointError, JobError, StartError};
///
/// /// Whether the job may begin again, since there is nothing from which it could continue.
/// fn may_begin_again(error: &JobError) -> bool {
///     let JobError::CannotStart(StartError::Checkpoint(error)) = error else { return false };
///     matches!(error, CheckpointError::Missing { .. } | CheckpointError::NoneComplete { .. })
/// }
/// # let none = CheckpointError::NoneComplete { place: "saved".to_owned() };
/// # assert!(may_begin_again(&StartError::from(none).into()));
/// # let altered = CheckpointError::Altered { place: "saved/checkpoint-1/manifest".to_owned() };
/// # assert!(!may_begin_again(&StartError::from(altered).into()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum CheckpointError {
    /// There is no such folder, file or object.
    #[error("{place}: {reason}")]
    Missing {
        /// What is missing.
        place: String,
        /// The error of the system or of the store.
        reason: String,
    },
    /// The system or the store denied access, did not answer, or has no room. Or `place` is the
    /// address of a store, and the program was built without the feature `object-store`.
    #[error("{place}: {reason}")]
    Inaccessible {
        /// What cannot be read or written.
        place: String,
        /// The error of the system or of the store.
        reason: String,
    },
    /// No checkpoint in the place is complete.
    #[error("{place}: there is no complete checkpoint in it")]
    NoneComplete {
        /// The place.
        place: String,
    },
    /// A file or object ends too early.
    #[error("{place}: it is too short")]
    Truncated {
        /// The file or object.
        place: String,
    },
    /// A file or object is longer than its manifest says.
    #[error("{place}: it is too long")]
    TooLong {
        /// The file or object.
        place: String,
    },
    /// A file or object was not written as a part of a checkpoint.
    #[error("{place}: it is not a part of a checkpoint")]
    Foreign {
        /// The file or object.
        place: String,
    },
    /// A file or object has the format of another version of Gridspan.
    #[error(
        "{place}: it has version {version}, and this program reads version {readable}: use the program that wrote it"
    )]
    OtherFormat {
        /// The file or object.
        place: String,
        /// The version of its format.
        version: u32,
        /// The version that this program reads.
        readable: u32,
    },
    /// The bytes of a file or object are not those that were written.
    #[error("{place}: its digest does not match; it is truncated or was altered")]
    Altered {
        /// The file or object.
        place: String,
    },
    /// A file or object belongs to another checkpoint than its name says.
    #[error("{place}: it belongs to another checkpoint")]
    Misplaced {
        /// The file or object.
        place: String,
    },
    /// The manifest, the parts, or the plan to restore them contradict each other or themselves.
    #[error("{reason}")]
    Inconsistent {
        /// The contradiction, or the error of the decoder.
        reason: String,
    },
    /// A node has no copy of a part that its PEs restore.
    #[error(
        "this node has no copy of the part of {part} in checkpoint {checkpoint}, and the job has no place from which it could read it"
    )]
    NoCopy {
        /// The PE that made the part.
        part: PeId,
        /// Number of the checkpoint.
        checkpoint: u64,
    },
    /// A part lacks a segment.
    #[error("segment {position} of {part} in checkpoint {checkpoint} is missing")]
    MissingSegment {
        /// The PE that made the part.
        part: PeId,
        /// Position of the segment in the part.
        position: u32,
        /// Number of the checkpoint.
        checkpoint: u64,
    },
}

impl CheckpointError {
    /// The error of a contradiction.
    pub(crate) fn inconsistent(reason: impl std::fmt::Display) -> Self {
        Self::Inconsistent { reason: reason.to_string() }
    }
}
