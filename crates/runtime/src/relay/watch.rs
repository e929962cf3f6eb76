//! How long large tree broadcasts and multicasts take until all nodes have them.
//!
//! The relay where one begins notes when, and when the word of each node comes back. No PE is
//! asked, which may be inside a handler for long. How long that word was on its way is for those to
//! say who know the links.

use crate::message::FlowId;
use gridspan_topology::Time;
use std::collections::BTreeMap;

/// Tree broadcasts and multicasts of which words are missing; the first to begin are forgotten
/// beyond, as the coordinator forgets them.
const WATCHED_MAX: usize = 256;

/// When what began.
#[derive(Default)]
pub(super) struct Watch(BTreeMap<FlowId, Time>);

impl Watch {
    /// Something begins that nodes will report of.
    pub(super) fn begin(&mut self, now: Time, flow: FlowId) {
        self.0.insert(flow, now);
        if self.0.len() > WATCHED_MAX {
            let first = self.0.iter().min_by_key(|(_, at)| **at).map(|(&flow, _)| flow);
            first.and_then(|flow| self.0.remove(&flow));
        }
    }

    /// When it began, if it did here and is still watched.
    pub(super) fn begun(&self, flow: FlowId) -> Option<Time> {
        self.0.get(&flow).copied()
    }
}
