//! The tasks and frames of one PE.

use super::deques::Deques;
use super::frame::{Frame, FrameId, Frames, Lender, Up};
use super::work::{Token, Work};
use crossbeam_deque::Worker;
use gridspan_topology::{PeId, Time};
use std::sync::Arc;

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
    /// Newest at the end.
    pub(super) kept: Vec<Token<W::Item>>,
    /// What others may take, oldest first.
    offered: Worker<Token<W::Item>>,
    pub(super) frames: Frames<W::State>,
    pub(super) finished: Vec<Finished<W::Output>>,
    /// PEs of this node, by seat, that are to be told that there is work.
    pub(super) wakes: Vec<usize>,
    /// Nanoseconds of virtual time that tasks charged.
    pub(super) charged_ns: u64,
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
            kept: Vec::new(),
            frames: Frames::default(),
            finished: Vec::new(),
            wakes: Vec::new(),
            charged_ns: 0,
            failure: None,
            alone,
        }
    }

    /// Adds a new task, which is the next to be run here.
    #[inline]
    pub(super) fn push(&mut self, item: W::Item, frame: FrameId, child: u32) {
        self.kept.push(Token { item, frame, child });
    }

    /// Adds a task from outside at the old end, where thieves find it first (paper 3).
    pub(super) fn submit(&mut self, item: W::Item, root: u64) {
        let up = Up::Root(root);
        let frame = self.frames.open(Frame { up, pending: 1, state: W::loan() });
        self.kept.insert(0, Token { item, frame, child: 0 });
    }

    /// Adds what another PE has lent, oldest first.
    pub(super) fn borrow(&mut self, lender: Lender, items: impl Iterator<Item = W::Item>) {
        let frame =
            Frame { up: Up::Lender(lender.into()), pending: lender.items, state: W::loan() };
        let frame = self.frames.open(frame);
        self.kept.extend(items.map(|item| Token { item, frame, child: 0 }));
    }

    /// Runs the newest task. Returns whether there was one.
    #[inline]
    pub(super) fn step(&mut self) -> bool {
        let token = match self.kept.pop() {
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
        self.lay_out();
        self.wakes.extend(self.node.wake_one());
    }

    fn lay_out(&mut self) {
        let share = (self.kept.len() / 2).min(OFFER_MAX);
        for token in self.kept.drain(..share) {
            self.offered.push(token);
        }
    }

    /// Takes older tasks of another PE of this node. Returns whether there were any.
    pub(super) fn steal(&mut self) -> bool {
        let seats = self.node.len();
        for seat in (1..seats).map(|step| (self.seat + step) % seats) {
            let share = self.node.offered(seat).div_ceil(2).clamp(1, TAKE_MAX);
            let pe = self.pe_of(seat);
            let mut taken = (0..share).map_while(|_| self.node.steal(seat)).peekable();
            if taken.peek().is_none() {
                continue;
            }
            let tokens: Vec<_> = taken.collect();
            self.open_loans(pe, tokens);
            return true;
        }
        false
    }

    /// Works for the frames of another PE that its tokens came from.
    fn open_loans(&mut self, pe: PeId, tokens: Vec<Token<W::Item>>) {
        let mut loan: Option<(FrameId, FrameId)> = None;
        for Token { item, frame: lent_by, child } in tokens {
            let frame = match loan {
                Some((lender, frame)) if W::SHARES_LOANS && lender == lent_by => {
                    self.frames.extend(frame);
                    frame
                }
                _ => {
                    let lender = Lender { pe, frame: lent_by, child, items: 1 };
                    self.frames.open(Frame {
                        up: Up::Lender(lender.into()),
                        pending: 1,
                        state: W::loan(),
                    })
                }
            };
            loan = Some((lent_by, frame));
            self.kept.push(Token { item, frame, child: 0 });
        }
    }

    /// Takes the oldest task that lies open in this node, or else of those kept here but the newest, with
    /// the PE whose frame it works for.
    pub(super) fn take_oldest(&mut self) -> Option<(PeId, Token<W::Item>)> {
        let seats = 0..self.node.len();
        let offered = seats.into_iter().find_map(|seat| Some((seat, self.node.steal(seat)?)));
        if let Some((seat, token)) = offered {
            return Some((self.pe_of(seat), token));
        }
        self.lay_out();
        Some((self.pe, self.node.steal(self.seat)?))
    }

    /// Keeps a task that was taken after all.
    pub(super) fn put_back(&mut self, pe: PeId, token: Token<W::Item>) {
        if pe == self.pe {
            return self.kept.insert(0, token);
        }
        let Token { item, frame, child } = token;
        self.borrow(Lender { pe, frame, child, items: 1 }, std::iter::once(item));
    }

    /// How many tasks could be taken away from this node.
    pub(super) fn stock(&self) -> u64 {
        let offered: usize = (0..self.node.len()).map(|seat| self.node.offered(seat)).sum();
        (offered + self.kept.len().saturating_sub(1)) as u64
    }

    fn pe_of(&self, seat: usize) -> PeId {
        PeId(self.pe.0 - self.seat as u32 + seat as u32)
    }

    /// Whether there is anything to run.
    pub(super) fn has_tasks(&self) -> bool {
        !self.kept.is_empty() || !self.offered.is_empty()
    }

    /// Says that this PE has nothing; returns whether the whole node has not.
    pub(super) fn fall_asleep(&self) -> bool {
        self.node.fall_asleep(self.seat)
    }

    /// This PE has something to run. Returns whether the whole node slept before.
    pub(super) fn wake_up(&self) -> bool {
        let was_dry = self.node.is_dry();
        self.node.wake(self.seat);
        was_dry
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
