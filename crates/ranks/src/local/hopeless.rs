//! Ends the operations that cannot complete because a rank has failed or a communicator was
//! revoked.

use super::LocalState;
use super::slots::{Outcome, Wait};
use crate::error::{CallSite, RankError};
use crate::packet::RankMessage;
use crate::ticket::Ticket;

/// The call site of a send whose end the program does not await.
const UNASKED: CallSite = CallSite { call: "send", peer: None, tag: None, communicator: 0 };

impl LocalState {
    /// Ends all operations that cannot complete any more, and lets collective operations and probes
    /// look again. Returns the number of bytes of the attached buffer that become free, because no
    /// rank will receive the messages in them.
    pub(super) fn end_hopeless(&mut self) -> usize {
        self.changes += 1;
        for (receive, error) in self.hopeless_receives() {
            if let Some(Wait::Receive(pattern, _)) = self.slots.wait(receive) {
                self.matcher.cancel(pattern, receive.slot);
            }
            self.redirected.retain(|_, other| *other != receive);
            self.slots.end(receive, Outcome::Failed(error));
        }
        self.end_hopeless_accesses();
        self.slots.wake_collectives();
        self.wake_watchers();
        self.end_hopeless_sends()
    }

    /// Returns the receives that cannot complete. Collective operations check for themselves.
    fn hopeless_receives(&self) -> Vec<(Ticket, RankError)> {
        let failures = &self.failures;
        let error = |(ticket, at, wait): (Ticket, CallSite, &Wait)| {
            let error = match wait {
                Wait::Receive(pattern, peers) if pattern.context.is_multiple_of(2) => {
                    failures.of_receive(pattern, peers, at)?
                }
                // On a revoked communicator the sender has dropped the data. A failed sender still
                // sends them.
                Wait::Data(arrived) => failures.revocation(arrived.label.context / 2, at)?,
                _ => return None,
            };
            Some((ticket, error))
        };
        self.slots.waits().filter_map(error).collect()
    }

    fn end_hopeless_accesses(&mut self) {
        let mut failed = Vec::new();
        for (token, (to, ticket)) in &self.accesses {
            let at = self.slots.at(*ticket);
            if let Some(error) = at.and_then(|at| self.failures.of_rank(*to, at)) {
                failed.push((*token, *ticket, error));
            }
        }
        for (token, ticket, error) in failed {
            self.accesses.remove(&token);
            self.slots.end(ticket, Outcome::Failed(error));
        }
    }

    /// Ends the sends of messages that wait for their receivers. Returns the freed bytes of the
    /// attached buffer.
    fn end_hopeless_sends(&mut self) -> usize {
        let (failures, slots) = (&self.failures, &mut self.slots);
        let (mut freed, mut included) = (0, 0);
        self.sent.retain(|_, sent| {
            let at = sent.ticket.and_then(|ticket| slots.at(ticket)).unwrap_or(UNASKED);
            let revoked = failures.revocation(sent.label.context / 2, at);
            let Some(error) = revoked.or_else(|| failures.of_rank(sent.to, at)) else {
                return true;
            };
            freed += sent.buffered;
            included += sent.included;
            if let Some(ticket) = sent.ticket {
                slots.end(ticket, Outcome::Failed(error));
            }
            false
        });
        self.included_bytes = self.included_bytes.saturating_sub(included);
        freed
    }

    /// Gives the locks of a failed rank on the windows of this rank to others.
    pub(super) fn take_locks_of(&mut self, failed: u32) {
        let windows = self.windows.values_mut();
        let answers: Vec<_> = windows.flat_map(|window| window.forget(failed)).collect();
        for (to, answer) in answers {
            self.put(to, RankMessage::Answer(answer));
        }
        let windows: Vec<u32> = self.windows.keys().copied().collect();
        windows.into_iter().for_each(|window| self.tell_watchers_of(window));
    }
}
