//! A PE's answer when the coordinator asks whether the job has stalled.

use crate::message::pending_work::PendingWork;
use serde::{Deserialize, Serialize};

/// The report of an idle PE.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Looked {
    pub(crate) round: u64,
    /// Number of messages created and handled by the PE since the start.
    pub(crate) activity: u64,
    /// Whether nothing waits on the PE, no timer is set, and everything that its node had sent
    /// before the PE's previous answer has arrived.
    pub(crate) is_quiet: bool,
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
