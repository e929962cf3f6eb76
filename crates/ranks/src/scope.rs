//! The ranks of a communicator, and where they live.

use crate::places::{Places, Trees};
use crate::tree::CommTree;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The members of a communicator, by their rank in it.
#[derive(Debug)]
enum Members {
    /// All ranks of the world.
    World,
    /// These ranks of the world, and the ranks of the communicator by them.
    Listed { ranks: Vec<u32>, positions: BTreeMap<u32, u32>, trees: Trees },
}

/// The ranks of a communicator.
#[derive(Debug)]
pub(crate) struct Scope {
    members: Members,
    places: Arc<Places>,
}

impl Scope {
    /// The whole world.
    pub(crate) fn world(places: Arc<Places>) -> Self {
        Self { members: Members::World, places }
    }

    /// These ranks of the world, in this order.
    pub(crate) fn listed(ranks: Vec<u32>, places: Arc<Places>) -> Self {
        let positions = ranks.iter().enumerate().map(|(at, rank)| (*rank, at as u32)).collect();
        Self { members: Members::Listed { ranks, positions, trees: Trees::default() }, places }
    }

    /// Number of ranks.
    pub(crate) fn size(&self) -> u32 {
        match &self.members {
            Members::World => self.places.len(),
            Members::Listed { ranks, .. } => ranks.len() as u32,
        }
    }

    /// The rank in the world of a rank of the communicator.
    pub(crate) fn in_world(&self, rank: u32) -> Option<u32> {
        match &self.members {
            Members::World => (rank < self.places.len()).then_some(rank),
            Members::Listed { ranks, .. } => ranks.get(rank as usize).copied(),
        }
    }

    /// The rank in the communicator of a rank of the world.
    pub(crate) fn position(&self, in_world: u32) -> Option<u32> {
        match &self.members {
            Members::World => (in_world < self.places.len()).then_some(in_world),
            Members::Listed { positions, .. } => positions.get(&in_world).copied(),
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
            Members::World => self.places.trees().of(root, places),
            Members::Listed { trees, .. } => trees.of(root, places),
        }
    }
}
