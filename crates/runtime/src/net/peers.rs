//! All other nodes as this one sees them: the founders, and guests from when they are first heard
//! of.

use super::peer::Peer;
use gridspan_topology::NodeId;
use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

/// The other nodes. This node's own entry is never used.
#[derive(Debug)]
pub(super) struct Peers {
    founders: Vec<Peer>,
    guests: BTreeMap<NodeId, Peer>,
}

impl Peers {
    pub(super) fn new(founders: Vec<Peer>) -> Self {
        Self { founders, guests: BTreeMap::new() }
    }

    /// Adds a guest unless it is known. Whoever comes with a certificate for its number is
    /// admitted, and the job's authority has issued few of these.
    pub(super) fn meet(&mut self, guest: NodeId, new: impl FnOnce() -> Peer) {
        if guest.index() >= self.founders.len() {
            self.guests.entry(guest).or_insert_with(new);
        }
    }

    pub(super) fn get(&self, node: NodeId) -> Option<&Peer> {
        self.founders.get(node.index()).or_else(|| self.guests.get(&node))
    }

    pub(super) fn get_mut(&mut self, node: NodeId) -> Option<&mut Peer> {
        match self.founders.get_mut(node.index()) {
            Some(peer) => Some(peer),
            None => self.guests.get_mut(&node),
        }
    }

    /// Everybody that is known.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.founders.iter().chain(self.guests.values())
    }

    /// The numbers of everybody that is known.
    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        let guests: Vec<NodeId> = self.guests.keys().copied().collect();
        (0..self.founders.len()).map(NodeId::from).chain(guests)
    }
}

impl Index<NodeId> for Peers {
    type Output = Peer;

    /// Panics if the node is not known.
    fn index(&self, node: NodeId) -> &Peer {
        self.founders.get(node.index()).unwrap_or_else(|| &self.guests[&node])
    }
}

impl IndexMut<NodeId> for Peers {
    fn index_mut(&mut self, node: NodeId) -> &mut Peer {
        let message = "links are of nodes that are known";
        self.get_mut(node).expect(message)
    }
}
