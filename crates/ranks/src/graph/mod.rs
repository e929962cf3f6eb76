//! Graph topologies: ranks that exchange data with the neighbours that each of them names.

mod exchange;

use crate::comm::Comm;
use crate::error::RankError;
use std::ops::Deref;

/// A communicator whose ranks have neighbours: those they receive from, and those they send to.
///
/// [`site`](Comm::site) says which neighbours are at other sites. Exchanges send to those first.
///
/// ```
/// use gridspan::ranks::{self, NeighbourGraph};
///
/// let job = ranks::run(6, async |world| {
///     // A binary tree, upwards: each rank receives from its children.
///     let me = world.rank();
///     let children: Vec<u32> = (2 * me + 1..=2 * me + 2).filter(|child| *child < 6).collect();
///     let parent: Vec<u32> = me.checked_sub(1).map(|above| above / 2).into_iter().collect();
///     let tree: NeighbourGraph = world.graph(&children, &parent).await?;
///     let numbers = tree.neighbour_allgatherv(&[10 * me]).await?;
///     assert_eq!(numbers.concat(), children.iter().map(|child| 10 * child).collect::<Vec<_>>());
///     Ok(())
/// });
/// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct NeighbourGraph {
    comm: Comm,
    sources: Vec<u32>,
    destinations: Vec<u32>,
}

impl Deref for NeighbourGraph {
    type Target = Comm;

    fn deref(&self) -> &Comm {
        &self.comm
    }
}

impl NeighbourGraph {
    /// The ranks from which this rank receives, in the order in which it named them.
    pub fn sources(&self) -> &[u32] {
        &self.sources
    }

    /// The ranks to which this rank sends, in the order in which it named them.
    pub fn destinations(&self) -> &[u32] {
        &self.destinations
    }
}

impl Comm {
    /// Makes a communicator of the same ranks in which this rank receives from `sources` and sends
    /// to `destinations`. A rank may name another several times: the edges between two ranks are
    /// then used in the order in which each names them. A collective operation.
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`], and [`RankError::OneSidedEdge`] at all ranks if an edge is named
    /// by one of its two ranks only.
    pub async fn graph(
        &self,
        sources: &[u32],
        destinations: &[u32],
    ) -> Result<NeighbourGraph, RankError> {
        let (at, me) = (self.at("graph"), self.rank());
        for rank in sources.iter().chain(destinations) {
            self.check(*rank, at.with(Some(*rank), None))?;
        }
        let comm = self.dup().await?;
        let leaving = destinations.iter().map(|to| edge(me, *to));
        let entering = sources.iter().map(|from| edge(*from, me).wrapping_neg());
        let mine = leaving.chain(entering).fold(0, u64::wrapping_add);
        if comm.allreduce(&[mine], wrapping_sum).await?[0] != 0 {
            return Err(RankError::OneSidedEdge { at });
        }
        let (sources, destinations) = (sources.to_vec(), destinations.to_vec());
        Ok(NeighbourGraph { comm, sources, destinations })
    }
}

fn wrapping_sum(left: &mut [u64], right: &[u64]) {
    left.iter_mut().zip(right).for_each(|(left, right)| *left = left.wrapping_add(*right));
}

/// A hash of an edge, by which ranks find out whether both ends have named the same edges: the sum
/// over the senders equals that over the receivers. Mixes as the finaliser of SplitMix64 does
/// (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014, section 5).
fn edge(from: u32, to: u32) -> u64 {
    let mut hash = (u64::from(from) << 32 | u64::from(to)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}
