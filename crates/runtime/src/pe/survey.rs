//! A node's part in measuring places and links: its first PE takes the orders and reports. What is
//! measured, and what for, is in `coordinator/survey`.

use super::core::Core;
use crate::address::id::COORDINATOR;
use crate::message::Control;
use crate::message::probe::{ProbeOrder, ProbeReport};
use crate::pe::membership::state::PoolEvent;
use gridspan_topology::{Hierarchy, LinkSample, NodeId, PeId};
use std::sync::Arc;

impl Core {
    /// The places are known. A hierarchy that is not of the founders is for nobody.
    pub(super) fn handle_hierarchy(&mut self, from: PeId, hierarchy: Hierarchy) {
        let layout = &self.common.layout;
        let is_whole = hierarchy.nodes().eq(layout.nodes());
        if from == COORDINATOR && is_whole && layout.leader(layout.node_of(self.me)) == self.me {
            self.hierarchy = Some(Arc::new(hierarchy));
            self.tell_pools(PoolEvent::Measured);
        }
    }

    /// Has this node measure.
    pub(super) fn handle_probe(&mut self, order: ProbeOrder) {
        let layout = &self.common.layout;
        let me = layout.node_of(self.me);
        let is_other = |node: &NodeId| *node != me && node.0 < layout.node_count();
        if order.targets.iter().all(is_other) && !order.targets.is_empty() {
            return self.probe_orders.push(order);
        }
        self.probed(ProbeReport { id: order.id, send_cost: None, found: Vec::new() });
    }

    /// This node has measured.
    pub fn probed(&mut self, report: ProbeReport) {
        self.post(COORDINATOR, Control::Probed(report));
    }

    /// This node's connections show something.
    #[cfg_attr(not(feature = "net"), expect(dead_code, reason = "only a network has connections"))]
    pub(crate) fn observed(&mut self, samples: Vec<(NodeId, LinkSample)>) {
        self.post(COORDINATOR, Control::Links { samples });
    }
}
