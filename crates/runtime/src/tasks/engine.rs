//! The tasks and frames of one PE, for any kind of work.

use super::bound::{Goal, LocalBound};
use super::deques::Deques;
use super::frame::{Frame, FrameId, Frames, Lender, QueuedTask, Up};
use super::lineage::{Held, LineageId, Repeats};
use super::message::WorkerMessage;
use crate::address::id::{ActorId, CollectionId};
use crate::message::codec::DecodeError;
use crate::pe::{Core, OpenTasks};
use bytes::Bytes;
use crossbeam_deque::Worker;
use gridspan_topology::{PeId, Time};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of short tasks offered at a time: moving them costs about 5 ns each.
const OFFER_MAX: usize = 1024;
/// Maximum number of tasks taken from another PE of the node at a time.
const TAKE_MAX: usize = 32;

/// Fork-join tasks of one type, or searches of one type.
pub(crate) trait Work: Sized + Send + 'static {
    /// The type of items that are run.
    type Item: Serialize + DeserializeOwned + Send + 'static;
    /// The type of their outputs.
    type Output: Serialize + DeserializeOwned + Send + 'static;
    /// The state that a frame keeps until its children are done.
    type State: Send + 'static;

    /// Its name, for error messages.
    fn name() -> &'static str;

    /// The state of a frame that waits for stolen or handed-in work.
    fn loan() -> Self::State;

    /// The neutral output, which changes nothing where it is handed in, if there is one.
    fn nothing() -> Option<Self::Output>;

    /// The output so far of a frame whose other items have not begun; `None` if only the whole
    /// frame has an output.
    fn so_far(state: &Self::State) -> Option<&Self::Output>;

    /// Which of two values of the bound is better.
    const GOAL: Goal;

    /// Whether items that work for the same frame can share a loan, because their outputs become
    /// one.
    const SHARES_LOANS: bool;

    /// Runs an item that works for `frame` as child number `child`.
    fn run(engine: &mut Engine<Self>, item: Self::Item, frame: FrameId, child: u32);

    /// Hands an output for `items` items to the frame that waits for it. An output for a frame that
    /// does not exist is dropped.
    fn report(
        engine: &mut Engine<Self>,
        frame: FrameId,
        child: u32,
        items: u64,
        output: Self::Output,
    );
}

/// A result that leaves this PE's frames.
pub(super) enum Finished<O> {
    /// To the PE that the work was taken from.
    Loan(Lender, O),
    /// To the origin of the root with this number.
    Root(u64, O),
}

/// Converts an output of another pool to one of this pool.
pub(super) type Convert<O> = Box<dyn FnOnce(&[u8]) -> Result<O, DecodeError> + Send>;

/// A task of another pool that a frame waits for.
pub(super) struct Call<O> {
    pub(super) pool: CollectionId,
    pub(super) item: Bytes,
    pub(super) frame: FrameId,
    pub(super) child: u32,
    pub(super) convert: Convert<O>,
    /// Sends a message to a worker of the other pool.
    pub(super) send: fn(&mut Core, ActorId, WorkerMessage),
}

/// The tasks and frames of one PE.
pub(crate) struct Engine<W: Work> {
    pub(super) pe: PeId,
    pub(super) now: Time,
    /// This PE's slot in its node.
    slot: usize,
    pub(super) node: Arc<Deques<W::Item>>,
    /// Tasks that only this PE can take, newest at the end.
    pub(super) kept: Vec<QueuedTask<W::Item>>,
    /// Tasks that other PEs may take, oldest first. All are older than those in `kept`.
    offered: Worker<QueuedTask<W::Item>>,
    pub(super) frames: Frames<W::State>,
    pub(super) finished: Vec<Finished<W::Output>>,
    /// Tasks for other pools.
    pub(super) calls: Vec<Call<W::Output>>,
    pub(super) bound: LocalBound,
    /// Slots of PEs of this node to notify of work.
    pub(super) wakes: Vec<usize>,
    /// The lineage of the task that runs.
    pub(super) lineage: LineageId,
    /// Nanoseconds of virtual time that tasks charged.
    pub(super) charged_ns: u64,
    /// The reason for which a task ends the job.
    pub(super) failure: Option<String>,
    /// Whether no other PE can take offered tasks.
    alone: bool,
    /// Whether tasks take long, so that this PE offers all but the one that runs next: other PEs
    /// cannot take kept tasks while a task runs.
    pub(super) are_long: bool,
    /// Number of tasks that this PE has run.
    done: u64,
    /// Binary logarithm of the number of tasks last reported to the agent, plus one; 0 for none.
    told_done: u32,
}

