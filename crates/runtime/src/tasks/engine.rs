//! The tasks and frames of one PE, whatever kind of work they are.

use super::bound::{Goal, LocalBound};
use super::deques::Deques;
use super::frame::{Frame, FrameId, Frames, Lender, QueuedTask, Up};
use super::lineage::{Held, LineageId};
use super::message::WorkerMessage;
use crate::address::id::{ActorId, CollectionId};
use crate::message::codec::DecodeError;
use crate::pe::Core;
use bytes::Bytes;
use crossbeam_deque::Worker;
use gridspan_topology::{PeId, Time};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Short tasks laid out at a time, at most: moving them costs about 5 ns each.
const OFFER_MAX: usize = 1024;
/// Tasks taken from another PE of the node at a time, at most.
const TAKE_MAX: usize = 32;

/// Fork-join tasks of one type, or searches of one type.
pub(crate) trait Work: Sized + Send + 'static {
    /// What is run.
    type Item: Serialize + DeserializeOwned + Send + 'static;
    /// What comes of it.
    type Output: Serialize + DeserializeOwned + Send + 'static;
    /// What a frame keeps until its children are done.
    type State: Send + 'static;

    /// Its name, for people.
    fn name() -> &'static str;

    /// What a frame keeps that waits for stolen or handed-in work.
    fn loan() -> Self::State;

    /// An output that changes nothing where it is handed in, if there is one.
    fn nothing() -> Option<Self::Output>;

    /// Which of two values of the bound is better.
    const GOAL: Goal;

    /// Whether items that work for the same frame can share a loan: their outputs become one.
    const SHARES_LOANS: bool;

    /// Runs an item that works for `frame` as its child of this number.
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

/// Work whose result has to go elsewhere.
pub(super) enum Finished<O> {
    /// Back to the PE that it was taken from.
    Loan(Lender, O),
    /// To whoever handed in the root.
    Root(u64, O),
}

/// Takes an output of another pool for one of this.
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
    /// This PE's number in its node, and the first PE of the node.
    slot: usize,
    pub(super) node: Arc<Deques<W::Item>>,
    /// Newest at the end.
    pub(super) kept: Vec<QueuedTask<W::Item>>,
    /// What others may take, oldest first. All of it is older than what is kept.
    offered: Worker<QueuedTask<W::Item>>,
    pub(super) frames: Frames<W::State>,
    pub(super) finished: Vec<Finished<W::Output>>,
    /// Tasks for other pools.
    pub(super) calls: Vec<Call<W::Output>>,
    pub(super) bound: LocalBound,
    /// PEs of this node, by slot, that are to be told that there is work.
    pub(super) wakes: Vec<usize>,
    /// That of the task that runs.
    pub(super) lineage: LineageId,
    /// Nanoseconds of virtual time that tasks charged.
    pub(super) charged_ns: u64,
    /// Why a task ends the job.
    pub(super) failure: Option<String>,
    /// Whether anybody could take what is laid out.
    alone: bool,
    /// Whether tasks take long, so that all lie open but the one that is run next: what is kept
    /// cannot be had meanwhile.
    pub(super) are_long: bool,
    /// How many tasks this PE has run, and of what size that was when the agent was last told.
    done: u64,
    told_done: u32,
}

impl<W: Work> Engine<W> {
    /// `alone`: no other PE will ever ask for work.
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
    /// find them first (paper 3).
    pub(super) fn submit(&mut self, items: impl IntoIterator<Item = (W::Item, u64)>) {
        let lineage = LineageId::FOUNDERS;
        let frames = &mut self.frames;
        let tokens = items.into_iter().map(|(item, root)| {
            let up = Up::Root(root);
            let frame = frames.open(Frame { up, pending: 1, lineage, state: W::loan() });
            QueuedTask { item, frame, child: 0, lineage }
        });
        self.kept.splice(..0, tokens);
    }

    /// Adds what another PE has lent, oldest first.
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

    /// From now on others may ask for work.
    pub(super) fn expect_thieves(&mut self) {
        self.alone = false;
    }

    /// Adds more for a frame to wait for; nothing if it does not exist.
    pub(super) fn resume(&mut self, frame: FrameId, items: Vec<W::Item>) {
        let Some(waiting) = self.frames.get(frame) else { return };
        waiting.pending += items.len() as u64;
        let lineage = waiting.lineage;
        let tokens = items.into_iter().map(|item| QueuedTask { item, frame, child: 0, lineage });
        self.kept.splice(..0, tokens);
    }

    /// All tasks of this PE.
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

    /// Runs the newest offered task. Accounted out of line so that the usual token is moved once: its
    /// parts have just been stored, and loading them with another width stalls the processor.
    #[inline(never)]
    fn step_offered(&mut self) -> bool {
        let Some(QueuedTask { item, frame, child, lineage }) = self.offered.pop() else {
            return false;
        };
        self.lineage = lineage;
        W::run(self, item, frame, child);
        true
    }

