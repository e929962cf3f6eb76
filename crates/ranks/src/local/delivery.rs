//! What a rank's state does with messages of other ranks, with answers and with notices.

use super::interrupts::is_agreed;
use super::slots::Outcome;
use super::{Local, LocalState, Sent};
use crate::matching::{Arrival, Arrived, Label};
use crate::packet::{Access, Answer, Load, Payload, RankMessage};
use crate::scope::Scope;
use crate::ticket::Ticket;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;

/// Largest number of bytes of a rank's long messages that leave with their data before receives
/// have matched them. While a PE computes, it takes no messages, and those that wait for it count
/// in its memory budget: above 256 MiB its node reads no more from the network, and above 2 GiB the
/// job ends. If the receiver has moved to another node, such a message follows it there whole, so
/// the number must also be a possible length of a message between nodes.
pub(super) const INCLUDED_BYTES_MAX: usize = 4 << 20;

impl Local {
    /// Carries out an access, by a rank of the job, that runs the operator of a window. The state
    /// is not locked meanwhile, because the operator may use a communicator of this rank.
    ///
    /// If the operator panics in a job with `ErrorsReturn`, the window is lost, and the actor finds
    /// the panic in the state.
    pub(crate) fn run_operator(&self, (from, token): (u32, u32), number: u32, access: &Access) {
        let found = self
            .with(|state| Some((state.windows.remove(&number)?, state.interrupts.are_possible())));
        let Some((mut window, fails_alone)) = found else { return };
        let mut run = || window.access(from, token, access);
        let answers = match fails_alone {
            true => match catch_unwind(AssertUnwindSafe(run)) {
                Ok(answers) => answers,
                Err(panic) => return self.with(|state| state.panic = Some(panic)),
            },
            false => run(),
        };
        self.with(|state| {
            state.windows.insert(number, window);
            for (to, answer) in answers {
                state.put(to, RankMessage::Answer(answer));
            }
        });
    }
}

impl LocalState {
    /// Takes a message from another rank, other than an access that runs an operator.
    pub(crate) fn deliver(&mut self, message: RankMessage) {
        // These four count as a change only where they do change what the rank waits for.
        let is_change = !matches!(
            message,
            RankMessage::Message(..)
                | RankMessage::Access { .. }
                | RankMessage::AskLock { .. }
                | RankMessage::BeforeLock { .. }
        );
        self.changes += u64::from(is_change);
        match message {
            RankMessage::Message(label, payload) if self.is_stray(&label, &payload) => {}
            RankMessage::Message(label, payload) => match self.matcher.arrive(label, payload) {
                Some((receive, arrived)) => {
                    self.changes += 1;
                    self.matched(receive, arrived);
                }
                None => self.wake_watchers(),
            },
            RankMessage::Accept { token, receive, at } => self.send_data(token, receive, at),
            RankMessage::Data(receive, arrived) => self.end_receive(receive, arrived),
            RankMessage::Matched { token } => self.end_send(token),
            RankMessage::Access { from, window, token, access } => {
                let Some(found) = self.windows.get_mut(&window) else { return };
                for (to, answer) in found.access(from, token, &access) {
                    self.put(to, RankMessage::Answer(answer));
                }
                if matches!(access, Access::Unlock | Access::Withdraw { .. }) {
                    self.tell_watchers_of(window);
                }
            }
            RankMessage::Answer(Answer { token, content }) => {
                if let Some((_, ticket)) = self.accesses.remove(&token) {
                    self.slots.end(ticket, Outcome::Answer(content));
                }
            }
            RankMessage::AskLock { from, window, lock } => {
                self.answer_for_lock(from, window, lock);
            }
            RankMessage::BeforeLock { lock, before, is_last } => {
                self.note_before_lock(lock, before, is_last);
            }
            RankMessage::Answered { ticket, reply } => {
                drop(self.slots.end(ticket, Outcome::Reply(reply)));
            }
            RankMessage::GoOn => {
                self.resumed.drain(..).for_each(Waker::wake);
                for send in std::mem::take(&mut self.leaving) {
                    self.slots.end(send, Outcome::Sent);
                }
            }
            RankMessage::Elapsed(number) => self.end_sleep(number),
            RankMessage::Failed { rank, reason } => self.note_failed(rank, reason),
            RankMessage::Revoked { communicator, from } => self.note_revocation(communicator, from),
            _ => {}
        }
    }