impl<W: Work> Engine<W> {
    /// An engine without tasks. `alone`: no other PE will ask for work.
    pub(super) fn new(pe: PeId, slot: usize, node: Arc<Deques<W::Item>>, alone: bool) -> Self {
        Self {
            pe,
            now: Time::ZERO,
            slot,
            offered: node.join(slot),
            bound: LocalBound::new(node.bound.clone(), W::GOAL),
            node,
            kept: Vec::new(),
            frames: Frames::default(),
            finished: Vec::new(),
            calls: Vec::new(),
            wakes: Vec::new(),
            lineage: LineageId::FOUNDERS,
            charged_ns: 0,
            failure: None,
            alone,
            are_long: true,
            done: 0,
            told_done: 0,
        }
    }

    /// Adds a new task, which is the next to be run here.
    #[inline]
    pub(super) fn push(&mut self, item: W::Item, frame: FrameId, child: u32) {
        self.kept.push(QueuedTask { item, frame, child, lineage: self.lineage });
    }

    /// Adds tasks from outside, each with the number of its root, at the old end, where thieves
    /// find them first (Zhang et al., 2007).
    pub(super) fn submit(
        &mut self,
        items: impl IntoIterator<Item = (W::Item, u64)>,
        repeats: Repeats,
    ) {
        let lineage = LineageId::of_root(repeats);
        let frames = &mut self.frames;
        let tokens = items.into_iter().map(|(item, root)| {
            let up = Up::Root(root);
            let frame = frames.open(Frame { up, pending: 1, lineage, state: W::loan() });
            QueuedTask { item, frame, child: 0, lineage }
        });
        self.kept.splice(..0, tokens);
    }

    /// Adds the tasks of a loan from another PE, oldest first.
    pub(super) fn borrow(
        &mut self,
        lender: Lender,
        lineage: Held,
        items: impl Iterator<Item = W::Item>,
    ) {
        let id = lineage.id();
        let frame = self.frames.borrow(lender, lineage, W::loan());
        self.kept.extend(items.map(|item| QueuedTask { item, frame, child: 0, lineage: id }));
    }

    /// Notes that other PEs may ask for work from now on.
    pub(super) fn expect_thieves(&mut self) {
        self.alone = false;
    }

    /// Adds tasks for a frame to wait for; does nothing if the frame does not exist.
    pub(super) fn resume(&mut self, frame: FrameId, items: Vec<W::Item>) {
        let Some(waiting) = self.frames.get(frame) else { return };
        waiting.pending += items.len() as u64;
        let lineage = waiting.lineage;
        let tokens = items.into_iter().map(|item| QueuedTask { item, frame, child: 0, lineage });
        self.kept.splice(..0, tokens);
    }

    /// Takes back a loan that another PE has not finished: the items that are left, and the output
    /// of the others. Does nothing if the frame does not exist.
    pub(super) fn take_rest(
        &mut self,
        lender: &Lender,
        items: Vec<W::Item>,
        repeats: Repeats,
        output: Option<W::Output>,
    ) {
        let &Lender { frame, child, items: lent, .. } = lender;
        let Some(waiting) = self.frames.get(frame) else { return };
        waiting.pending += items.len() as u64;
        let lineage = waiting.lineage.with(repeats);
        if output.is_none() {
            waiting.pending = waiting.pending.saturating_sub(lent);
        }
        let tokens = items.into_iter().map(|item| QueuedTask { item, frame, child, lineage });
        self.kept.splice(..0, tokens);
        if let Some(output) = output {
            W::report(self, frame, child, lent, output);
        }
    }

    /// Removes and returns all tasks of this PE.
    pub(super) fn take_all(&mut self) -> Vec<QueuedTask<W::Item>> {
        let mut all = std::mem::take(&mut self.kept);
        all.extend(std::iter::from_fn(|| self.offered.pop()));
        all
    }

    /// Runs the newest task. Returns whether there was one.
    #[inline]
    pub(super) fn step(&mut self) -> bool {
        let Some(QueuedTask { item, frame, child, lineage }) = self.kept.pop() else {
            return self.step_offered();
        };
        self.lineage = lineage;
        W::run(self, item, frame, child);
        true
    }

