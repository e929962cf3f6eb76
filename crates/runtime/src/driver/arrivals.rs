//! Tells whether all that a node has sent has arrived, without waiting for it.

use crate::net::Transport;
use gridspan_topology::NodeId;
use std::collections::BTreeMap;

/// How many bytes had been sent to each other node at the last look.
#[derive(Default)]
pub(super) struct Arrivals(BTreeMap<NodeId, u64>);

impl Arrivals {
    /// Whether others have acknowledged all that had been sent to them at the last look, and can be
    /// reached where more was sent since. False at the first look.
    pub(super) fn look(&mut self, transport: &Transport) -> bool {
        let mut is_all = true;
        for node in transport.others() {
            let stats = transport.stats(node);
            let arrived = stats.bytes_acknowledged;
            let before = self.0.insert(node, arrived + stats.bytes_unacknowledged);
            let is_reached = stats.is_open || stats.bytes_unacknowledged == 0;
            let has_come = before.is_some_and(|sent| arrived >= sent);
            is_all &= has_come && is_reached && !transport.is_lost(node);
        }
        is_all
    }
}
