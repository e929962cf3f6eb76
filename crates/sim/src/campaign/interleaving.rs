//! The model of the order between the broadcasts of a sender to a collection and its messages to
//! single members.
//!
//! All broadcasts of a campaign have ordinary priority, so only messages of that priority are in
//! order with them.

use gridspan_runtime::{ActorId, CollectionId};
use std::collections::{BTreeMap, BTreeSet};

/// The messages and broadcasts of senders in order, and which of them receivers have handled.
#[derive(Default)]
pub(super) struct Interleaving {
    /// Number of messages and broadcasts of each sender.
    sent: BTreeMap<ActorId, u64>,
    /// Sender of each message, and its place among the messages and broadcasts of this sender.
    messages: BTreeMap<u64, (ActorId, u64)>,
    /// Sender and place of each broadcast.
    broadcasts: BTreeMap<u64, (ActorId, u64)>,
    /// The places of a sender's broadcasts to a collection, with their numbers.
    casts: BTreeMap<(ActorId, CollectionId), BTreeMap<u64, u64>>,
    /// Highest place of a message that was handled, by sender and receiver.
    handled: BTreeMap<(ActorId, ActorId), u64>,
    /// Broadcasts that each member has handled.
    taken: BTreeMap<ActorId, BTreeSet<u64>>,
}

impl Interleaving {
    fn place(&mut self, from: ActorId) -> u64 {
        let sent = self.sent.entry(from).or_default();
        *sent += 1;
        *sent
    }

    pub(super) fn message_sent(&mut self, from: ActorId, number: u64) {
        let place = self.place(from);
        self.messages.insert(number, (from, place));
    }

    pub(super) fn broadcast_asked(&mut self, from: ActorId, to: CollectionId, number: u64) {
        let place = self.place(from);
        self.broadcasts.insert(number, (from, place));
        self.casts.entry((from, to)).or_default().insert(place, number);
    }

    /// Records a new member, which may reuse the index of an earlier one.
    pub(super) fn joined(&mut self, id: ActorId) {
        self.taken.remove(&id);
        self.handled.retain(|(_, to), _| *to != id);
    }

    /// Checks a message that `to` handles: `to` must not have handled the next broadcast that the
    /// sender sent after the message. A receiver that was created too late for that broadcast may
    /// handle the message even after later broadcasts.
    pub(super) fn message_handled(&mut self, to: ActorId, number: u64) -> Result<(), String> {
        let Some(&(from, place)) = self.messages.get(&number) else { return Ok(()) };
        let last = self.handled.entry((from, to)).or_default();
        *last = place.max(*last);
        let casts = self.casts.get(&(from, to.collection));
        let next = casts.and_then(|casts| casts.range(place..).next());
        match next {
            Some((_, cast)) if self.taken.get(&to).is_some_and(|taken| taken.contains(cast)) => {
                Err(format!("broadcast {cast} of {from:?} overtook message {number} to {to:?}"))
            }
            _ => Ok(()),
        }
    }

    /// Checks a broadcast that `to` handles: `to` must not have handled a message that the sender
    /// sent after the broadcast.
    pub(super) fn broadcast_handled(&mut self, to: ActorId, number: u64) -> Result<(), String> {
        self.taken.entry(to).or_default().insert(number);
        let Some(&(from, place)) = self.broadcasts.get(&number) else { return Ok(()) };
        match self.handled.get(&(from, to)) {
            Some(&last) if last > place => {
                Err(format!("a message of {from:?} to {to:?} overtook broadcast {number}"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_runtime::Key;

    const FAMILY: CollectionId = CollectionId(0);
    const FROM: ActorId = ActorId { collection: FAMILY, key: Key(1) };
    const TO: ActorId = ActorId { collection: FAMILY, key: Key(2) };

    /// A model with message 0, broadcast 0, message 1 and broadcast 1, sent in this order.
    fn sent() -> Interleaving {
        let mut model = Interleaving::default();
        for number in [0, 1] {
            model.message_sent(FROM, number);
            model.broadcast_asked(FROM, FAMILY, number);
        }
        model
    }

    #[test]
    fn messages_and_broadcasts_in_the_order_sent_are_accepted() {
        let mut model = sent();
        for number in [0, 1] {
            assert_eq!(model.message_handled(TO, number), Ok(()));
            assert_eq!(model.broadcast_handled(TO, number), Ok(()));
        }
    }

    #[test]
    fn a_broadcast_that_overtakes_a_message_is_a_violation() {
        let mut model = sent();
        assert_eq!(model.broadcast_handled(TO, 0), Ok(()));
        assert!(model.message_handled(TO, 0).is_err());
    }

    #[test]
    fn a_message_that_overtakes_a_broadcast_is_a_violation() {
        let mut model = sent();
        assert_eq!(model.message_handled(TO, 0), Ok(()));
        assert_eq!(model.message_handled(TO, 1), Ok(()));
        assert!(model.broadcast_handled(TO, 0).is_err());
    }

    #[test]
    fn a_member_created_after_a_broadcast_may_receive_an_earlier_message_late() {
        let mut model = sent();
        model.joined(TO);
        assert_eq!(model.broadcast_handled(TO, 1), Ok(()));
        assert_eq!(model.message_handled(TO, 0), Ok(()));
        assert!(model.message_handled(TO, 1).is_err());
    }
}