    /// Runs the newest offered task. Not inlined, so that `step` moves a kept task only once: a
    /// second move would load fields that were just stored, with another width, and stall the
    /// processor.
    #[inline(never)]
    fn step_offered(&mut self) -> bool {
        if self.node.rests() {
            // The agent gives these tasks to other nodes.
            return false;
        }
        let Some(QueuedTask { item, frame, child, lineage }) = self.offered.pop() else {
            return false;
        };
        self.lineage = lineage;
        W::run(self, item, frame, child);
        true
    }

    /// If other PEs could take tasks: offers all kept tasks but one if tasks are long, and
    /// otherwise the older half of them, once no offered task is left. The caller should notify the
    /// PEs in `wakes` before it runs a task. In a node that rests, no other PE takes tasks: those
    /// that are kept are too large to leave, or are about to be given back.
    #[inline]
    pub(super) fn share(&mut self) {
        let may_offer = !self.alone && self.kept.len() > 1;
        if may_offer && (self.are_long || self.offered.is_empty()) && !self.node.rests() {
            self.offer();
        }
    }

    /// Keeps the task that runs next, and notes how many tasks could be taken away from the node.
    /// Returns whether to notify the agent.
    pub(super) fn publish(&mut self) -> bool {
        if !self.node.has_agent() {
            return false;
        }
        if self.kept.is_empty() && !self.node.rests() {
            self.kept.extend(self.offered.pop());
        }
        self.node.note_kept(self.slot, self.kept.len().saturating_sub(1));
        self.node.note_told(self.node.stock())
    }

    /// Notes that a slice has run this many tasks.
    pub(super) fn note_done(&mut self, tasks: u64) {
        self.done += tasks;
        self.node.note_done(self.slot, tasks);
    }

    /// Returns whether to notify the agent of the number of tasks done: each time that it passes a
    /// power of two. From this number, the agent estimates how long a task takes.
    pub(super) fn tell_done(&mut self) -> bool {
        let size = self.done.checked_ilog2().map_or(0, |log| log + 1);
        std::mem::replace(&mut self.told_done, size) != size && self.node.has_agent()
    }

    #[cold]
    fn offer(&mut self) {
        let (tasks, slots) = (self.kept.len(), self.node.len());
        // If a PE sleeps, offer at least one task for each PE of the node, if there are enough:
        // other PEs cannot take kept tasks while one runs.
        let least = if self.node.has_sleepers() { slots.min(tasks - 1) } else { 0 };
        let share = if self.are_long { tasks - 1 } else { (tasks / 2).min(OFFER_MAX) };
        self.lay_out(share.max(least));
        self.wake_another();
    }

    /// Wakes another PE of the node if one sleeps.
    fn wake_another(&mut self) {
        self.wakes.extend(self.node.wake_other(self.slot));
    }

    /// Offers the oldest `share` of the kept tasks.
    pub(super) fn lay_out(&mut self, share: usize) {
        for token in self.kept.drain(..share) {
            self.offered.push(token);
        }
    }

    /// Takes about half of the tasks that another PE of this node offers, oldest first. Returns
    /// whether there were any.
    pub(super) fn steal(&mut self) -> bool {
        let slots = self.node.len();
        for slot in (1..slots).map(|step| (self.slot + step) % slots) {
            let share = self.node.offered(slot).div_ceil(2).clamp(1, TAKE_MAX);
            let pe = self.node.pe_of(slot);
            let mut taken = (0..share).map_while(|_| self.node.steal(slot)).peekable();
            if taken.peek().is_none() {
                continue;
            }
            let tokens: Vec<_> = taken.collect();
            self.open_loans(pe, tokens);
            // The PE that offered these has woken one PE only, and may be busy with a long task by
            // now.
            if self.node.offered(slot) > 0 {
                self.wake_another();
            }
            return true;
        }
        false
    }

