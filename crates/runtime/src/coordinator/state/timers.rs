//! What the coordinator does later.

use gridspan_topology::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Something to do later. All of it comes again and again, or leads to nothing where nothing
/// happens: a job in which only these are left has stalled.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Timer {
    BeginQuiescenceRound,
    /// The period after which the job is balanced.
    Period(Duration),
    LookAtEvent(u64),
    /// Ask how many messages PEs have handled, unless that was asked since question `0`.
    ProbeProgress(u64),
    /// All loads are here: decide what moves. A timer, since that may take long, and only the
    /// thread that wakes the coordinator should spend it.
    Decide,
    LookAtLinks,
    BeginPlanning,
    CheckStall,
    TimeIsUp,
    EndAtLimit,
}

/// Timers by due time and, among equals, in the order they were set.
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
