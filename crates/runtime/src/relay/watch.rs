//! Measures how long large tree broadcasts and multicasts take until all nodes have them.
//!
//! The relay at which one begins notes its start, and sends the coordinator the time until each
//! node's report arrives. PEs are not involved, since they may be inside a handler for long. The
//! advisor, which knows the links, accounts for the time that the reports take.

use crate::message::FlowId;
use gridspan_topology::Time;
use std::collections::BTreeMap;

/// Maximum number of watched tree broadcasts and multicasts; beyond it the oldest is dropped, as in
/// the coordinator.
const WATCHED_MAX: usize = 256;

/// Start times of tree broadcasts and multicasts.
#[derive(Default)]
pub(super) struct Watch(BTreeMap<FlowId, Time>);

impl Watch {
    /// Notes the start of a flow on which nodes will report.
    pub(super) fn begin(&mut self, now: Time, flow: FlowId) {
        self.0.insert(flow, now);
        if self.0.len() > WATCHED_MAX {
            let first = self.0.iter().min_by_key(|(_, at)| **at).map(|(&flow, _)| flow);
            first.and_then(|flow| self.0.remove(&flow));
        }
    }

    /// Returns the start of a flow, if it began here and is still watched.
    pub(super) fn begun(&self, flow: FlowId) -> Option<Time> {
        self.0.get(&flow).copied()
    }
}
