//! Communicators: a group of ranks that send to each other.

use crate::error::{CallSite, RankError};
use crate::local::Local;
use crate::matching::{Label, Pattern};
use crate::request::go_on;
use crate::scope::{Peers, Scope};
use crate::selector::{Destination, SourceSelector, TagSelector};
use gridspan_runtime::Time;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

/// A group of ranks that communicate among themselves: the world, which has the ranks that began
/// together, or another group.
///
/// Messages of one communicator are never received on another. All ranks of a communicator call
/// its collective operations, in the same order. A clone is the same communicator;
/// [`dup`](Self::dup) makes another one over the same ranks. A communicator other than the world
/// ends at the next migration point of its ranks.
///
/// ```
/// use gridspan::ranks::{self, Comm, ops};
///
/// let job = ranks::run(6, async |world: Comm| {
///     let row: Comm = world.split(Some(world.rank() / 3), 0).await?.ok_or("no row")?;
///     assert_eq!((row.size(), row.rank()), (3, world.rank() % 3));
///     assert_eq!(row.allreduce(&[1_u32], ops::sum).await?, [3]);
///     Ok(())
/// });
/// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Clone)]
pub struct Comm {
    pub(crate) local: Arc<Local>,
    pub(crate) scope: Arc<Scope>,
    number: u32,
    rank: u32,
    /// Number of collective operations that this rank has begun.
    operations: Arc<AtomicU32>,
}

/// The wait of a task for the end of a delay. Dropping it forgets the delay.
struct BegunSleep<'a> {
    local: &'a Local,
    number: Option<u64>,
}

impl Drop for BegunSleep<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.local.with(|state| state.forget_sleep(number));
        }
    }
}

impl fmt::Debug for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, rank, .. } = self;
        write!(f, "Comm {{ number: {number}, rank: {rank}, size: {} }}", self.size())
    }
}

impl Comm {
    pub(crate) fn new(local: Arc<Local>, scope: Arc<Scope>, number: u32, rank: u32) -> Self {
        Self::continued(local, scope, number, rank, Arc::default())
    }

    /// Continues a communicator after a migration point. The numbers of its operations go on, too,
    /// so that no operation receives a message that an earlier run has left.
    pub(crate) fn continued(
        local: Arc<Local>,
        scope: Arc<Scope>,
        number: u32,
        rank: u32,
        operations: Arc<AtomicU32>,
    ) -> Self {
        local.with(|state| state.note_communicator(number, &scope));
        Self { local, scope, number, rank, operations }
    }

    /// The ranks of the other group of an inter-communicator, as a communicator for messages to
    /// them. No rank can revoke it.
    pub(crate) fn of_remote(local: Arc<Local>, scope: Arc<Scope>, number: u32, rank: u32) -> Self {
        Self { local, scope, number, rank, operations: Arc::default() }
    }

    /// The world.
    pub(crate) fn world(local: Arc<Local>, scope: Arc<Scope>) -> Self {
        let operations = local.with(|state| state.world_operations.clone());
        let rank = scope.position(local.rank).unwrap_or_default();
        Self::continued(local, scope, 0, rank, operations)
    }

    /// The number of this rank, counted from 0.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Number of ranks.
    pub fn size(&self) -> u32 {
        self.scope.size()
    }

    /// The number of this communicator, the same at all of its ranks. The world is number 0.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The number in the job of a rank of this communicator. For a rank with which the job began,
    /// it is the rank in the world; [spawned](Self::spawn) ranks have the numbers after these.
    pub fn world_rank(&self, rank: u32) -> Option<u32> {
        self.scope.in_job(rank)
    }

    /// The time since the job began, as of the beginning of the PE's current turn. Time that the
    /// rank computes or [charges](Self::charge) is included only after the next `await`.
    pub fn now(&self) -> Time {
        self.local.with(|state| state.now)
    }

    /// Charges compute time to this rank, for virtual time; see
    /// [`Context::charge`](gridspan_runtime::Context::charge).
    pub fn charge(&self, time: Duration) {
        self.local.with(|state| state.charged = state.charged.saturating_add(time));
    }

    /// Lets the PE handle the messages that wait for it, and then goes on.
    pub async fn yield_now(&self) {
        go_on(&self.local).await;
    }

    /// Waits for this time: real time, or virtual time in a simulation. The PE runs other ranks
    /// meanwhile.
    ///
    /// ```
    /// use gridspan::ranks;
    /// use std::time::Duration;
    ///
    /// let job = ranks::run(2, async |world| {
    ///     let begin = world.now();
    ///     world.sleep(Duration::from_millis(5)).await;
    ///     assert!(world.now().since(begin) >= Duration::from_millis(5));
    ///     Ok(())
    /// });
    /// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
    /// ```
    pub async fn sleep(&self, delay: Duration) {
        let mut begun = BegunSleep { local: &self.local, number: None };
        poll_fn(|cx| {
            let is_over = self.local.with(|state| match begun.number {
                Some(number) => state.is_over(number, cx.waker()),
                None => {
                    begun.number = Some(state.sleep(delay, cx.waker()));
                    false
                }
            });
            if is_over { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    pub(crate) fn at(&self, call: &'static str) -> CallSite {
        CallSite::new(call, self.number)
    }

    /// Checks a rank, and returns its number in the job.
    pub(crate) fn check(&self, rank: u32, at: CallSite) -> Result<u32, RankError> {
        let size = self.size();
        self.scope.in_job(rank).ok_or(RankError::NoSuchRank { at, rank, size })
    }

    /// The rank of the job to which a message goes; `None` for the null destination.
    pub(crate) fn destination(
        &self,
        to: Destination,
        at: CallSite,
    ) -> Result<Option<u32>, RankError> {
        match to {
            Destination::Null => Ok(None),
            Destination::Rank(rank) => self.check(rank, at).map(Some),
        }
    }

    /// The messages that a receive accepts, and the ranks that can send them; `None` for the null
    /// source.
    pub(crate) fn pattern(
        &self,
        source: SourceSelector,
        tag: TagSelector,
        at: CallSite,
    ) -> Result<Option<(Pattern, Peers)>, RankError> {
        let source = match source {
            SourceSelector::Null => return Ok(None),
            SourceSelector::Any => None,
            SourceSelector::Rank(rank) => {
                self.check(rank, at)?;
                Some(rank)
            }
        };
        let pattern = Pattern { context: 2 * self.number, source, tag };
        Ok(Some((pattern, self.scope.peers(source))))
    }

    /// The label of a message of this rank.
    pub(crate) fn label(&self, tag: u32) -> Label {
        Label { context: 2 * self.number, source: self.rank, tag }
    }

    /// The label of a message of a collective operation.
    pub(crate) fn collective_label(&self, operation: u32) -> Label {
        Label { context: 2 * self.number + 1, source: self.rank, tag: operation }
    }

    /// Numbers a collective operation, which all ranks begin in the same order.
    pub(crate) fn operation(&self) -> u32 {
        self.operations.fetch_add(1, Ordering::Relaxed)
    }
}
