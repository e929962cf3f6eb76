//! Windows: memory of a rank that other ranks read and change, without a receive of that rank.

use crate::comm::Comm;
use crate::content::Content;
use crate::element::Element;
use crate::error::{CallSite, RankError};
use crate::local::Local;
use crate::local::memory::{Memory, Window};
use crate::local::slots::Outcome;
use crate::ops::Operator;
use crate::p2p::wait::{outcome, until_ended};
use crate::packet::Access;
use crate::request::go_on;
use crate::ticket::Ticket;
use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Elements that each rank of a communicator exposes to all others.
///
/// [`put`](Self::put) and [`accumulate`](Self::accumulate) only begin an access; it is complete
/// after [`flush`](Self::flush), [`fence`](Self::fence) or [`unlock`](Self::unlock). Accesses of
/// one rank to another happen in order, and only while no rank of the target's PE computes. A
/// window ends when it is [freed](Self::free), or with the run of its rank; ranks should call
/// [`fence`](Self::fence) before that.
///
/// ```
/// use gridspan::ranks::{self, RankWindow, ops};
///
/// let job = ranks::run(4, async |world| {
///     // Each rank exposes two numbers; accumulating adds.
///     let window: RankWindow<u64> = world.window(vec![0; 2], ops::sum).await?;
///     let right = (world.rank() + 1) % world.size();
///     window.put(&[u64::from(world.rank())], right, 0)?;
///     window.accumulate(&[1], 0, 1)?;
///     window.fence().await?;
///     assert_eq!(window.get(right, 0..1).await?, [u64::from(world.rank())]);
///     assert_eq!(window.get(0, 1..2).await?, [4]);
///     window.fence().await
/// });
/// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
/// ```
pub struct RankWindow<T> {
    comm: Comm,
    /// Number of elements of each rank.
    lengths: Vec<u64>,
    /// Accesses that are not known to be complete.
    open: Mutex<Vec<(u32, Ticket)>>,
    element: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for RankWindow<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RankWindow({:?})", self.comm)
    }
}

/// A lock that a rank waits for. If the rank stops waiting, it gives the lock back.
struct AskedLock<'a> {
    local: &'a Local,
    /// The rank that has the window, numbered in the job.
    to: u32,
    window: u32,
    lock: u32,
    is_granted: bool,
}

impl Drop for AskedLock<'_> {
    fn drop(&mut self) {
        if !self.is_granted {
            self.local.with(|state| state.withdraw(self.to, self.window, self.lock));
        }
    }
}

/// An access that changes elements, and whose answer a task waits for. If the task stops waiting,
/// the access stays open.
struct AskedChange<'a> {
    open: &'a Mutex<Vec<(u32, Ticket)>>,
    rank: u32,
    ticket: Ticket,
    is_answered: bool,
}

impl Drop for AskedChange<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.push((self.rank, self.ticket));
        }
    }
}

impl Comm {
    /// Exposes elements to all ranks of this communicator; each rank may expose a different number.
    /// A collective operation. `op` combines [accumulated](RankWindow::accumulate) elements with
    /// the present ones.
    ///
    /// # Errors
    ///
    /// Those [of collective operations](Self#collective-operations).
    pub async fn window<T: Element>(
        &self,
        values: Vec<T>,
        op: impl Operator<T> + 'static,
    ) -> Result<RankWindow<T>, RankError> {
        let comm = self.dup().await?;
        let length = values.len() as u64;
        let window = Window::new(Memory::new(values, Box::new(op)));
        self.local.with(|state| state.windows.insert(comm.number(), window));
        // The gather also makes sure that all ranks have inserted their windows before any access.
        let all = comm.allgather(&[[length, T::KIND]]).await?;
        if let Some([_, other]) = all.iter().find(|[_, kind]| *kind != T::KIND) {
            let (at, sent) = (comm.at("window"), crate::error::kind_name(*other));
            return Err(RankError::TypeMismatch { at, sent, expected: type_name::<T>() });
        }
        let lengths = all.iter().map(|[length, _]| *length).collect();
        Ok(RankWindow { comm, lengths, open: Mutex::default(), element: PhantomData })
    }
}

impl<T: Element> RankWindow<T> {
    /// Number of elements of a rank.
    pub fn len(&self, rank: u32) -> usize {
        self.lengths.get(rank as usize).map_or(0, |length| *length as usize)
    }

