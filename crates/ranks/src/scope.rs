//! The ranks of a communicator, and where they live.

use crate::places::{Members, Places};
use crate::runs::{self, Run};
use crate::sharing::Sharing;
use crate::tree::CommTree;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The ranks of one world communicator: those that began together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct World {
    /// The number in the job of its first rank; the others follow.
    pub(crate) first: u32,
    /// Number of ranks.
    pub(crate) size: u32,
}

impl World {
    /// The ranks with which the job began.
    pub(crate) fn of_job(size: u32) -> Self {
        Self { first: 0, size }
    }

    /// Whether these ranks were spawned by others.
    pub(crate) fn is_spawned(self) -> bool {
        self.first > 0
    }

    /// The ranks of its communicator.
    pub(crate) fn scope(self, places: Arc<Places>) -> Scope {
        let Self { first, size } = self;
        match (first, size) == (0, places.len()) {
            true => Scope::all(places),
            false => Scope::listed(0, (first..first + size).collect(), places),
        }
    }
}

/// The ranks of a communicator. Each communicator has a value of this type, which its clones share
/// and which is dropped with the last of them.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    /// Its members; `None` for all ranks of the table of places.
    members: Option<Arc<Members>>,
    places: Arc<Places>,
}

/// The ranks any one of which can end a wait.
#[derive(Clone, Debug)]
pub(crate) enum Peers {
    /// This rank of the job.
    One(u32),
    /// Any rank of a communicator.
    All(Arc<Scope>),
}

impl Peers {
    /// Whether this rank of the job is one of them.
    pub(crate) fn includes(&self, in_job: u32) -> bool {
        match self {
            Self::One(rank) => *rank == in_job,
            Self::All(scope) => scope.position(in_job).is_some(),
        }
    }

    /// The ranks, as runs. `None` if there are more than `most` runs.
    pub(crate) fn runs(&self, most: usize) -> Option<Vec<Run>> {
        match self {
            Self::One(rank) => Some(vec![(*rank, 1)]),
            Self::All(scope) => scope.runs(most),
        }
    }
}

impl Scope {
    /// This rank of the communicator as a peer, or all of its ranks.
    pub(crate) fn peers(self: &Arc<Self>, rank: Option<u32>) -> Peers {
        match rank.and_then(|rank| self.in_job(rank)) {
            Some(rank) => Peers::One(rank),
            None => Peers::All(self.clone()),
        }
    }

    fn all(places: Arc<Places>) -> Self {
        Self { members: None, places }
    }

    /// The communicator of this number, with these ranks of the job in this order.
    pub(crate) fn listed(number: u32, ranks: Vec<u32>, places: Arc<Places>) -> Self {
        Self { members: Some(places.members().of(number, ranks)), places }
    }

    /// The numbers of its ranks in the job, as runs. `None` if there are more than `most` runs.
    pub(crate) fn runs(&self, most: usize) -> Option<Vec<Run>> {
        match &self.members {
            None => Some(vec![(0, self.places.len())]),
            Some(members) => runs::runs(members.ranks.iter().copied(), most),
        }
    }

    /// Number of ranks.
    pub(crate) fn size(&self) -> u32 {
        match &self.members {
            None => self.places.len(),
            Some(members) => members.ranks.len() as u32,
        }
    }

    /// The number in the job of a rank of the communicator.
    pub(crate) fn in_job(&self, rank: u32) -> Option<u32> {
        match &self.members {
            None => (rank < self.places.len()).then_some(rank),
            Some(members) => members.ranks.get(rank as usize).copied(),
        }
    }

    /// The rank in the communicator of a rank of the job.
    pub(crate) fn position(&self, in_job: u32) -> Option<u32> {
        match &self.members {
            None => (in_job < self.places.len()).then_some(in_job),
            Some(members) => members.positions.get(&in_job).copied(),
        }
    }

    /// The site and PE of a rank of the communicator.
    pub(crate) fn place(&self, rank: u32) -> (u32, u32) {
        self.places.of(self.in_job(rank).unwrap_or_default())
    }

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

    /// The choice among allreduce algorithms; `None` if the job has only one node.
    pub(crate) fn sharing(&self) -> Option<Arc<Sharing>> {
        let links = self.places.links();
        if !links.has_network() {
            return None;
        }
        let places = || (0..self.size()).map(|rank| self.place(rank)).collect();
        Some(match &self.members {
            None => self.places.trees().sharing(places, links),
            Some(members) => members.trees.sharing(places, links),
        })
    }
}
