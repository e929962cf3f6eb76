//! Messages of a directory or a head, to other nodes or to its own node.

use super::super::layout::StealingLayout;
use super::super::message::StealMessage;
use gridspan_topology::{NodeId, Time};
use std::collections::VecDeque;

/// The time, the places, and the queue of messages to send.
#[derive(Debug)]
pub(super) struct Outgoing<'a> {
    pub(super) now: Time,
    pub(super) me: NodeId,
    pub(super) places: &'a StealingLayout,
    pub(super) out: &'a mut VecDeque<(NodeId, StealMessage)>,
}

impl Outgoing<'_> {
    pub(super) fn send(&mut self, to: NodeId, message: StealMessage) {
        self.out.push_back((to, message));
    }

    /// Returns the site and the part of this node.
    pub(super) fn own(&self) -> (usize, usize) {
        self.places.place(self.me).unwrap_or_default()
    }

    /// Returns whether a head can level work: whether there are other sites, or other parts here.
    pub(super) fn has_head(&self) -> bool {
        self.places.site_count() > 1 || self.places.part_count(self.own().0) > 1
    }

    /// Returns the nodes of this node's part.
    pub(super) fn own_nodes(&self) -> &[NodeId] {
        let (site, part) = self.own();
        self.places.nodes_of_part(site, part)
    }
}