    /// Learns that a rank of the job has failed.
    pub(crate) fn note_failed(&mut self, rank: u32, reason: String) {
        if self.failures.add(rank, reason) {
            self.take_locks_of(rank);
            let freed = self.end_hopeless();
            self.give_back_buffer(freed);
        }
    }

    /// Whether a message belongs to another communicator than the one that this rank has under its
    /// number.
    fn is_stray(&self, label: &Label, payload: &Payload) -> bool {
        let number = label.context / 2;
        is_agreed(number) && self.interrupts.includes(number, payload.origin) == Some(false)
    }

    /// Learns that a rank of the job has revoked a communicator of this number.
    fn note_revocation(&mut self, communicator: u32, from: u32) {
        let is_meant = match is_agreed(communicator) {
            true => self.interrupts.includes(communicator, from),
            false => Some(true),
        };
        match is_meant {
            Some(true) => self.note_revoked(communicator),
            Some(false) => {}
            None => self.interrupts.keep_revocation(communicator, from),
        }
    }

    /// Notes that the program has a communicator.
    pub(crate) fn note_communicator(&mut self, number: u32, scope: &Arc<Scope>) {
        let Self { interrupts, slots, sent, .. } = self;
        interrupts.note(number, scope, || {
            let waits = slots.waits().map(|(_, at, _)| at.communicator);
            let sent = sent.values().map(|sent| sent.label.context / 2);
            waits.chain(sent).collect()
        });
        if interrupts.are_possible() && is_agreed(number) {
            self.sort_out(number, scope);
        }
    }

    /// Removes the messages that belong to another communicator than the new one of this number,
    /// and takes the revocations that belong to the new one.
    fn sort_out(&mut self, number: u32, scope: &Scope) {
        let is_stray = |payload: &Payload| scope.position(payload.origin).is_none();
        for context in [2 * number, 2 * number + 1] {
            self.matcher.remove(context, is_stray);
        }
        let revoked = self.interrupts.take_revocations(number);
        if revoked.into_iter().any(|from| scope.position(from).is_some()) {
            self.note_revoked(number);
        }
    }

    /// Learns that a communicator was revoked.
    pub(crate) fn note_revoked(&mut self, communicator: u32) {
        if self.failures.add_revoked(communicator) {
            let freed = self.end_hopeless();
            self.give_back_buffer(freed);
        }
    }

    /// Sends the data of an offer that was accepted. The send ends once the data has left: a rank
    /// that waits for nothing else would otherwise compute first, in the same turn of its PE, and
    /// the receiver would wait for that.
    fn send_data(&mut self, token: u32, receive: Ticket, at: Arrival) {
        let Some(sent) = self.sent.remove(&token) else { return };
        self.give_back_buffer(sent.buffered);
        if let Some(send) = sent.ticket {
            self.post_go_on();
            self.leaving.push(send);
        }
        let Sent { to, label, content: Some(content), .. } = sent else { return };
        let load = Load::Whole { content, acknowledge: None };
        let message = Payload { origin: self.rank, load };
        self.put(to, RankMessage::Data(receive, Arrived { at, label, message }));
    }

    /// Replaces an offer by the data, unless too much of the rank's data has left in this way and
    /// waits for receives. The send then ends as a synchronous one does: once a receive has matched
    /// the message.
    pub(crate) fn include_data(&mut self, message: &mut RankMessage) {
        let RankMessage::Message(_, payload) = message else { return };
        let Load::Offer { token, bytes, .. } = payload.load else { return };
        let included = bytes as usize;
        if self.included_bytes.saturating_add(included) > INCLUDED_BYTES_MAX {
            return;
        }
        let Some(sent) = self.sent.get_mut(&token) else { return };
        if let Some(content) = sent.content.take() {
            sent.included = included;
            self.included_bytes += included;
            payload.load = Load::Whole { content, acknowledge: Some(token) };
        }
    }

    /// Ends a send whose message, with its data, a receive has matched.
    fn end_send(&mut self, token: u32) {
        let Some(sent) = self.sent.remove(&token) else { return };
        self.included_bytes = self.included_bytes.saturating_sub(sent.included);
        self.give_back_buffer(sent.buffered);
        if let Some(ticket) = sent.ticket {
            self.slots.end(ticket, Outcome::Sent);
        }
    }

    /// Gives back the part of the attached buffer that a message took.
    fn give_back_buffer(&mut self, bytes: usize) {
        self.buffer.give_back(bytes);
        if self.buffer.is_empty() {
            for ticket in std::mem::take(&mut self.detaching) {
                self.slots.end(ticket, Outcome::Sent);
            }
        }
    }
}
