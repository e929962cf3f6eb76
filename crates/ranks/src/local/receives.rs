//! The receives of a rank: messages that they get, give back, and leave to others.
//!
//! The sender offers a long message, and its data come once a receive has accepted it; between two
//! PEs of a node they may come with the message. If the receive that has accepted an offer is
//! dropped meanwhile, the message goes back to its place in the order without its data, so that no
//! later message overtakes it. The next receive that gets it waits for the same data.

use super::slots::{Outcome, Wait};
use super::{Begun, LocalState};
use crate::error::CallSite;
use crate::matching::{Arrived, Pattern};
use crate::packet::{Load, Payload, RankMessage};
use crate::scope::Peers;
use crate::ticket::Ticket;

impl LocalState {
    /// Receives a message, which one of `peers` sends. Returns it if it has arrived whole, and
    /// otherwise a ticket, whose operation has ended if no message can come.
    pub(crate) fn receive(
        &mut self,
        pattern: Pattern,
        peers: Peers,
        at: CallSite,
    ) -> Begun<Arrived<Payload>> {
        let revoked = self.failures.revocation(pattern.context / 2, at);
        if revoked.is_none()
            && let Some(arrived) = self.matcher.take(&pattern)
        {
            return self.accept(arrived, at);
        }
        // A collective operation looks for itself whether it can complete.
        let is_collective = pattern.context % 2 == 1;
        let hopeless = match is_collective {
            true => None,
            false => revoked.or_else(|| self.failures.of_receive(&pattern, &peers, at)),
        };
        let ticket = self.slots.add(at, Wait::Receive(pattern, peers));
        match hopeless {
            Some(error) => drop(self.slots.end(ticket, Outcome::Failed(error))),
            None => self.matcher.post(&pattern, ticket.slot),
        }
        Begun::Later(ticket)
    }

    /// Receives a message that was taken from the matching engine. The receive has failed if the
    /// communicator was revoked since: the sender no longer has the data of a long message.
    pub(crate) fn accept(
        &mut self,
        arrived: Arrived<Payload>,
        at: CallSite,
    ) -> Begun<Arrived<Payload>> {
        if let Some(error) = self.failures.revocation(arrived.label.context / 2, at) {
            let receive = self.slots.add(at, Wait::Task);
            self.slots.end(receive, Outcome::Failed(error));
            return Begun::Later(receive);
        }
        if is_without_data(&arrived) {
            let receive = self.slots.add(at, Wait::Task);
            self.await_data(receive, arrived);
            return Begun::Later(receive);
        }
        Begun::Now(self.acknowledged(arrived))
    }

    /// Lets a receive wait for the data of the message that it has got.
    fn await_data(&mut self, receive: Ticket, arrived: Arrived<Payload>) {
        match arrived.message.load {
            Load::Offer { token, .. } => {
                let accept = RankMessage::Accept { token, receive, at: arrived.at };
                self.put(arrived.message.origin, accept);
            }
            Load::Coming { to, .. } => {
                if let Some(with_data) = self.matched_with_data.remove(&to.generation) {
                    return self.end_receive(receive, with_data);
                }
                self.redirected.insert(to.generation, receive);
            }
            _ => {}
        }
        self.slots.waits_for(receive, Wait::Data(Box::new(arrived)));
    }

    /// Keeps a received message for a request.
    pub(crate) fn hold(&mut self, arrived: Arrived<Payload>, at: CallSite) -> Ticket {
        let ticket = self.slots.add(at, Wait::Task);
        self.slots.end(ticket, Outcome::Message(arrived));
        ticket
    }

    /// Tells the sender of a synchronous send, once, that its message was matched.
    fn acknowledged(&mut self, mut arrived: Arrived<Payload>) -> Arrived<Payload> {
        if let Load::Whole { acknowledge, .. } = &mut arrived.message.load
            && let Some(token) = acknowledge.take()
        {
            self.put(arrived.message.origin, RankMessage::Matched { token });
        }
        arrived
    }

