//! What is known where each call is placed by itself.

use crate::graph::TaskGraph;
use crate::platform::Platform;

/// What the client, and the agent that it asks, know.
pub(super) struct Agent {
    /// Arguments of each task that are not at the client.
    pub(super) missing: Vec<usize>,
    /// Until when each core of each server is taken by calls that were placed, as the agent
    /// believes.
    pub(super) taken_until_s: Vec<Vec<f64>>,
}

impl Agent {
    pub(super) fn new(graph: &TaskGraph, platform: &Platform) -> Self {
        let cores = |server: &crate::platform::ServerSpec| vec![0.0; server.cores as usize];
        Self {
            missing: graph.tasks().iter().map(|task| task.inputs.len()).collect(),
            taken_until_s: platform.servers().iter().map(cores).collect(),
        }
    }
}
