//! What a PE answers when the coordinator asks whether the job has stalled.

use crate::message::pending_work::PendingWork;
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
    /// What main does, if it runs beside this PE.
    pub(crate) main: Option<MainStatus>,
}

/// What main does, as its driver sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MainStatus {
    /// It runs, or it is not known.
    #[default]
    Running,
    /// It waits for promises of Gridspan alone.
    WaitsInside,
    /// It waits for something that the runtime cannot see, too.
    WaitsOutside,
}