    /// Lays out the older half of the tasks if others could take them and find none; all but one,
    /// if tasks are long. Whoever is to be [woken](Self::wakes) should be told before a task is
    /// run.
    #[inline]
    pub(super) fn share(&mut self) {
        if !self.alone && self.kept.len() > 1 && (self.are_long || self.offered.is_empty()) {
            self.offer();
        }
    }

    /// Keeps the task that is run next, and says how much could be taken away from the node;
    /// whether its agent is to be told.
    pub(super) fn publish(&mut self) -> bool {
        if !self.node.has_agent() {
            return false;
        }
        if self.kept.is_empty() {
            self.kept.extend(self.offered.pop());
        }
        self.node.note_kept(self.slot, self.kept.len().saturating_sub(1));
        self.node.note_told(self.node.stock())
    }

    /// So many were run in a slice.
    pub(super) fn note_done(&mut self, tasks: u64) {
        self.done += tasks;
        self.node.note_done(self.slot, tasks);
    }

    /// Whether the agent is to be told how many tasks are done, since they show what a task
    /// takes: powers of two make a difference.
    pub(super) fn tell_done(&mut self) -> bool {
        let size = self.done.checked_ilog2().map_or(0, |log| log + 1);
        std::mem::replace(&mut self.told_done, size) != size && self.node.has_agent()
    }

    #[cold]
    fn offer(&mut self) {
        let (tasks, slots) = (self.kept.len(), self.node.len());
        // For those that sleep there is one each, if there are as many: tasks kept here cannot be
        // had while one is run.
        let least = if self.node.has_sleepers() { slots.min(tasks - 1) } else { 0 };
        let share = if self.are_long { tasks - 1 } else { (tasks / 2).min(OFFER_MAX) };
        self.lay_out(share.max(least));
        self.wake_another();
    }

    /// Has another PE of the node woken if one sleeps.
    fn wake_another(&mut self) {
        self.wakes.extend(self.node.wake_other(self.slot));
    }

    /// Lays out so many of the tasks kept here, the oldest.
    fn lay_out(&mut self, share: usize) {
        for token in self.kept.drain(..share) {
            self.offered.push(token);
        }
    }

    /// Takes older tasks of another PE of this node. Returns whether there were any.
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
            // Whoever laid these out has woken one PE only, and may be busy with a long task by
            // now.
            if self.node.offered(slot) > 0 {
                self.wake_another();
            }
            return true;
        }
        false
    }

    /// Works for the frames of another PE that its tokens came from.
    fn open_loans(&mut self, pe: PeId, tokens: Vec<QueuedTask<W::Item>>) {
        let mut loan: Option<(FrameId, FrameId)> = None;
        for QueuedTask { item, frame: lent_by, child, lineage } in tokens {
            // The PE may not have heard yet of a guest that is gone.
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

    /// Drops the tasks that came through something that is gone, with the frames that they work for:
    /// an output that comes for one finds no frame.
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

    /// Drops the tasks whose frames are closed.
    pub(super) fn drop_unowned(&mut self) {
        let mut all: Vec<_> = std::iter::from_fn(|| self.offered.pop()).collect();
        all.reverse();
        all.append(&mut self.kept);
        all.retain(|token| self.frames.get(token.frame).is_some());
        self.kept = all;
    }

    /// Takes the oldest task that lies open in this node, or else of those kept here but the
    /// newest, with the slot of the PE whose frame it works for.
    pub(super) fn take_oldest(&mut self) -> Option<(usize, QueuedTask<W::Item>)> {
        if let Some(open) = self.node.steal_any() {
            return Some(open);
        }
        self.lay_out((self.kept.len() / 2).min(OFFER_MAX));
        Some((self.slot, self.node.steal(self.slot)?))
    }

    /// Has somebody woken for what was laid out to be taken by others, and was not.
    pub(super) fn share_rest(&mut self) {
        if !self.offered.is_empty() {
            self.wake_another();
        }
    }

    /// Keeps a task that was taken after all.
    pub(super) fn put_back(&mut self, slot: usize, token: QueuedTask<W::Item>) {
        if slot == self.slot {
            // Nobody waits for a task that came through a guest that is gone.
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

    /// Whether there is anything to run.
    #[inline]
    pub(super) fn has_tasks(&self) -> bool {
        !self.kept.is_empty() || !self.offered.is_empty()
    }

    /// Says that this PE has nothing; returns whether the whole node has not.
    pub(super) fn fall_asleep(&self) -> bool {
        self.node.fall_asleep(self.slot)
    }

    /// This PE has something to run. Returns whether the whole node slept before.
    pub(super) fn wake_up(&self) -> bool {
        let was_dry = self.node.is_dry();
        self.node.wake(self.slot);
        was_dry
    }

    /// Takes a value of the bound that the task that runs has found.
    pub(super) fn improve(&mut self, value: i64) -> bool {
        let at = self.now + Duration::from_nanos(self.charged_ns);
        self.bound.improve(value, at)
    }

    /// Ends the job.
    pub(super) fn fail(&mut self, reason: String) {
        self.failure.get_or_insert(reason);
    }
}

#[cfg(test)]
mod tests;
