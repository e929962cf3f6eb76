//! All other nodes as seen by this node: the founders, and guests once this node has learned of
//! them.

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

    /// Adds a guest unless it is known. Any guest with a certificate for its number is admitted;
    /// the job's authority has issued few of these.
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

    /// Returns the numbers of all known nodes.
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
        let message = "links belong to known nodes";
        self.get_mut(node).expect(message)
    }
}
