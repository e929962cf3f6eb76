//! The two groups of a spawn, which stay connected over migration points.

use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// The inter-communicator between the ranks that have spawned others and those others, as one of
/// them keeps it.
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

/// Ranks with consecutive numbers in the job: the first, and how many. Groups are mostly one run.
type Run = (u32, u32);

impl Link {
    /// A link between ranks of the job, in the order of their groups.
    pub(crate) fn new(number: u32, is_parent: bool, mine: &[u32], remote: &[u32]) -> Self {
        let operations = Arc::default();
        Self { number, is_parent, mine: runs(mine), remote: runs(remote), operations }
    }

    /// The group of this rank.
    pub(crate) fn mine(&self) -> Vec<u32> {
        ranks(&self.mine)
    }

    /// The other group.
    pub(crate) fn remote(&self) -> Vec<u32> {
        ranks(&self.remote)
    }
}

fn runs(ranks: &[u32]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for rank in ranks {
        match runs.last_mut() {
            Some((first, count)) if first.checked_add(*count) == Some(*rank) => *count += 1,
            _ => runs.push((*rank, 1)),
        }
    }
    runs
}

fn ranks(runs: &[Run]) -> Vec<u32> {
    runs.iter().flat_map(|(first, count)| *first..first.saturating_add(*count)).collect()
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
