//! What was seen of the servers while a group is executed, and when a task is late.

use crate::graph::TaskGraph;
use crate::id::ServerId;
use crate::platform::Platform;

/// A task is late when it has taken so many times as long as it should.
const LATE: f64 = 1.5;
/// A late task is looked at again after this part of the time for which it has run, and at least so
/// many seconds.
const AGAIN: f64 = 0.25;
const AGAIN_S_MIN: f64 = 1e-3;

/// What was seen of the servers.
#[derive(Clone, Debug)]
pub struct Watch {
    /// Whether late tasks are begun again elsewhere.
    pub is_copying: bool,
    /// How long the tasks that ended on each server took and should have taken, in seconds.
    pub seen_s: Vec<(f64, f64)>,
    /// The time of a mean task on each server.
    pub mean_s: Vec<f64>,
}

impl Watch {
    /// Nothing yet.
    pub fn new(graph: &TaskGraph, platform: &Platform, is_copying: bool) -> Self {
        let mean = graph.work_s() / graph.tasks().len().max(1) as f64;
        let mean_s = platform.server_ids().map(|server| platform.time_s(mean, server));
        let seen_s = vec![(0.0, 0.0); platform.servers().len()];
        Self { is_copying, seen_s, mean_s: mean_s.collect() }
    }

    /// A task on a server has ended, or was given up: then it says something only if it was late.
    pub fn observe(&mut self, server: ServerId, took_s: f64, should_s: f64, has_ended: bool) {
        if has_ended || took_s > should_s {
            let (seen_took_s, seen_should_s) = &mut self.seen_s[server.index()];
            *seen_took_s += took_s;
            *seen_should_s += should_s;
        }
    }

    /// After which time a task that should take so long is late.
    pub fn patience_s(expected_s: f64) -> f64 {
        expected_s * LATE
    }

    /// When to look again at a late task that has run for so long.
    pub fn look_again_s(ran_s: f64) -> f64 {
        (ran_s * AGAIN).max(AGAIN_S_MIN)
    }
}
