//! The model of order between what one sender tells all members of a collection and what it tells
//! single ones.
//!
//! All broadcasts of a campaign are of ordinary priority, so that only messages of that priority
//! are in order with them.

use gridspan_runtime::{ActorId, CollectionId};
use std::collections::{BTreeMap, BTreeSet};

/// What senders have sent, in which order, and what receivers have handled of it.
#[derive(Default)]
pub(super) struct Interleaving {
    /// How many things a sender has sent.
    sent: BTreeMap<ActorId, u64>,
    /// The sender of a message, and its place among all that this sender sent.
    messages: BTreeMap<u64, (ActorId, u64)>,
    broadcasts: BTreeMap<u64, (ActorId, u64)>,
    /// The places of a sender's broadcasts to a collection, with their numbers.
    casts: BTreeMap<(ActorId, CollectionId), BTreeMap<u64, u64>>,
    /// The last place of which a message was handled, by sender and receiver.
    handled: BTreeMap<(ActorId, ActorId), u64>,
    /// The broadcasts that a member has handled.
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

    /// A member was made, perhaps with the index of another before.
    pub(super) fn joined(&mut self, id: ActorId) {
        self.taken.remove(&id);
        self.handled.retain(|(_, to), _| *to != id);
    }

    /// Checks a message that is handled: it was sent before the next broadcast of its sender,
    /// unless the receiver is too young for that.
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

    /// Checks a broadcast that is handled: nothing that was sent later has been handled before.
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

    /// Message 0, broadcast 0, message 1, broadcast 1.
    fn sent() -> Interleaving {
        let mut model = Interleaving::default();
        for number in [0, 1] {
            model.message_sent(FROM, number);
            model.broadcast_asked(FROM, FAMILY, number);
        }
        model
    }

    #[test]
    fn things_in_the_order_in_which_they_were_sent_are_fine() {
        let mut model = sent();
        for number in [0, 1] {
            assert_eq!(model.message_handled(TO, number), Ok(()));
            assert_eq!(model.broadcast_handled(TO, number), Ok(()));
        }
    }

    #[test]
    fn a_broadcast_that_overtakes_a_message_is_noticed() {
        let mut model = sent();
        assert_eq!(model.broadcast_handled(TO, 0), Ok(()));
        assert!(model.message_handled(TO, 0).is_err());
    }

    #[test]
    fn a_message_that_overtakes_a_broadcast_is_noticed() {
        let mut model = sent();
        assert_eq!(model.message_handled(TO, 0), Ok(()));
        assert_eq!(model.message_handled(TO, 1), Ok(()));
        assert!(model.broadcast_handled(TO, 0).is_err());
    }

    #[test]
    fn who_is_too_young_for_a_broadcast_may_get_an_old_message_late() {
        let mut model = sent();
        model.joined(TO);
        assert_eq!(model.broadcast_handled(TO, 1), Ok(()));
        assert_eq!(model.message_handled(TO, 0), Ok(()));
        assert!(model.message_handled(TO, 1).is_err());
    }
}
