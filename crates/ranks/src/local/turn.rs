//! The messages that a rank has sent in a turn of its PE, and their departure before it computes.
//!
//! Messages of a rank leave when the rank suspends. If a wait is already complete, the rank would
//! not suspend: it would compute first, and the receivers would wait for that computation. So a
//! wait that is already complete yields to the PE once, if the rank has unsent messages.

use super::{LocalState, Turn};
use crate::packet::RankMessage;
use gridspan_runtime::Time;
use std::task::Waker;

/// Whether a wait has already yielded to the PE.
#[derive(Debug, Default)]
pub(crate) struct GivenWay {
    is_given: bool,
}

impl GivenWay {
    /// Yields to the PE, at most once in a wait, if the rank has unsent messages, and wakes the
    /// task afterwards. Returns whether it yields. Call it when the wait is over.
    pub(crate) fn gives(&mut self, state: &mut LocalState, waker: &Waker) -> bool {
        if self.is_given || !state.has_unsent() {
            return false;
        }
        self.is_given = true;
        state.go_on(waker);
        true
    }
}

impl LocalState {
    /// Begins a turn of the PE.
    pub(crate) fn begin_turn(&mut self, now: Time) {
        (self.now, self.turn) = (now, Turn::default());
    }

    /// Notes that the rank has sent a message.
    pub(crate) fn note_sent(&mut self, is_near: bool) {
        let Turn { near, far, .. } = &mut self.turn;
        *(if is_near { near } else { far }) += 1;
    }

    /// Notes that the rank has sent something else, or has begun something that sends messages once
    /// the rank waits.
    pub(crate) fn note_unsent(&mut self) {
        self.turn.other += 1;
    }

    /// Puts something other than a message of the program into the outbox.
    pub(crate) fn put(&mut self, to: u32, message: RankMessage) {
        if to != self.rank {
            self.note_unsent();
        }
        self.put_out(to, message);
    }

    /// Adds a message to the outbox, which begins with room for one: many ranks send no more before
    /// they wait.
    pub(super) fn put_out(&mut self, to: u32, message: RankMessage) {
        if self.outbox.is_empty() {
            self.outbox.reserve_exact(1);
        }
        self.outbox.push((to, message));
    }

    /// Whether something that the rank has sent in this turn leaves only when it waits.
    pub(crate) fn has_unsent(&self) -> bool {
        let Turn { near, far, other } = self.turn;
        near > 0 || far > 0 || other > 0
    }

    /// Whether the rank yields to the PE after a send that is already complete. After a send to
    /// another PE it yields, so that the message leaves. After a send to the same PE it would yield
    /// to the receiver, although the sender often waits next anyway. So it yields only from the
    /// second such send on.
    pub(crate) fn gives_way_after_send(&self) -> bool {
        let Turn { near, far, other } = self.turn;
        near > 1 || far > 0 || other > 0
    }

    /// Whether the rank yields to the PE after a collective operation that is already complete:
    /// otherwise messages of the operation to other PEs would leave only after the rank's next
    /// computation.
    pub(crate) fn gives_way_after_collective(&self) -> bool {
        self.has_messages_that_leave()
    }

    /// Whether the rank may have sent something to another PE in this turn.
    pub(crate) fn has_messages_that_leave(&self) -> bool {
        self.turn.far > 0 || self.turn.other > 0
    }

    /// Wakes a task once the PE has handled the messages that are in its queue now.
    pub(crate) fn go_on(&mut self, waker: &Waker) {
        self.post_go_on();
        self.resumed.push(waker.clone());
    }

    /// Sends this rank a message that arrives once the PE has handled those in its queue now.
    pub(super) fn post_go_on(&mut self) {
        if self.resumed.is_empty() && self.leaving.is_empty() {
            self.put_out(self.rank, RankMessage::GoOn);
        }
    }
}
