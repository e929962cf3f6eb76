//! The tasks and frames of one PE.

use super::deques::Deques;
use super::frame::{Frame, FrameId, Frames, Lender, Up};
use super::work::{Token, Work};
use crossbeam_deque::Worker;
use gridspan_topology::{PeId, Time};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Tasks laid out at a time, at most: moving them costs about 5 ns each.
const OFFER_MAX: usize = 1024;
/// Tasks taken from another PE of the node at a time, at most.
const TAKE_MAX: usize = 32;

/// Work whose result has to go elsewhere.
pub(super) enum Finished<O> {
    /// Back to the PE that it was taken from.
    Loan(Lender, O),
    /// To whoever handed in the root.
    Root(u64, O),
}

/// The tasks and frames of one PE.
pub(crate) struct Engine<W: Work> {
    pub(super) pe: PeId,
    pub(super) now: Time,
    /// This PE's number in its node, and the first PE of the node.
    seat: usize,
    node: Arc<Deques<W::Item>>,
    /// Newest at the back.
    kept: VecDeque<Token<W::Item>>,
    /// What others may take, oldest first.
    offered: Worker<Token<W::Item>>,
    pub(super) frames: Frames<W::State>,
    pub(super) finished: Vec<Finished<W::Output>>,
    /// PEs of this node, by seat, that are to be told that there is work.
    pub(super) wakes: Vec<usize>,
    /// Virtual time that tasks charged.
    pub(super) charged: Duration,
    /// Why a task ends the job.
    pub(super) failure: Option<String>,
    /// Whether anybody could take what is laid out.
    alone: bool,
}

impl<W: Work> Engine<W> {
    /// `alone`: no other PE will ever ask for work.
    pub(super) fn new(pe: PeId, seat: usize, node: Arc<Deques<W::Item>>, alone: bool) -> Self {
        Self {
            pe,
            now: Time::ZERO,
            seat,
            offered: node.join(seat),
            node,
            kept: VecDeque::new(),
            frames: Frames::default(),
            finished: Vec::new(),
            wakes: Vec::new(),
            charged: Duration::ZERO,
            failure: None,
            alone,
        }
    }

    /// Adds a new task, which is the next to be run here.
    #[inline]
    pub(super) fn push(&mut self, item: W::Item, frame: FrameId, child: u32) {
        self.kept.push_back(Token { item, frame, child });
    }

    /// Adds a task from outside at the old end, where thieves find it first (paper 3).
    pub(super) fn submit(&mut self, item: W::Item, root: u64) {
        let up = Up::Root(root);
        let frame = self.frames.open(Frame { up, pending: 1, state: W::loan() });
        self.kept.push_front(Token { item, frame, child: 0 });
    }

    /// Adds what another PE has lent, oldest first.
    pub(super) fn borrow(&mut self, lender: Lender, items: impl Iterator<Item = W::Item>) {
        let frame = Frame { up: Up::Lender(lender), pending: lender.items, state: W::loan() };
        let frame = self.frames.open(frame);
        self.kept.extend(items.map(|item| Token { item, frame, child: 0 }));
    }

    /// Runs the newest task. Returns whether there was one.
    #[inline]
    pub(super) fn step(&mut self) -> bool {
        let token = match self.kept.pop_back() {
            Some(token) => token,
            None => match self.offered.pop() {
                Some(token) => token,
                None => return false,
            },
        };
        W::run(self, token.item, token.frame, token.child);
        if !self.alone && self.kept.len() > 1 && self.offered.is_empty() {
            self.offer();
        }
        true
    }

    /// Lays out the older half of the tasks, and wakes somebody who may take them.
    #[cold]
    fn offer(&mut self) {
        let share = (self.kept.len() / 2).min(OFFER_MAX);
        for token in self.kept.drain(..share) {
            self.offered.push(token);
        }
        self.wakes.extend(self.node.wake_one());
    }

    /// Takes older tasks of another PE of this node. Returns whether there were any.
    pub(super) fn steal(&mut self) -> bool {
        let seats = self.node.len();
        for seat in (1..seats).map(|step| (self.seat + step) % seats) {
            let share = self.node.offered(seat).div_ceil(2).clamp(1, TAKE_MAX);
            let pe = PeId(self.pe.0 - self.seat as u32 + seat as u32);
            let tokens: Vec<_> = (0..share).map_while(|_| self.node.steal(seat)).collect();
            if !tokens.is_empty() {
                self.open_loans(pe, tokens);
                return true;
            }
        }
        false
    }

    /// Works for the frames that tokens of another PE came from.
    fn open_loans(&mut self, pe: PeId, tokens: Vec<Token<W::Item>>) {
        for (lender, items) in bundle::<W>(pe, tokens) {
            self.borrow(lender, items.into_iter());
        }
    }

    /// Takes up to `limit` of the oldest tasks that this node's PEs have laid out, and of those kept
    /// here, for another node.
    pub(super) fn give(&mut self, limit: usize) -> Vec<(Lender, Vec<W::Item>)> {
        let mut loans = Vec::new();
        let mut left = limit;
        let first = self.pe.0 - self.seat as u32;
        for seat in 0..self.node.len() {
            let share = left.min(self.node.offered(seat));
            let tokens: Vec<_> = (0..share).map_while(|_| self.node.steal(seat)).collect();
            left -= tokens.len();
            loans.extend(bundle::<W>(PeId(first + seat as u32), tokens));
        }
        let own = self.kept.drain(..left.min(self.kept.len().saturating_sub(1))).collect();
        loans.extend(bundle::<W>(self.pe, own));
        loans
    }

    /// Says what is kept here, and returns what the node has, about.
    pub(super) fn backlog(&self) -> usize {
        self.node.keep(self.seat, self.kept.len());
        self.node.backlog()
    }

    /// Whether there is anything to run.
    pub(super) fn has_tasks(&self) -> bool {
        !self.kept.is_empty() || !self.offered.is_empty()
    }

    /// Says that this PE has nothing; returns whether the whole node has not.
    pub(super) fn fall_asleep(&self) -> bool {
        self.node.keep(self.seat, 0);
        self.node.fall_asleep(self.seat)
    }

    /// This PE has something again, or looks for it.
    pub(super) fn wake_up(&self) {
        self.node.wake(self.seat);
    }

    /// Whether no PE of the node has anything.
    pub(super) fn is_dry(&self) -> bool {
        self.node.is_dry()
    }

    /// Ends the job.
    pub(super) fn fail(&mut self, reason: String) {
        self.failure.get_or_insert(reason);
    }
}

/// Tokens of a PE as loans: one for each token, or for each run of tokens that work for one frame.
fn bundle<W: Work>(pe: PeId, tokens: Vec<Token<W::Item>>) -> Vec<(Lender, Vec<W::Item>)> {
    let mut loans: Vec<(Lender, Vec<W::Item>)> = Vec::new();
    for Token { item, frame, child } in tokens {
        match loans.last_mut() {
            Some((lender, items)) if W::SHARES_LOANS && lender.frame == frame => {
                lender.items += 1;
                items.push(item);
            }
            _ => loans.push((Lender { pe, frame, child, items: 1 }, vec![item])),
        }
    }
    loans
}
