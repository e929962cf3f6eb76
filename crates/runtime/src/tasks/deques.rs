//! The tasks that the PEs of a node offer each other, and which PEs sleep.
//!
//! The deques are those of `crossbeam-deque`, which rayon uses too. A PE that finds nothing marks
//! itself asleep and looks once more; a PE that offers tasks wakes one that sleeps. Both steps are
//! sequentially consistent, so that one of the two PEs sees the other. The node's agent takes from
//! the same deques, and queues tasks from other nodes beside them.

use super::backups::Backups;
use super::bound::Bound;
use super::frame::QueuedTask;
use super::lineage::{Lineages, Via};
use super::message::Loan;
use super::statistics::StealStatistics;
use crate::pe::Accounted;
use crossbeam_deque::{Steal, Stealer, Worker};
use gridspan_topology::{NodeId, PeId};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The tasks that a node's PEs offer each other and the node's agent.
pub(super) struct Deques<I> {
    first: PeId,
    slots: Vec<Slot<I>>,
    asleep: AtomicUsize,
    /// Tasks from the agent that no PE has taken yet.
    arrivals: Mutex<Arrivals<I>>,
    has_arrivals: AtomicBool,
    /// Number of tasks in `arrivals`.
    arrived: AtomicU64,
    has_agent: AtomicBool,
    /// The binary logarithm of the stock that was last reported to the agent, plus one; 0 for no
    /// stock.
    told: AtomicU32,
    /// The lineages of the tasks of this node.
    pub(super) lineages: Lineages,
    /// Copies of loans to other sites.
    pub(super) backups: Backups,
    /// The value of the pool's bound that this node knows.
    pub(super) bound: Arc<Bound>,
    /// Counts of messages that the agent has sent.
    statistics: Mutex<StealStatistics>,
    /// On a guest that leaves: bytes of the tasks that it has given away and whose outputs have not
    /// come.
    given_away: AtomicUsize,
    /// Whether this node is a founder that is about to leave: its PEs begin no tasks.
    rests: AtomicBool,
}

/// Tasks that an agent queues for the PEs of its node.
pub(super) enum Arrival<I> {
    /// A loan of another node.
    Lent(NodeId, Accounted<Loan>),
    /// A task that works for a frame of the PE in this slot and has not left the node after all.
    Back(usize, QueuedTask<I>),
}

impl<I> Arrival<I> {
    fn tasks(&self) -> u64 {
        match self {
            Self::Lent(_, loan) => loan.lender.items,
            Self::Back(..) => 1,
        }
    }
}

/// The tasks that the agent has queued, oldest first, and their number.
struct Arrivals<I> {
    list: VecDeque<Arrival<I>>,
    tasks: u64,
}

impl<I> Arrivals<I> {
    fn push_back(&mut self, arrival: Arrival<I>) {
        self.tasks = self.tasks.saturating_add(arrival.tasks());
        self.list.push_back(arrival);
    }

    fn push_front(&mut self, arrival: Arrival<I>) {
        self.tasks = self.tasks.saturating_add(arrival.tasks());
        self.list.push_front(arrival);
    }

    /// Takes the oldest loan for which `is_meant` holds.
    fn take_loan(&mut self, is_meant: impl Fn(NodeId, &Loan) -> bool) -> Option<(NodeId, Loan)> {
        let is_lent = |arrival: &Arrival<I>| match arrival {
            Arrival::Lent(by, loan) => is_meant(*by, loan),
            Arrival::Back(..) => false,
        };
        let place = self.list.iter().position(is_lent)?;
        match self.list.remove(place)? {
            Arrival::Lent(by, loan) => {
                self.tasks = self.tasks.saturating_sub(loan.lender.items);
                Some((by, loan.into_inner()))
            }
            Arrival::Back(..) => None,
        }
    }

    fn take_all(&mut self) -> VecDeque<Arrival<I>> {
        self.tasks = 0;
        std::mem::take(&mut self.list)
    }

    fn retain(&mut self, is_kept: impl Fn(&Arrival<I>) -> bool) {
        self.list.retain(is_kept);
        self.tasks = self.list.iter().map(Arrival::tasks).fold(0, u64::saturating_add);
    }
}

