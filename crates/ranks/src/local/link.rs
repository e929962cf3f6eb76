//! The two groups of a spawn, which stay connected over migration points.

use crate::runs::{self, Run};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// The inter-communicator between ranks and those that they have spawned, as one of them keeps it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Link {
    /// The number of the communicator; the next one is that of both groups together.
    pub(crate) number: u32,
    /// Whether the other group has spawned this one.
    pub(crate) is_parent: bool,
    mine: Vec<Run>,
    remote: Vec<Run>,
    /// Number of collective operations that this rank has begun between the groups.
    pub(crate) operations: Arc<AtomicU32>,
}

impl Link {
    /// A link between ranks of the job, in the order of their groups.
    pub(crate) fn new(number: u32, is_parent: bool, mine: &[u32], remote: &[u32]) -> Self {
        let runs =
            |ranks: &[u32]| runs::runs(ranks.iter().copied(), usize::MAX).unwrap_or_default();
        let (mine, remote) = (runs(mine), runs(remote));
        Self { number, is_parent, mine, remote, operations: Arc::default() }
    }

    /// The group of this rank.
    pub(crate) fn mine(&self) -> Vec<u32> {
        runs::ranks(&self.mine).collect()
    }

    /// The other group.
    pub(crate) fn remote(&self) -> Vec<u32> {
        runs::ranks(&self.remote).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_return_in_their_order() {
        let (mine, remote) = ([4, 5, 6, 2, 3, 9], [10, 11]);
        let link = Link::new(7, false, &mine, &remote);
        assert_eq!((link.mine.len(), link.remote.len()), (3, 1));
        assert_eq!((link.mine(), link.remote()), (mine.to_vec(), remote.to_vec()));
    }
}
