//! Estimated arrival times of data, for heuristics that ignore contention: each transfer has its
//! links to itself, and starts at the place that had the data first.

use crate::graph::TaskGraph;
use crate::id::{DataId, Endpoint, ServerId, TaskId};
use crate::platform::Platform;

/// The locations of each datum, with the time in seconds at which it is made there, or arrives
/// there for a task placed earlier.
#[derive(Clone, Debug)]
pub(super) struct Arrivals<'a> {
    graph: &'a TaskGraph,
    platform: &'a Platform,
    copies: Vec<Vec<(Endpoint, f64)>>,
}

impl<'a> Arrivals<'a> {
    pub(super) fn new(graph: &'a TaskGraph, platform: &'a Platform) -> Self {
        let held = |data: &crate::graph::Data| data.held_by.iter().map(|&at| (at, 0.0)).collect();
        Self { graph, platform, copies: graph.data().iter().map(held).collect() }
    }

    /// Returns the time at which data can be on a server; infinite if nothing holds it.
    fn data_s(&self, data: DataId, server: ServerId) -> f64 {
        let (to, bytes) = (Endpoint::Server(server), self.graph.datum(data).bytes);
        let copies = &self.copies[data.index()];
        match copies.iter().find(|copy| copy.0 == to && self.keeps(server)) {
            Some(&(_, at_s)) => at_s,
            None => copies.first().map_or(f64::INFINITY, |&(from, at_s)| {
                let bridged_s = if from == to && !self.keeps(server) {
                    // A server that keeps no data receives even its own results back from the
                    // client.
                    let client = Endpoint::Client;
                    self.platform.transfer_s(bytes, from, client)
                        + self.platform.transfer_s(bytes, client, to)
                } else {
                    self.platform.transfer_s(bytes, from, to)
                };
                at_s + bridged_s
            }),
        }
    }

    fn keeps(&self, server: ServerId) -> bool {
        self.platform.server(server).is_direct
    }

    /// Returns the time at which a server has all inputs of a task. The task's parents must be
    /// placed.
    pub(super) fn inputs_s(&self, task: TaskId, server: ServerId) -> f64 {
        let inputs = self.graph.task(task).inputs.iter();
        inputs.map(|&data| self.data_s(data, server)).fold(0.0, f64::max)
    }

    /// Places a task that ends on a server at `end_s`: its inputs have arrived there, and its
    /// outputs are made there.
    pub(super) fn place(&mut self, task: TaskId, server: ServerId, end_s: f64) {
        let at = Endpoint::Server(server);
        for &data in &self.graph.task(task).inputs {
            let there_s = self.data_s(data, server);
            let copies = &mut self.copies[data.index()];
            if !copies.iter().any(|copy| copy.0 == at) {
                copies.push((at, there_s));
            }
        }
        for &data in &self.graph.task(task).outputs {
            self.copies[data.index()].push((at, end_s));
        }
    }
}
