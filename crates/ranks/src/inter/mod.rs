//! Inter-communicators: two groups of ranks that send to each other.
//!
//! An inter-communicator uses two communicators. The first is for messages between two ranks, and
//! lists the ranks of the remote group. A message names its sender by the position in the sender's
//! own group, which is the remote group of the receiver. The second is for collective operations,
//! and lists the ranks of both groups; its number is the next one.

pub(crate) mod asking;
mod connect;
mod names;
mod p2p;
mod spawn;

use crate::collective::operation::Operation;
use crate::comm::Comm;
use crate::content::Content;
use crate::element::Element;
use crate::error::{CallSite, RankError};
use crate::group::{MakerTurn, RankGroup};
use crate::local::link::Link;
use crate::ops;
use crate::request::CommRequest;
use crate::scope::Scope;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// A group of ranks, to which this rank belongs, and another one, the remote group. Ranks send to
/// ranks of the remote group and receive from them.
///
/// [`spawn`](Comm::spawn), [`accept`](Comm::accept) and [`connect`](Comm::connect) make
/// inter-communicators. Those of `accept` and `connect` end at the next migration point of their
/// ranks. [`children`](Comm::children) and [`parent`](Comm::parent) return the inter-communicator
/// of parents and children in later runs, too.
///
/// ```
/// use gridspan::ranks::{self, InterComm, SpawnPlacement, ops};
///
/// let job = ranks::run(2, async |world| {
///     if let Some(parents) = world.parent() {
///         // One of three children: each sends its rank, and takes part in a sum over all.
///         parents.send(&[world.rank()], 0, 0).await?;
///         assert_eq!(parents.merge(true).await?.allreduce(&[1_u32], ops::sum).await?, [5]);
///         return Ok(());
///     }
///     let children: InterComm = world.spawn(3, SpawnPlacement::Block).await?;
///     assert_eq!((children.local_size(), children.remote_size()), (2, 3));
///     if world.rank() == 0 {
///         for child in 0..3 {
///             assert_eq!(children.recv::<u32>(child, 0).await?.0, [child]);
///         }
///     }
///     let all = children.merge(false).await?;
///     assert_eq!((all.rank(), all.allreduce(&[1_u32], ops::sum).await?[0]), (world.rank(), 5));
///     Ok(())
/// });
/// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct InterComm {
    /// The ranks of the remote group, for messages between two ranks.
    remote: Comm,
    /// Both groups.
    both: Comm,
    /// Number of ranks of the own group.
    local_size: u32,
    /// Whether the own group is the first in `both`.
    is_first: bool,
}

/// The rank that gives the data of an operation between two groups, as a rank of each group names
/// it.
///
/// ```
/// use gridspan::ranks::{self, InterRoot, SpawnPlacement};
///
/// let job = ranks::run(1, async |world| {
///     let (other, root) = match world.parent() {
///         Some(parents) => (parents, InterRoot::Remote(0)),
///         None => (world.spawn(2, SpawnPlacement::Block).await?, InterRoot::Local(0)),
///     };
///     let mut number = if world.parent().is_none() { [7] } else { [0] };
///     other.bcast(&mut number, root).await?;
///     assert_eq!(number, [7]);
///     Ok(())
/// });
/// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InterRoot {
    /// This rank of the own group.
    Local(u32),
    /// This rank of the remote group.
    Remote(u32),
}

impl InterComm {
    /// An inter-communicator of the ranks of `own`, and of these ranks of the job.
    fn new(own: &Comm, number: u32, is_first: bool, remote: Vec<u32>) -> Self {
        let mine = own.group().world_ranks().to_vec();
        Self::of(own, (number, own.rank()), is_first, (mine, remote), Arc::default())
    }

    /// The inter-communicator of a link.
    fn of_link(own: &Comm, link: &Link) -> Option<Self> {
        let mine = link.mine();
        let rank = mine.iter().position(|rank| *rank == own.local.rank)? as u32;
        let groups = (mine, link.remote());
        Some(Self::of(own, (link.number, rank), !link.is_parent, groups, link.operations.clone()))
    }

    fn of(
        own: &Comm,
        (number, rank): (u32, u32),
        is_first: bool,
        (mine, remote): (Vec<u32>, Vec<u32>),
        operations: Arc<AtomicU32>,
    ) -> Self {
        let (local, places) = (&own.local, own.scope.places());
        let (local_size, remote_size) = (mine.len() as u32, remote.len() as u32);
        let (all, rank_in_both) = match is_first {
            true => ([&mine[..], &remote[..]].concat(), rank),
            false => ([&remote[..], &mine[..]].concat(), remote_size + rank),
        };
        let remote = Scope::listed(number, remote, places.clone());
        let remote = Comm::of_remote(local.clone(), remote.into(), number, rank);
        let both = Scope::listed(number + 1, all, places.clone()).into();
        let both = Comm::continued(local.clone(), both, number + 1, rank_in_both, operations);
        Self { remote, both, local_size, is_first }
    }

    /// The number of this rank in its own group.
    pub fn rank(&self) -> u32 {
        self.remote.rank()
    }

    /// Number of ranks of the own group.
    pub fn local_size(&self) -> u32 {
        self.local_size
    }

