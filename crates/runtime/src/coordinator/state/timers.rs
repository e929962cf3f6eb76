//! Timers of the coordinator.

use gridspan_topology::{NodeId, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// A timer. A job in which only timers are left has stalled: apart from the time limit and
/// diagnoses, each kind is periodic or has no effect if nothing else happens.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Timer {
    BeginQuiescenceRound,
    /// The period after which the job is balanced.
    Period(Duration),
    LookAtEvent(u64),
    /// Send a progress probe, unless one was sent after the probe with this number.
    ProbeProgress(u64),
    /// All loads are here: decide on moves. This is a timer because it may take long, and only the
    /// thread that wakes the coordinator should spend that time.
    Decide,
    LookAtLinks,
    BeginPlanning,
    CheckStall,
    TimeIsUp,
    EndDiagnosis(u64),
    BeginPhaseRound(u32),
    EndDrainPause,
    /// Begin the second round of the diagnosis of this number.
    DiagnoseAgain(u64),
    /// Give up the checkpoint that is being made if some PE has not done its part in time.
    LookAtCheckpoint,
    /// End the job if it is still undecided whether it continues without this founder.
    EndSuspension(NodeId),
}

/// Timers by due time and, at equal times, in the order they were set.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Timers {
    pub(crate) due: BTreeMap<(Time, u64), Timer>,
    pub(crate) set: u64,
}

impl Timers {
    pub(crate) fn next(&self) -> Option<Time> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }

    pub(crate) fn take_due(&mut self, now: Time) -> Option<Timer> {
        let entry = self.due.first_entry()?;
        (entry.key().0 <= now).then(|| entry.remove())
    }
}
