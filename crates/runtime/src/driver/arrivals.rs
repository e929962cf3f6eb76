//! Detects, without waiting, whether all bytes that a node has sent have arrived.

use crate::net::Transport;
use gridspan_topology::NodeId;
use std::collections::BTreeMap;

/// Bytes sent to each other node at the time of the last look.
#[derive(Default)]
pub(super) struct Arrivals(BTreeMap<NodeId, u64>);

impl Arrivals {
    /// Returns whether each other node has acknowledged all bytes sent to it until the last look
    /// and, if later bytes are unacknowledged, has an open connection. Lost nodes do not count: the
    /// coordinator learns of each loss, and decides whether the job goes on. Notes the bytes sent
    /// until now for the next look. The first look returns false if there are other nodes.
    pub(super) fn look(&mut self, transport: &Transport) -> bool {
        let mut is_all = true;
        for node in transport.others().filter(|&node| !transport.is_lost(node)) {
            let stats = transport.stats(node);
            let arrived = stats.bytes_acknowledged;
            let before = self.0.insert(node, arrived + stats.bytes_unacknowledged);
            let is_reached = stats.is_open || stats.bytes_unacknowledged == 0;
            let has_come = before.is_some_and(|sent| arrived >= sent);
            is_all &= has_come && is_reached;
        }
        is_all
    }
}
