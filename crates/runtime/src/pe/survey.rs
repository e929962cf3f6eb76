//! A node's part in the measurement of places and links: its first PE takes the orders and reports
//! the results. `coordinator/survey` decides what to measure.

use super::command::PeCommand;
use super::core::Core;
use crate::address::id::COORDINATOR;
use crate::message::Control;
use crate::message::probe::{ProbeOrder, ProbeReport};
use crate::pe::membership::pool_hooks::PoolEvent;
use gridspan_topology::{Hierarchy, LinkSample, NodeId, PeId};
use std::sync::Arc;

impl Core {
    /// Stores the measured hierarchy, if this is the first PE of its node. Ignores a hierarchy that
    /// does not consist of the founders.
    pub(super) fn handle_hierarchy(&mut self, from: PeId, hierarchy: Hierarchy) {
        let layout = &self.common.layout;
        let is_whole = hierarchy.nodes().eq(layout.nodes());
        if from == COORDINATOR && is_whole && layout.leader(layout.node_of(self.me)) == self.me {
            self.hierarchy = Some(Arc::new(hierarchy));
            self.tell_pools(PoolEvent::Measured);
        }
    }

    /// Passes a probe order to the driver, or answers it with an empty report if it is not valid.
    pub(super) fn handle_probe(&mut self, order: ProbeOrder) {
        let layout = &self.common.layout;
        let me = layout.node_of(self.me);
        let is_other = |node: &NodeId| *node != me && node.0 < layout.node_count();
        if order.targets.iter().all(is_other) && !order.targets.is_empty() {
            return self.commands.push(PeCommand::Probe(order));
        }
        self.probed(ProbeReport { id: order.id, send_cost: None, found: Vec::new() });
    }

    /// Reports the results of a probe order to the coordinator.
    pub fn probed(&mut self, report: ProbeReport) {
        self.post(COORDINATOR, Control::Probed(report));
    }

    /// Reports samples of this node's connections to the coordinator.
    #[cfg_attr(not(feature = "net"), expect(dead_code, reason = "only a network has connections"))]
    pub(crate) fn observed(&mut self, samples: Vec<(NodeId, LinkSample)>) {
        self.post(COORDINATOR, Control::Links { samples });
    }
}