    /// Opens loans for tokens taken from another PE, which work for that PE's frames.
    fn open_loans(&mut self, pe: PeId, tokens: Vec<QueuedTask<W::Item>>) {
        let mut loan: Option<(FrameId, FrameId)> = None;
        for QueuedTask { item, frame: lent_by, child, lineage } in tokens {
            // The PE may not have learned yet that a guest or a copy is gone.
            let Some(held) = self.node.lineages.hold(lineage) else { continue };
            let frame = match loan {
                Some((lender, frame)) if W::SHARES_LOANS && lender == lent_by => {
                    self.frames.extend(frame);
                    frame
                }
                _ => {
                    let lender = Lender { pe, frame: lent_by, child, items: 1, copy: None };
                    self.frames.borrow(lender, held, W::loan())
                }
            };
            loan = Some((lent_by, frame));
            self.kept.push(QueuedTask { item, frame, child: 0, lineage });
        }
    }

    /// Drops the tasks that came through a guest or a copy that is gone, and the frames that they
    /// work for, so that later outputs for these frames have no effect.
    pub(super) fn drop_orphans(&mut self) {
        let lineages = &self.node.lineages;
        let mut known = BTreeMap::new();
        let orphans = self
            .frames
            .find(|lineage| *known.entry(lineage).or_insert_with(|| lineages.is_orphaned(lineage)));
        if !orphans.is_empty() {
            orphans.into_iter().for_each(|frame| drop(self.frames.release(frame)));
            self.drop_unowned();
        }
    }

    /// Drops the tasks of closed frames.
    pub(super) fn drop_unowned(&mut self) {
        let mut all: Vec<_> = std::iter::from_fn(|| self.offered.pop()).collect();
        all.reverse();
        all.append(&mut self.kept);
        all.retain(|token| self.frames.get(token.frame).is_some());
        self.kept = all;
    }

    /// Takes the oldest task of the first PE of this node that offers any. If no PE does, takes the
    /// oldest task kept here, unless only one is kept. Returns the task with the slot of the PE
    /// whose frame it works for.
    pub(super) fn take_oldest(&mut self) -> Option<(usize, QueuedTask<W::Item>)> {
        if let Some(open) = self.node.steal_any() {
            return Some(open);
        }
        self.lay_out((self.kept.len() / 2).min(OFFER_MAX));
        Some((self.slot, self.node.steal(self.slot)?))
    }

    /// Wakes another PE if this PE still offers tasks.
    pub(super) fn share_rest(&mut self) {
        if !self.offered.is_empty() {
            self.wake_another();
        }
    }

    /// Puts a task back that was taken but has not left.
    pub(super) fn put_back(&mut self, slot: usize, token: QueuedTask<W::Item>) {
        if slot == self.slot {
            // No frame waits for a task that came through a guest that is gone.
            if self.frames.get(token.frame).is_some() {
                self.kept.insert(0, token);
            }
            return;
        }
        let QueuedTask { item, frame, child, lineage } = token;
        let Some(lineage) = self.node.lineages.hold(lineage) else { return };
        let pe = self.node.pe_of(slot);
        let lender = Lender { pe, frame, child, items: 1, copy: None };
        self.borrow(lender, lineage, std::iter::once(item));
    }

    /// Whether there is anything to run here.
    #[inline]
    pub(super) fn has_tasks(&self) -> bool {
        !self.kept.is_empty() || !self.offered.is_empty() && !self.node.rests()
    }

    /// Counts the unfinished work of this PE, which includes `roots` roots.
    pub(super) fn open_tasks(&self, roots: u64) -> OpenTasks {
        OpenTasks { roots, frames: self.frames.len() as u64, ready: self.waiting() }
    }

    /// Number of tasks that wait here.
    pub(super) fn waiting(&self) -> u64 {
        (self.kept.len() + self.node.offered(self.slot)) as u64
    }

    /// Marks this PE asleep. Returns whether it was the last PE of the node awake.
    pub(super) fn fall_asleep(&self) -> bool {
        self.node.fall_asleep(self.slot)
    }

    /// Marks this PE awake. Returns whether the whole node slept before.
    pub(super) fn wake_up(&self) -> bool {
        let was_dry = self.node.is_dry();
        self.node.wake(self.slot);
        was_dry
    }

    /// Records a value of the bound that the running task has found. Returns whether it is better
    /// than the best known here.
    pub(super) fn improve(&mut self, value: i64) -> bool {
        let at = self.now + Duration::from_nanos(self.charged_ns);
        self.bound.improve(value, at, self.lineage)
    }

    /// Makes the job end with this reason, unless there is an earlier one.
    pub(super) fn fail(&mut self, reason: String) {
        self.failure.get_or_insert(reason);
    }
}

#[cfg(test)]
mod tests;