struct Slot<I> {
    /// Set when the PE's worker is made.
    offered: OnceLock<Stealer<QueuedTask<I>>>,
    /// Number of tasks that the PE last reported to keep, besides the one that it runs next.
    kept: AtomicUsize,
    /// Number of tasks that the PE has run.
    done: AtomicU64,
    asleep: AtomicBool,
}

impl<I> Deques<I> {
    /// Creates the empty deques of a node with these PEs, whose slots are in this order.
    pub(super) fn new(pes: Range<u32>) -> Self {
        let slot = |_| Slot {
            offered: OnceLock::new(),
            kept: AtomicUsize::new(0),
            done: AtomicU64::new(0),
            asleep: AtomicBool::new(false),
        };
        Self {
            first: PeId(pes.start),
            slots: pes.map(slot).collect(),
            asleep: AtomicUsize::new(0),
            arrivals: Mutex::new(Arrivals { list: VecDeque::new(), tasks: 0 }),
            has_arrivals: AtomicBool::new(false),
            arrived: AtomicU64::new(0),
            has_agent: AtomicBool::new(false),
            told: AtomicU32::new(0),
            lineages: Lineages::default(),
            backups: Backups::default(),
            bound: Arc::default(),
            statistics: Mutex::default(),
            given_away: AtomicUsize::new(0),
            rests: AtomicBool::new(false),
        }
    }

    /// The PE in a slot.
    pub(super) fn pe_of(&self, slot: usize) -> PeId {
        PeId(self.first.0 + slot as u32)
    }

    /// Creates the deque of the PE in `slot`, which takes its newest tasks itself.
    pub(super) fn join(&self, slot: usize) -> Worker<QueuedTask<I>> {
        let own = Worker::new_lifo();
        // A slot has one worker only; the offers of a second one would not be found.
        let _ = self.slots[slot].offered.set(own.stealer());
        own
    }

    /// Number of PEs.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Number of tasks offered in a slot.
    pub(super) fn offered(&self, slot: usize) -> usize {
        self.slots[slot].offered.get().map_or(0, Stealer::len)
    }

    /// Number of tasks offered in all slots.
    pub(super) fn all_offered(&self) -> u64 {
        (0..self.slots.len()).map(|slot| self.offered(slot) as u64).sum()
    }

    /// Notes that this node is about to leave.
    pub(super) fn rest(&self) {
        self.rests.store(true, Ordering::SeqCst);
    }

    /// Whether this node is a founder that is about to leave.
    #[inline]
    pub(super) fn rests(&self) -> bool {
        self.rests.load(Ordering::Relaxed)
    }

    /// Takes the oldest task that a PE offers.
    pub(super) fn steal(&self, slot: usize) -> Option<QueuedTask<I>> {
        let stealer = self.slots[slot].offered.get()?;
        loop {
            match stealer.steal() {
                Steal::Success(token) => return Some(token),
                Steal::Empty => return None,
                Steal::Retry => std::hint::spin_loop(),
            }
        }
    }

    /// Takes the oldest task of the first PE that offers any.
    pub(super) fn steal_any(&self) -> Option<(usize, QueuedTask<I>)> {
        (0..self.slots.len()).find_map(|slot| Some((slot, self.steal(slot)?)))
    }

    /// Notes the number of tasks that a PE keeps besides the one that it runs next.
    pub(super) fn note_kept(&self, slot: usize, tasks: usize) {
        self.slots[slot].kept.store(tasks, Ordering::Relaxed);
    }

    /// Notes that a PE has run this many more tasks.
    pub(super) fn note_done(&self, slot: usize, tasks: u64) {
        self.slots[slot].done.fetch_add(tasks, Ordering::Relaxed);
    }

    /// Number of tasks that this node has run in completed slices.
    pub(super) fn done(&self) -> u64 {
        self.slots.iter().map(|slot| slot.done.load(Ordering::Relaxed)).sum()
    }

