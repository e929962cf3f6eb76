//! The observations of servers during an execution, and the time at which a task is late.

use crate::graph::TaskGraph;
use crate::id::ServerId;
use crate::platform::Platform;

/// Multiple of its expected time after which a task is late.
const LATE: f64 = 1.5;
/// Interval between checks of a late task, as a fraction of the time for which it has run.
const AGAIN: f64 = 0.25;
/// Minimum interval between checks of a late task, in seconds.
const AGAIN_S_MIN: f64 = 1e-3;

/// The observations of the servers.
#[derive(Clone, Debug)]
pub struct Watch {
    /// Whether other servers start copies of late tasks.
    pub is_copying: bool,
    /// Total actual and expected time of the tasks that ended on each server, in seconds.
    pub seen_s: Vec<(f64, f64)>,
    /// The time of a mean task on each server, in seconds.
    pub mean_s: Vec<f64>,
}

impl Watch {
    /// Creates an empty set of observations.
    pub fn new(graph: &TaskGraph, platform: &Platform, is_copying: bool) -> Self {
        let mean = graph.work_s() / graph.tasks().len().max(1) as f64;
        let mean_s = platform.server_ids().map(|server| platform.time_s(mean, server));
        let seen_s = vec![(0.0, 0.0); platform.servers().len()];
        Self { is_copying, seen_s, mean_s: mean_s.collect() }
    }

    /// Adds a task that has ended on a server, or was given up; a task given up counts only if it
    /// took longer than expected.
    pub fn observe(&mut self, server: ServerId, took_s: f64, expected_s: f64, has_ended: bool) {
        if has_ended || took_s > expected_s {
            let (seen_took_s, seen_expected_s) = &mut self.seen_s[server.index()];
            *seen_took_s += took_s;
            *seen_expected_s += expected_s;
        }
    }

    /// Returns the time after which a task with an expected time of `expected_s` is late.
    pub fn patience_s(expected_s: f64) -> f64 {
        expected_s * LATE
    }

    /// Returns the time until the next check of a late task that has run for `ran_s`.
    pub fn look_again_s(ran_s: f64) -> f64 {
        (ran_s * AGAIN).max(AGAIN_S_MIN)
    }
}