    /// Handles the match of a receive with a message.
    pub(super) fn matched(&mut self, receive: u32, arrived: Arrived<Payload>) {
        let Some(ticket) = self.slots.ticket(receive) else { return };
        if is_without_data(&arrived) {
            self.await_data(ticket, arrived);
        } else {
            let arrived = self.acknowledged(arrived);
            self.end_receive(ticket, arrived);
        }
    }

    /// Gives a message to its receive. If that was dropped meanwhile, the message goes to the
    /// receive that has got it since, or to its place in the order.
    pub(super) fn end_receive(&mut self, receive: Ticket, arrived: Arrived<Payload>) {
        let left = self.slots.end(receive, Outcome::Message(arrived));
        let Some(Outcome::Message(arrived)) = left else { return };
        match self.redirected.remove(&receive.generation) {
            Some(other) => self.end_receive(other, arrived),
            // No receive will ask for it.
            None if self.failures.is_revoked(arrived.label.context / 2) => {}
            None => {
                if let Some(with_data) = self.matcher.replace(arrived) {
                    self.matched_with_data.insert(receive.generation, with_data);
                }
            }
        }
    }

    /// Gives back a message that was matched and not received.
    pub(crate) fn give_back(&mut self, mut arrived: Arrived<Payload>) {
        if let Load::Coming { to, .. } = arrived.message.load
            && let Some(with_data) = self.matched_with_data.remove(&to.generation)
        {
            arrived = with_data;
        }
        match self.matcher.give_back(arrived) {
            Some((receive, arrived)) => self.matched(receive, arrived),
            None => self.wake_watchers(),
        }
    }

    /// Wakes the tasks that look at each message that no receive has taken.
    pub(super) fn wake_watchers(&mut self) {
        for (_, watcher) in self.watchers.drain(..) {
            self.changes += 1;
            watcher.waker.wake();
        }
    }

    /// Cancels a receive that has no message yet. Returns whether it was cancelled.
    pub(crate) fn cancel(&mut self, ticket: Ticket) -> bool {
        let Some(Wait::Receive(pattern, _)) = self.slots.wait(ticket) else { return false };
        let is_cancelled = self.matcher.cancel(pattern, ticket.slot);
        if is_cancelled {
            self.slots.end(ticket, Outcome::Cancelled);
        }
        is_cancelled
    }

    /// Forgets an operation: a send goes on by itself, and a receive leaves its message to others.
    pub(crate) fn forget(&mut self, ticket: Ticket) {
        self.cancel(ticket);
        let without_data = match self.slots.wait(ticket) {
            Some(Wait::Receiver(token)) => {
                if let Some(sent) = self.sent.get_mut(token) {
                    sent.ticket = None;
                }
                None
            }
            Some(Wait::Data(arrived)) => Some(Arrived::clone(arrived)),
            _ => None,
        };
        match (self.slots.remove(ticket), without_data) {
            (Some(Outcome::Message(arrived)), _) => self.give_back(arrived),
            (_, Some(arrived)) => self.leave(ticket, arrived),
            _ => {}
        }
    }

    /// Returns a message to its place for other receives. Its data are on their way to a dropped
    /// one.
    fn leave(&mut self, receive: Ticket, mut arrived: Arrived<Payload>) {
        let load = &mut arrived.message.load;
        match *load {
            Load::Offer { kind, bytes, .. } => *load = Load::Coming { to: receive, kind, bytes },
            Load::Coming { to, .. } => {
                self.redirected.remove(&to.generation);
            }
            _ => {}
        }
        self.give_back(arrived);
    }
}

/// Whether the data of a message are not here yet.
fn is_without_data(arrived: &Arrived<Payload>) -> bool {
    matches!(arrived.message.load, Load::Offer { .. } | Load::Coming { .. })
}