    /// Whether a rank exposes nothing.
    pub fn is_empty(&self, rank: u32) -> bool {
        self.len(rank) == 0
    }

    /// Reads or changes this rank's elements. Accesses of other ranks happen only while this rank
    /// awaits, never during `look`.
    ///
    /// # Panics
    ///
    /// If `look` calls this function on the same window, or if the run of the rank has ended.
    pub fn local<R>(&self, look: impl FnOnce(&mut [T]) -> R) -> R {
        // The rank's state is not locked while the program's code runs.
        let (local, number) = (&self.comm.local, self.comm.number());
        let Some(mut window) = local.with(|state| state.windows.remove(&number)) else {
            panic!(
                "`local` was called inside another call of it on the same window, or after the run of the rank; use the elements of the outer call"
            );
        };
        let looked = look(window.values::<T>().expect("a window has elements of its type"));
        local.with(|state| state.windows.insert(number, window));
        looked
    }

    /// Begins to write elements of a rank, from its element `at` on.
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`], and [`RankError::OutsideOfWindow`] beyond its elements.
    pub fn put(&self, values: &[T], rank: u32, at: usize) -> Result<(), RankError> {
        let content = Content::copied(values);
        let access = Access::Put { at: at as u64, content };
        self.open("put", rank, at..at.saturating_add(values.len()), access)
    }

    /// Begins to combine elements of a rank, from its element `at` on, with these, by the operator
    /// of the window. Concurrent accumulations are atomic.
    ///
    /// # Errors
    ///
    /// Those of [`put`](Self::put).
    pub fn accumulate(&self, values: &[T], rank: u32, at: usize) -> Result<(), RankError> {
        let content = Content::copied(values);
        let access = Access::Accumulate { at: at as u64, content };
        self.open("accumulate", rank, at..at.saturating_add(values.len()), access)
    }

    /// Reads elements of a rank.
    ///
    /// # Errors
    ///
    /// Those of [`put`](Self::put), and [`RankError::PeerFailed`] if the rank has failed.
    pub async fn get(&self, rank: u32, range: Range<usize>) -> Result<Vec<T>, RankError> {
        let (at, count) = (range.start as u64, range.len() as u64);
        self.answered("get", rank, range, Access::Get { at, count }).await
    }

    /// [Accumulates](Self::accumulate), and returns the elements as they were before. If the future
    /// is dropped, the next [`flush`](Self::flush) or [`fence`](Self::fence) completes the access.
    ///
    /// # Errors
    ///
    /// Those of [`get`](Self::get).
    pub async fn get_accumulate(
        &self,
        values: &[T],
        rank: u32,
        at: usize,
    ) -> Result<Vec<T>, RankError> {
        let (content, count) = (Content::copied(values), values.len() as u64);
        let access = Access::FetchAndAccumulate { at: at as u64, content, count };
        self.answered("get_accumulate", rank, at..at.saturating_add(values.len()), access).await
    }

    /// Waits until the accesses of this rank to another are complete. If several tasks wait for one
    /// access and it fails, one of them gets the error.
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`], and [`RankError::PeerFailed`] if the rank has failed before an
    /// access was complete.
    pub async fn flush(&self, rank: u32) -> Result<(), RankError> {
        self.comm.check(rank, self.at("flush", rank))?;
        self.complete(|other| other == rank).await
    }

    /// Waits until all accesses of all ranks before their fences are complete. A collective
    /// operation.
    ///
    /// # Errors
    ///
    /// Only those of the messages that it sends and receives.
    pub async fn fence(&self) -> Result<(), RankError> {
        let completed = self.complete(|_| true).await;
        self.comm.barrier().await?;
        completed
    }

    /// Waits for an exclusive or a shared lock on the window of a rank, in the order of the
    /// requests. The locks are advisory: they do not hold up ranks that take none.
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`], and [`RankError::PeerFailed`] if the rank has failed.
    pub async fn lock(&self, rank: u32, is_exclusive: bool) -> Result<(), RankError> {
        let (at, access) = (self.at("lock", rank), Access::Lock { is_exclusive });
        let to = self.comm.check(rank, at)?;
        let (local, window) = (&self.comm.local, self.comm.number());
        let (ticket, lock) = local.with(|state| state.access(to, window, access, at));
        let mut asked = AskedLock { local, to, window, lock, is_granted: false };
        let granted = outcome(local, ticket).await.completed();
        asked.is_granted = true;
        granted
    }

    /// Completes the accesses of this rank to another, and gives the lock back.
    ///
    /// # Errors
    ///
    /// Those of [`flush`](Self::flush).
    pub async fn unlock(&self, rank: u32) -> Result<(), RankError> {
        self.flush(rank).await?;
        let to = self.comm.check(rank, self.at("unlock", rank))?;
        self.comm.local.with(|state| state.tell(to, self.comm.number(), Access::Unlock));
        // Others may wait for the lock.
        go_on(&self.comm.local).await;
        Ok(())
    }

    /// Frees the elements of all ranks after a [fence](Self::fence), and returns those of this
    /// rank. A collective operation.
    ///
    /// # Errors
    ///
    /// Only those of the messages that it sends and receives.
    pub async fn free(self) -> Result<Vec<T>, RankError> {
        self.fence().await?;
        let number = self.comm.number();
        let freed = self.comm.local.with(|state| state.windows.remove(&number));
        Ok(freed
            .and_then(|mut window| window.values::<T>().map(std::mem::take))
            .unwrap_or_default())
    }

    fn at(&self, call: &'static str, rank: u32) -> CallSite {
        self.comm.at(call).with(Some(rank), None)
    }

    fn check(&self, at: CallSite, rank: u32, range: &Range<usize>) -> Result<(), RankError> {
        self.comm.check(rank, at)?;
        let length = self.len(rank);
        if range.start > range.end || range.end > length {
            return Err(RankError::OutsideOfWindow { at, range: range.clone(), length });
        }
        Ok(())
    }

    /// Begins an access, and returns the ticket of its end.
    fn begin(&self, at: CallSite, rank: u32, access: Access) -> Result<Ticket, RankError> {
        let to = self.comm.check(rank, at)?;
        let number = self.comm.number();
        let (ticket, _) = self.comm.local.with(|state| state.access(to, number, access, at));
        Ok(ticket)
    }

    fn open(
        &self,
        call: &'static str,
        rank: u32,
        range: Range<usize>,
        access: Access,
    ) -> Result<(), RankError> {
        let at = self.at(call, rank);
        self.check(at, rank, &range)?;
        let ticket = self.begin(at, rank, access)?;
        self.open.lock().unwrap_or_else(PoisonError::into_inner).push((rank, ticket));
        Ok(())
    }

    async fn answered(
        &self,
        call: &'static str,
        rank: u32,
        range: Range<usize>,
        access: Access,
    ) -> Result<Vec<T>, RankError> {
        let at = self.at(call, rank);
        self.check(at, rank, &range)?;
        let is_change = access.runs_operator();
        let ticket = self.begin(at, rank, access)?;
        let answer = match is_change {
            true => self.answer_to_change(rank, ticket).await,
            false => outcome(&self.comm.local, ticket).await,
        };
        match answer {
            Outcome::Answer(Some(content)) => content.to_vec(at),
            Outcome::Failed(error) => Err(error),
            _ => Err(RankError::Cancelled { at }),
        }
    }

    /// Waits for the answer to an access that changes elements.
    async fn answer_to_change(&self, rank: u32, ticket: Ticket) -> Outcome {
        let local = &self.comm.local;
        let mut asked = AskedChange { open: &self.open, rank, ticket, is_answered: false };
        until_ended(local, ticket).await;
        asked.is_answered = true;
        local.with(|state| state.slots.take(ticket)).unwrap_or(Outcome::Cancelled)
    }

    /// Waits for accesses, and returns the first error.
    async fn complete(&self, is_meant: impl Fn(u32) -> bool) -> Result<(), RankError> {
        let local = &self.comm.local;
        let meant: Vec<Ticket> = {
            let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.iter().filter(|(rank, _)| is_meant(*rank)).map(|(_, ticket)| *ticket).collect()
        };
        if meant.is_empty() {
            return Ok(());
        }
        // They stay open meanwhile: if this future is dropped, the next one waits for them.
        for ticket in &meant {
            until_ended(local, *ticket).await;
        }
        let mut ended: Vec<u64> = meant.iter().map(|ticket| ticket.generation).collect();
        ended.sort_unstable();
        self.open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|(_, ticket)| ended.binary_search(&ticket.generation).is_err());
        let outcomes = meant.iter().filter_map(|ticket| local.with(|s| s.slots.take(*ticket)));
        outcomes.map(Outcome::completed).fold(Ok(()), Result::and)
    }
}