    /// Number of ranks of the remote group.
    pub fn remote_size(&self) -> u32 {
        self.remote.size()
    }

    /// The ranks of the own group.
    pub fn local_group(&self) -> RankGroup {
        self.both.group().difference(&self.remote.group())
    }

    /// The ranks of the remote group.
    pub fn remote_group(&self) -> RankGroup {
        self.remote.group()
    }

    /// The number of the site where a rank of the remote group lived at the last migration point,
    /// or at its start if that was later.
    pub fn site(&self, remote_rank: u32) -> Option<u32> {
        self.remote.site(remote_rank)
    }

    /// The communicator for messages to the remote group.
    pub(crate) fn remote(&self) -> &Comm {
        &self.remote
    }

    /// The number of ranks of `both` before those of the own group.
    fn offset(&self) -> u32 {
        if self.is_first { 0 } else { self.remote_size() }
    }
}

/// # Operations of both groups
///
/// All ranks of both groups call them, in the same order.
impl InterComm {
    /// Makes one communicator of both groups. The ranks of each group keep their order, and the
    /// group whose ranks give `true` comes last. If both give the same, the group that has spawned
    /// or accepted the other comes first.
    ///
    /// # Errors
    ///
    /// Only those of the messages that it sends and receives.
    pub async fn merge(&self, comes_last: bool) -> Result<Comm, RankError> {
        let operation = Operation::new(&self.both, "merge");
        let turn = MakerTurn::take(&self.both.local).await;
        let is_last = |is_own: bool| u32::from(is_own && comes_last);
        let wanted = vec![turn.next(), is_last(self.is_first), is_last(!self.is_first)];
        let found = operation.complete(|| operation.allreduce(wanted, ops::max)).await?;
        turn.end(operation.at, found[0], 1)?;
        let mut ranks = self.both.group().world_ranks().to_vec();
        if found[1] > found[2] {
            let first = if self.is_first { self.local_size } else { self.remote_size() };
            ranks.rotate_left(first as usize);
        }
        self.both.part(ranks, found[0]).ok_or_else(|| "a rank is in none of its groups".into())
    }

    /// Waits until all ranks of both groups have made this call.
    ///
    /// # Errors
    ///
    /// Only those of the messages that it sends and receives.
    pub async fn barrier(&self) -> Result<(), RankError> {
        self.both.barrier().await
    }

    /// Begins a [`barrier`](Self::barrier).
    pub fn ibarrier(&self) -> CommRequest<'static, ()> {
        self.both.ibarrier()
    }

    /// Sends the root's numbers to all ranks of the other group, into buffers of equal length. The
    /// buffers of the root's group stay as they are.
    ///
    /// # Errors
    ///
    /// Those [of collective operations](Comm#collective-operations).
    pub async fn bcast<T: Element>(
        &self,
        numbers: &mut [T],
        root: InterRoot,
    ) -> Result<(), RankError> {
        let (operation, root, is_remote) = self.rooted("bcast", root)?;
        let content = (root == self.both.rank()).then(|| Content::copied(numbers));
        let content = operation.complete(|| operation.bcast(content, root)).await?;
        match is_remote {
            true => content.fill(numbers, operation.at),
            false => Ok(()),
        }
    }

    /// Sends the root's value to all ranks of both groups. The root gives it, and others may give
    /// `None`.
    ///
    /// # Errors
    ///
    /// Those [of collective operations](Comm#collective-operations), [`RankError::Malformed`], and
    /// [`RankError::NothingAtRoot`].
    pub async fn bcast_value<V>(&self, value: Option<V>, root: InterRoot) -> Result<V, RankError>
    where
        V: Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        let (_, root, _) = self.checked("bcast_value", root)?;
        self.both.bcast_value(value, root).await
    }

    /// Collects the numbers of all ranks of the other group, of any lengths.
    ///
    /// # Errors
    ///
    /// Those [of collective operations](Comm#collective-operations).
    pub async fn allgatherv<T: Element>(&self, numbers: &[T]) -> Result<Vec<Vec<T>>, RankError> {
        let mut all = self.both.allgatherv(numbers).await?;
        let own = self.offset() as usize;
        drop(all.drain(own..own + self.local_size as usize));
        Ok(all)
    }

    /// Checks the root of an operation. Returns the call, the root's rank among both groups, and
    /// whether the root is in the other group.
    fn checked(
        &self,
        call: &'static str,
        root: InterRoot,
    ) -> Result<(CallSite, u32, bool), RankError> {
        let (rank, size, offset, is_remote) = match root {
            InterRoot::Local(rank) => (rank, self.local_size, self.offset(), false),
            InterRoot::Remote(rank) => {
                let offset = if self.is_first { self.local_size } else { 0 };
                (rank, self.remote_size(), offset, true)
            }
        };
        let at = self.both.at(call).with(Some(rank), None);
        match rank < size {
            true => Ok((at, offset + rank, is_remote)),
            false => Err(RankError::NoSuchRank { at, rank, size }),
        }
    }

    fn rooted(
        &self,
        call: &'static str,
        root: InterRoot,
    ) -> Result<(Operation, u32, bool), RankError> {
        let (_, root, is_remote) = self.checked(call, root)?;
        Ok((Operation::rooted(&self.both, call, root)?, root, is_remote))
    }
}
