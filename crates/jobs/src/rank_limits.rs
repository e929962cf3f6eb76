//! Limits for jobs of ranks: if few ranks share a large problem, each is larger than other actors.

use gridspan_runtime::Limits;

/// Size in bytes of the largest rank that moves, and of the largest message.
const RANK_BYTES_MAX: usize = 1 << 30;

/// The limits of a job whose ranks may be large.
pub(crate) fn limits() -> Limits {
    Limits::default().with_message_bytes(RANK_BYTES_MAX)
}
