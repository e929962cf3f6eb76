//! The input of a balancer: a span of time in which loads were measured.

use super::report::Cause;
use crate::snapshot::Snapshot;
use gridspan_topology::Time;
use std::time::Duration;

/// A measured window.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    /// Time at which it ended.
    pub now: Time,
    /// Reason for the measurement.
    pub cause: Cause,
    /// The measurements.
    pub snapshot: &'a Snapshot,
    /// Length of the window, without pauses.
    pub time: Duration,
    /// Number of messages that all actors handled in it.
    pub handled: u64,
    /// Whether the job loses time while a strategy plans; `false` in simulations.
    pub takes_time: bool,
}

/// A [`Window`] without its snapshot: leaders plan without a snapshot of all actors.
#[derive(Clone, Copy, Debug)]
pub struct Occasion {
    /// Time at which the window ended.
    pub now: Time,
    /// Reason for the measurement.
    pub cause: Cause,
    /// Length of the window, without pauses.
    pub time: Duration,
    /// Number of messages that all actors handled in it.
    pub handled: u64,
}

impl Occasion {
    pub(super) fn of(window: &Window<'_>) -> Self {
        let &Window { now, cause, time, handled, .. } = window;
        Self { now, cause, time, handled }
    }
}
