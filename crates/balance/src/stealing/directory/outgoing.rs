//! What a directory or a head has to say, to other nodes or to the one it is on.

use super::super::layout::StealingLayout;
use super::super::message::StealMessage;
use gridspan_topology::{NodeId, Time};
use std::collections::VecDeque;

/// The time, the places, and the messages to be sent.
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

    /// The site and the part that this node is in.
    pub(super) fn own(&self) -> (usize, usize) {
        self.places.place(self.me).unwrap_or_default()
    }

    /// Whether there is anyone that a head would level work with.
    pub(super) fn has_head(&self) -> bool {
        self.places.site_count() > 1 || self.places.part_count(self.own().0) > 1
    }

    /// The nodes whose directory is here if one is.
    pub(super) fn own_nodes(&self) -> &[NodeId] {
        let (site, part) = self.own();
        self.places.nodes_of_part(site, part)
    }
}