    /// The slot of the PE that keeps the most tasks without offering them, if any PE keeps some.
    pub(super) fn richest(&self) -> Option<usize> {
        let kept = |slot: usize| self.slots[slot].kept.load(Ordering::Relaxed);
        (0..self.slots.len()).rev().max_by_key(|&slot| kept(slot)).filter(|&slot| kept(slot) > 0)
    }

    /// Number of tasks that could be taken away from this node. One arrived task for each sleeping
    /// PE does not count, because that PE will take it.
    pub(super) fn stock(&self) -> u64 {
        let of = |slot: usize| self.offered(slot) + self.slots[slot].kept.load(Ordering::Relaxed);
        let arrived = self.arrived.load(Ordering::SeqCst).saturating_sub(self.sleepers());
        (0..self.slots.len()).map(of).sum::<usize>() as u64 + arrived
    }

    /// Notes the stock as reported to the agent. Returns whether its binary logarithm, rounded
    /// down, differs from that of the last report.
    pub(super) fn note_told(&self, stock: u64) -> bool {
        let size = stock.checked_ilog2().map_or(0, |log| log + 1);
        self.told.load(Ordering::Relaxed) != size && self.told.swap(size, Ordering::Relaxed) != size
    }

    /// Notes that there is an agent from now on. It looks at the stock when it begins, so if a PE
    /// falls asleep meanwhile, one of the two sees the other.
    pub(super) fn expect_agent(&self) {
        self.has_agent.store(true, Ordering::SeqCst);
    }

    /// Whether there is an agent.
    #[inline]
    pub(super) fn has_agent(&self) -> bool {
        self.has_agent.load(Ordering::SeqCst)
    }

    /// Queues tasks for the PEs. Wakes a sleeping PE and returns its slot; the caller has to notify
    /// it.
    pub(super) fn arrive(&self, new: impl IntoIterator<Item = Arrival<I>>) -> Option<usize> {
        self.with_arrivals(|arrivals| new.into_iter().for_each(|new| arrivals.push_back(new)));
        self.wake_other(usize::MAX)
    }

    /// Takes the oldest loan of another node for which `is_meant` holds and that no PE has taken.
    pub(super) fn take_lent(
        &self,
        is_meant: impl Fn(NodeId, &Loan) -> bool,
    ) -> Option<(NodeId, Loan)> {
        self.with_arrivals(|arrivals| arrivals.take_loan(is_meant))
    }

    /// Queues an arrival before all others.
    pub(super) fn lay_first(&self, arrival: Arrival<I>) {
        self.with_arrivals(|arrivals| arrivals.push_front(arrival));
    }

    fn with_arrivals<T>(&self, act: impl FnOnce(&mut Arrivals<I>) -> T) -> T {
        let mut arrivals = self.arrivals();
        let result = act(&mut arrivals);
        self.arrived.store(arrivals.tasks, Ordering::SeqCst);
        self.has_arrivals.store(!arrivals.list.is_empty(), Ordering::SeqCst);
        result
    }

    fn arrivals(&self) -> MutexGuard<'_, Arrivals<I>> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether any queued tasks have not been taken yet.
    #[inline]
    pub(super) fn has_arrivals(&self) -> bool {
        self.has_arrivals.load(Ordering::SeqCst)
    }

    /// Takes all queued tasks.
    pub(super) fn take_arrivals(&self) -> VecDeque<Arrival<I>> {
        self.with_arrivals(Arrivals::take_all)
    }

    /// The bytes of loans from a node that no PE has taken.
    pub(super) fn arrived_bytes(&self, from: NodeId) -> usize {
        let arrivals = self.arrivals();
        let bytes = |arrival: &Arrival<I>| match arrival {
            Arrival::Lent(by, loan) if *by == from => loan.bytes(),
            _ => 0,
        };
        arrivals.list.iter().map(bytes).sum()
    }

    /// Counts a task of `bytes` as given away, unless all such tasks without an output would exceed
    /// `max` bytes. Returns whether it may be given away.
    pub(super) fn may_give_away(&self, bytes: usize, max: usize) -> bool {
        let add = |given: usize| given.checked_add(bytes).filter(|&sum| sum <= max);
        self.given_away.fetch_update(Ordering::SeqCst, Ordering::SeqCst, add).is_ok()
    }

