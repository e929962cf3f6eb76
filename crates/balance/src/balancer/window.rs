//! What balancers are told: a span of time in which loads were measured.

use super::report::Cause;
use crate::snapshot::Snapshot;
use gridspan_topology::Time;
use std::time::Duration;

/// What was measured, and why.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    /// When it ended.
    pub now: Time,
    /// Why it was measured.
    pub cause: Cause,
    /// What was measured.
    pub snapshot: &'a Snapshot,
    /// How long it was, pauses left out.
    pub time: Duration,
    /// How many messages all actors have handled in it.
    pub handled: u64,
    /// Whether the job loses time while a strategy plans. It does not in a simulation.
    pub takes_time: bool,
}

/// The same where nobody holds a snapshot of all.
#[derive(Clone, Copy, Debug)]
pub struct Occasion {
    /// When the window ended.
    pub now: Time,
    /// Why it was measured.
    pub cause: Cause,
    /// How long it was, pauses left out.
    pub time: Duration,
    /// How many messages all actors have handled in it.
    pub handled: u64,
}

impl Occasion {
    pub(super) fn of(window: &Window<'_>) -> Self {
        let &Window { now, cause, time, handled, .. } = window;
        Self { now, cause, time, handled }
    }
}
