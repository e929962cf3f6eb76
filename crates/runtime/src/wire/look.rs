//! What a PE answers when the root asks whether the job has stalled.

use crate::pending_work::PendingWork;
use serde::{Deserialize, Serialize};

/// What a PE does, when it is idle.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Looked {
    /// The round of questions.
    pub(crate) round: u64,
    /// How much the PE has ever done.
    pub(crate) activity: u64,
    /// Whether all has arrived that its node had sent before its last answer, and no timer is set.
    pub(crate) is_quiet: bool,
    /// What it has begun and not finished.
    pub(crate) pending: PendingWork,
}
