//! A PE's answer when the coordinator asks whether the job has stalled.

use crate::message::pending_work::PendingWork;
use serde::{Deserialize, Serialize};

/// The report of an idle PE.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Looked {
    /// Number of the round.
    pub(crate) round: u64,
    /// Count of the PE's work since the start.
    pub(crate) activity: u64,
    /// Whether all packets that its node sent before its last answer have arrived, and no timer is
    /// set.
    pub(crate) is_quiet: bool,
    /// The PE's unfinished work.
    pub(crate) pending: PendingWork,
    /// Status of main, if it runs beside this PE.
    pub(crate) main: Option<MainStatus>,
}

/// Status of main, as seen by its driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MainStatus {
    /// Main runs, or its status is not known.
    #[default]
    Running,
    /// Main waits for promises of Gridspan alone.
    WaitsInside,
    /// Main also waits for an event that the runtime cannot see.
    WaitsOutside,
}