    /// Notes that the output of a task that was given away has come.
    pub(super) fn note_output_of_given(&self, bytes: usize) {
        self.given_away.fetch_sub(bytes, Ordering::SeqCst);
    }

    /// Drops the queued loans of a node that is gone.
    pub(super) fn forget_arrivals(&self, from: NodeId) {
        let is_gone = |arrival: &Arrival<I>| matches!(arrival, Arrival::Lent(by, _) if *by == from);
        self.with_arrivals(|arrivals| arrivals.retain(|arrival| !is_gone(arrival)));
    }

    /// Notes that no frame waits for tasks that have come through `via`. Returns the nodes of other
    /// sites to which these tasks were lent, or `None` if this was known.
    pub(super) fn note_gone(&self, via: Via) -> Option<BTreeSet<NodeId>> {
        self.lineages.note_gone(via).then(|| self.backups.forget(via))
    }

    /// Removes loans for which no frame waits any more from those that are about to leave, and
    /// removes their copies. The caller has entered the copies before: if a guest, a copy or a
    /// lender went while the loans were packed, the news did not find these copies.
    pub(super) fn drop_gone(&self, loans: &mut Vec<Loan>) {
        loans.retain(|loan| {
            let is_gone = self.lineages.is_any_gone(&loan.lineage);
            if let Some(copy) = loan.lender.copy.filter(|_| is_gone) {
                self.backups.withdraw(copy);
            }
            !is_gone
        });
    }

    /// Notes that a founder is lost: no frame waits for tasks that it has lent.
    pub(super) fn note_lost(&self, founder: NodeId) {
        self.lineages.note_lost(founder);
        self.backups.forget_lender(founder);
    }

    /// Drops the queued loans that have come through a guest or a copy that is gone.
    pub(super) fn forget_orphans(&self) {
        let is_orphan = |arrival: &Arrival<I>| match arrival {
            Arrival::Lent(_, loan) => self.lineages.is_any_gone(&loan.lineage),
            Arrival::Back(..) => false,
        };
        self.with_arrivals(|arrivals| arrivals.retain(|arrival| !is_orphan(arrival)));
    }

    /// Number of sleeping PEs.
    pub(super) fn sleepers(&self) -> u64 {
        self.asleep.load(Ordering::SeqCst) as u64
    }

    /// Counts of messages that the agent has sent so far.
    pub(super) fn statistics(&self) -> StealStatistics {
        *self.statistics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts messages that the agent sends.
    pub(super) fn count(&self, add: impl FnOnce(&mut StealStatistics)) {
        add(&mut self.statistics.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Marks a PE asleep that has found nothing. Returns whether it was the last PE awake.
    pub(super) fn fall_asleep(&self, slot: usize) -> bool {
        let asleep = &self.slots[slot].asleep;
        if asleep.load(Ordering::SeqCst) {
            return false;
        }
        // This PE is counted before other PEs can wake it, because they subtract it again.
        let is_last = self.asleep.fetch_add(1, Ordering::SeqCst) + 1 == self.slots.len();
        asleep.store(true, Ordering::SeqCst);
        is_last
    }

    /// Wakes a PE. Returns whether it slept; if so, the caller has to notify it.
    pub(super) fn wake(&self, slot: usize) -> bool {
        let slept = self.slots[slot].asleep.swap(false, Ordering::SeqCst);
        if slept {
            self.asleep.fetch_sub(1, Ordering::SeqCst);
        }
        slept
    }

    /// Wakes a sleeping PE other than the one in this slot, and returns its slot.
    pub(super) fn wake_other(&self, than: usize) -> Option<usize> {
        // If another PE does not look asleep here yet, it must see the tasks offered before.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) == 0 {
            return None;
        }
        (0..self.slots.len()).find(|&slot| slot != than && self.wake(slot))
    }

    /// Whether any PE sleeps.
    pub(super) fn has_sleepers(&self) -> bool {
        self.asleep.load(Ordering::SeqCst) > 0
    }

    /// Whether all PEs sleep.
    pub(super) fn is_dry(&self) -> bool {
        self.asleep.load(Ordering::SeqCst) == self.slots.len()
    }
}
