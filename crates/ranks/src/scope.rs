//! The ranks of a communicator, and where they live.

use crate::places::{Members, Places};
use crate::tree::CommTree;
use std::sync::Arc;

/// The ranks of a communicator.
#[derive(Debug)]
pub(crate) struct Scope {
    /// Its members; `None` for all ranks of the world.
    members: Option<Arc<Members>>,
    places: Arc<Places>,
}

impl Scope {
    /// The whole world.
    pub(crate) fn world(places: Arc<Places>) -> Self {
        Self { members: None, places }
    }

    /// The ranks of the communicator of this number: these of the world, in this order.
    pub(crate) fn listed(number: u32, ranks: Vec<u32>, places: Arc<Places>) -> Self {
        Self { members: Some(places.members().of(number, ranks)), places }
    }

    /// Number of ranks.
    pub(crate) fn size(&self) -> u32 {
        match &self.members {
            None => self.places.len(),
            Some(members) => members.ranks.len() as u32,
        }
    }

    /// The rank in the world of a rank of the communicator.
    pub(crate) fn in_world(&self, rank: u32) -> Option<u32> {
        match &self.members {
            None => (rank < self.places.len()).then_some(rank),
            Some(members) => members.ranks.get(rank as usize).copied(),
        }
    }

    /// The rank in the communicator of a rank of the world.
    pub(crate) fn position(&self, in_world: u32) -> Option<u32> {
        match &self.members {
            None => (in_world < self.places.len()).then_some(in_world),
            Some(members) => members.positions.get(&in_world).copied(),
        }
    }

    /// The site and PE of a rank of the communicator.
    pub(crate) fn place(&self, rank: u32) -> (u32, u32) {
        self.places.of(self.in_world(rank).unwrap_or_default())
    }

    /// The table of the world.
    pub(crate) fn places(&self) -> &Arc<Places> {
        &self.places
    }

    /// The tree over the communicator from a root, which is one of its ranks.
    pub(crate) fn tree(&self, root: u32) -> Arc<CommTree> {
        let places = || (0..self.size()).map(|rank| self.place(rank)).collect();
        match &self.members {
            None => self.places.trees().of(root, places),
            Some(members) => members.trees.of(root, places),
        }
    }
}
