//! What a PE keeps for delivery besides its members, each of which has its own [`Channels`]: the
//! places of others, and what came before its receiver or the description of its collection.

use super::budget::{Accounted, AccountedEnvelope, Budget};
use super::channels::Channels;
use super::directory::{Directory, Place};
use super::tombstones::Tombstones;
use crate::address::id::{ActorId, CollectionId, KindId};
use crate::message::Control;
use crate::pe::PlantedFault;
use gridspan_topology::{PeId, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long home keeps messages for a member that it does not know, in case the insertion is still
/// on its way. Longer than any outage that a connection survives; quiescence drops them earlier.
pub(crate) const UNKNOWN_MEMBER_HOLD: Duration = Duration::from_secs(60);
/// How long other PEs keep messages for a member that should arrive, before they leave them to
/// home.
pub(super) const DETOUR_HOLD: Duration = Duration::from_secs(5);

/// Messages that wait for their receiver to turn up.
pub(super) struct Held {
    pub(super) kind: KindId,
    deadline: Time,
    pub(super) envelopes: Vec<AccountedEnvelope>,
    /// How many of them this PE has reported to the coordinator as stranded, from the first on.
    reported: usize,
}

/// What outran the description of its collection.
pub(crate) enum Early {
    Message(KindId, AccountedEnvelope),
    Control(PeId, Accounted<Box<Control>>),
}

/// What a PE knows of actors elsewhere, and what waits here.
pub(crate) struct Delivery {
    fault: PlantedFault,
    /// The counters of what the PE itself sends, for main and on behalf of actors.
    pub(super) system: Channels,
    pub(super) directory: Directory,
    /// Messages for actors that should arrive here.
    receivers: BTreeMap<ActorId, Held>,
    /// What came for collections that are not known here yet.
    collections: BTreeMap<CollectionId, Vec<Early>>,
    pub(super) tombstones: Tombstones,
    pub(super) budget: Budget,
}

impl Delivery {
    pub(crate) fn new(fault: PlantedFault) -> Self {
        Self {
            fault,
            system: Channels::default(),
            directory: Directory::default(),
            receivers: BTreeMap::new(),
            collections: BTreeMap::new(),
            tombstones: Tombstones::default(),
            budget: Budget::default(),
        }
    }

    /// Counts what waits inside of the PE and is not ready.
    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// The counters of what the PE itself sends.
    pub(crate) fn system(&mut self) -> &mut Channels {
        &mut self.system
    }

    /// Where an actor lives that does not live here, if that is known.
    pub(crate) fn place(&self, id: ActorId) -> Option<Place> {
        self.directory.place(id)
    }

    /// Learns a place, unless something newer is known. Returns whether it was news.
    pub(crate) fn learn(&mut self, id: ActorId, place: Place) -> bool {
        self.directory.learn(id, place, self.fault)
    }

    /// An actor lives here from now on.
    pub(crate) fn forget_place(&mut self, id: ActorId) {
        self.directory.forget(id);
    }

    /// Keeps a message for an actor that should arrive here; the first one says until when.
    pub(super) fn hold(
        &mut self,
        id: ActorId,
        kind: KindId,
        deadline: Time,
        envelope: AccountedEnvelope,
    ) {
        let new = Held { kind, deadline, envelopes: Vec::new(), reported: 0 };
        self.receivers.entry(id).or_insert(new).envelopes.push(envelope);
    }

    /// What waits for an actor.
    pub(super) fn take(&mut self, id: ActorId) -> Option<Held> {
        self.receivers.remove(&id)
    }

    /// Waits longer.
    pub(super) fn put_back(&mut self, id: ActorId, deadline: Time, held: Held) {
        self.receivers.insert(id, Held { deadline, ..held });
    }

    /// Whether messages wait for their receivers here.
    pub(crate) fn is_awaiting(&self) -> bool {
        !self.receivers.is_empty()
    }

    /// For whom messages wait here.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = ActorId> {
        self.receivers.keys().copied()
    }

    /// For whom they have waited long enough.
    pub(super) fn expired(&self, now: Time) -> Vec<ActorId> {
        let expired = self.receivers.iter().filter(|(_, held)| held.deadline <= now);
        expired.map(|(&id, _)| id).collect()
    }

    /// When the next have.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.receivers.values().map(|held| held.deadline).min()
    }

    /// Counts the stranded messages, and remembers which they are for
    /// [`take_reported`](Self::take_reported).
    pub(super) fn report(&mut self, stranded: &BTreeSet<ActorId>) -> u64 {
        let mut count = 0;
        for (id, held) in &mut self.receivers {
            held.reported = if stranded.contains(id) { held.envelopes.len() } else { 0 };
            count += held.reported as u64;
        }
        count
    }

    /// The messages that were reported last and are still stranded.
    pub(super) fn take_reported(
        &mut self,
        stranded: &BTreeSet<ActorId>,
    ) -> Vec<(KindId, AccountedEnvelope)> {
        let mut taken = Vec::new();
        for (id, held) in &mut self.receivers {
            if stranded.contains(id) {
                let reported = held.envelopes.drain(..std::mem::take(&mut held.reported));
                taken.extend(reported.map(|envelope| (held.kind, envelope)));
            }
        }
        self.receivers.retain(|_, held| !held.envelopes.is_empty());
        taken
    }

    /// Keeps what came before the description of its collection. Returns whether it is the first.
    pub(super) fn hold_early(&mut self, collection: CollectionId, early: Early) -> bool {
        let waiting = self.collections.entry(collection).or_default();
        waiting.push(early);
        waiting.len() == 1
    }

    /// What waits for the description of a collection.
    pub(crate) fn take_early(&mut self, collection: CollectionId) -> Vec<Early> {
        self.collections.remove(&collection).unwrap_or_default()
    }

    /// How many messages wait for an earlier one at tombstones, for receivers, and for collections.
    pub(crate) fn waiting(&self) -> [u64; 3] {
        let messages = self.receivers.values().map(|held| held.envelopes.len() as u64);
        let early = self.collections.values().map(|early| early.len() as u64);
        [self.tombstones.held(), messages.sum(), early.sum()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::index::Key;
    use crate::message::envelope::{AnyEnvelope, Envelope, Header};
    use crate::pe::Budget;

    fn actor(key: u128) -> ActorId {
        ActorId { collection: CollectionId(1), key: Key(key) }
    }

    fn hold(delivery: &mut Delivery, key: u128, at: u64) {
        let header = Header::new(actor(key), actor(9), 0, PeId(0));
        let envelope: Box<dyn AnyEnvelope> = Box::new(Envelope { header, message: 0u8 });
        let envelope = Budget::default().keep(envelope, 0);
        delivery.hold(actor(key), KindId(0), Time(at), envelope);
    }

    #[test]
    fn the_first_message_for_a_receiver_says_how_long_all_wait() {
        let mut delivery = Delivery::new(PlantedFault::None);
        for (key, at) in [(1, 10), (1, 50), (2, 20)] {
            hold(&mut delivery, key, at);
        }
        assert_eq!(delivery.next_deadline(), Some(Time(10)));
        assert_eq!(delivery.expired(Time(15)), [actor(1)]);
        let late = delivery.take(actor(1)).unwrap();
        assert_eq!((late.envelopes.len(), delivery.waiting()[1]), (2, 1));
        delivery.put_back(actor(1), Time(90), late);
        assert_eq!(delivery.next_deadline(), Some(Time(20)));
    }

    #[test]
    fn only_what_was_reported_as_stranded_and_still_is_goes() {
        let mut delivery = Delivery::new(PlantedFault::None);
        for key in [1, 1, 2, 3] {
            hold(&mut delivery, key, 10);
        }
        assert_eq!(delivery.report(&[actor(1), actor(2)].into()), 3);
        hold(&mut delivery, 1, 10);

        assert_eq!(delivery.take_reported(&[actor(1), actor(3)].into()).len(), 2);
        let left: Vec<ActorId> = delivery.awaited().collect();
        assert_eq!((left, delivery.waiting()[1]), (vec![actor(1), actor(2), actor(3)], 3));
    }
}
