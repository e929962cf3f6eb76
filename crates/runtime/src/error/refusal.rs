//! Why a node refuses another one.

use serde::{Deserialize, Serialize};

/// Why a node was refused when it connected to another one of its job.
///
/// ```
/// use gridspan::{JobError, LossCause, RefusalCause};
///
/// /// Whether the nodes must be started from one build.
/// fn is_other_build(error: &JobError) -> bool {
///     let JobError::NodeLost { cause, .. } = error else { return false };
///     *cause == LossCause::Refused(RefusalCause::Version)
/// }
/// # assert!(!is_other_build(&JobError::Cancelled));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum RefusalCause {
    /// It speaks another version of the protocol.
    Version,
    /// It belongs to another job.
    Job,
    /// It is not the node that was expected at its address, or not in the job.
    Node,
    /// Its certificate does not name it.
    Certificate,
    /// It was started again, and this is its earlier process.
    Incarnation,
    /// It was declared lost before.
    Lost,
    /// It sent invalid data.
    Malformed,
    /// It did not introduce itself in time.
    Late,
    /// There was no secure connection, for example because of a certificate of another authority.
    Handshake,
    /// The reason is known as text only.
    Other,
}
