//! The state of a PE for delivery, apart from the [`Channels`] of each member: the places of other
//! actors, and messages that arrived before their receiver or the description of its collection.

use super::budget::{Accounted, AccountedEnvelope, Budget};
use super::channels::Channels;
use super::directory::{Directory, Place};
use super::tombstones::Tombstones;
use crate::address::id::{ActorId, CollectionId, KindId};
use crate::message::{Control, SectionsOfGone};
use crate::pe::PlantedFault;
use gridspan_topology::{PeId, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Time for which the home keeps messages for a member that it does not know, in case its insertion
/// is still under way. Longer than any outage that a connection survives; quiescence drops them
/// earlier.
pub(crate) const UNKNOWN_MEMBER_HOLD: Duration = Duration::from_secs(60);
/// Time for which other PEs keep messages for a member that should arrive, before they forward them
/// to its home.
pub(super) const DETOUR_HOLD: Duration = Duration::from_secs(5);

/// Messages that wait for their receiver to arrive.
pub(super) struct Held {
    pub(super) kind: KindId,
    deadline: Time,
    pub(super) envelopes: Vec<AccountedEnvelope>,
    /// Number of messages, from the first one, that this PE has reported to the coordinator as
    /// stranded.
    reported: usize,
    /// Whether one of the messages has demanded the creation of the receiver.
    is_demanded: bool,
}

/// A message or control that arrived before the description of its collection.
pub(crate) enum Early {
    Message(KindId, AccountedEnvelope),
    Control(PeId, Accounted<Box<Control>>),
}

/// Places of actors elsewhere, and messages that wait here.
pub(crate) struct Delivery {
    fault: PlantedFault,
    /// The channels of the PE's own messages, which it sends for main and on behalf of actors.
    pub(crate) system: Channels,
    pub(crate) directory: Directory,
    /// Messages for actors that should arrive here, by receiver.
    receivers: BTreeMap<ActorId, Held>,
    /// Members to be created because of messages in `receivers`, and the PEs on which they will
    /// live.
    demands: BTreeMap<ActorId, PeId>,
    /// Messages and controls for collections that are not known here yet.
    collections: BTreeMap<CollectionId, Vec<Early>>,
    pub(super) tombstones: Tombstones,
    /// Counts messages that wait inside the PE and are not ready.
    pub(crate) budget: Budget,
}

impl Delivery {
    pub(crate) fn new(fault: PlantedFault) -> Self {
        Self {
            fault,
            system: Channels::default(),
            directory: Directory::default(),
            receivers: BTreeMap::new(),
            demands: BTreeMap::new(),
            collections: BTreeMap::new(),
            tombstones: Tombstones::default(),
            budget: Budget::default(),
        }
    }

    /// Learns a place, unless a newer one is known. Returns whether it was new.
    pub(crate) fn learn(&mut self, id: ActorId, place: Place) -> bool {
        self.directory.learn(id, place, self.fault)
    }

    /// The members that are gone and whose home is `me`.
    pub(crate) fn gone(&self, me: PeId) -> Vec<ActorId> {
        self.directory.gone(me)
    }

    /// Those of the members that are gone and whose home is `me` which have contributed to
    /// reductions over sections.
    pub(crate) fn sections_of_gone(&self, me: PeId) -> Vec<SectionsOfGone> {
        let sections = |id| (id, self.tombstones.sections(id));
        self.gone(me).into_iter().map(sections).filter(|(_, all)| !all.is_empty()).collect()
    }

    /// Restores what [`sections_of_gone`](Self::sections_of_gone) has returned, on the homes.
    pub(crate) fn restore_sections(&mut self, gone: Vec<SectionsOfGone>) {
        for (id, sections) in gone {
            self.tombstones.set_sections(id, sections);
        }
    }

    /// Number of insertions that wait for a tombstone.
    pub(crate) fn tombstones_awaited(&self) -> usize {
        self.tombstones.insertions.len()
    }

    /// Holds a message for an actor that should arrive here; the first message sets the deadline.
    pub(super) fn hold(
        &mut self,
        id: ActorId,
        kind: KindId,
        deadline: Time,
        envelope: AccountedEnvelope,
    ) {
        let envelopes = Vec::new();
        let new = Held { kind, deadline, envelopes, reported: 0, is_demanded: false };
        self.receivers.entry(id).or_insert(new).envelopes.push(envelope);
    }

    /// Notes that a held message demands the creation of its receiver on `at`. The first such
    /// message decides.
    pub(super) fn demand(&mut self, id: ActorId, at: PeId) {
        let Some(held) = self.receivers.get_mut(&id) else { return };
        let is_first = !std::mem::replace(&mut held.is_demanded, true);
        if is_first || self.fault == PlantedFault::DemandedAgain {
            self.demands.entry(id).or_insert(at);
        }
    }

    /// Removes and returns a member that has to be created, with its PE.
    pub(crate) fn take_demand(&mut self) -> Option<(ActorId, PeId)> {
        self.demands.pop_first()
    }

    /// Removes and returns the messages that wait for an actor.
    pub(super) fn take(&mut self, id: ActorId) -> Option<Held> {
        self.receivers.remove(&id)
    }

    /// Puts messages back, with a later deadline.
    pub(super) fn put_back(&mut self, id: ActorId, deadline: Time, held: Held) {
        self.receivers.insert(id, Held { deadline, ..held });
    }

    /// Whether messages wait for their receivers here, or a member has to be created.
    pub(crate) fn is_awaiting(&self) -> bool {
        !self.receivers.is_empty() || !self.demands.is_empty()
    }

    /// The actors for which messages wait here.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = ActorId> {
        self.receivers.keys().copied()
    }

    /// The actors for which messages wait here, with the number of messages.
    pub(crate) fn awaited_messages(&self) -> impl Iterator<Item = (ActorId, u64)> {
        self.receivers.iter().map(|(&id, held)| (id, held.envelopes.len() as u64))
    }

    /// The actors for which messages have waited beyond their deadline.
    pub(super) fn expired(&self, now: Time) -> Vec<ActorId> {
        let expired = self.receivers.iter().filter(|(_, held)| held.deadline <= now);
        expired.map(|(&id, _)| id).collect()
    }

    /// The earliest deadline of waiting messages.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.receivers.values().map(|held| held.deadline).min()
    }

    /// Counts the stranded messages, and marks them for [`take_reported`](Self::take_reported).
    pub(super) fn report(&mut self, stranded: &BTreeSet<ActorId>) -> u64 {
        let mut count = 0;
        for (id, held) in &mut self.receivers {
            held.reported = if stranded.contains(id) { held.envelopes.len() } else { 0 };
            count += held.reported as u64;
        }
        count
    }

    /// Removes and returns the messages that were reported last and are still stranded.
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

    /// Holds a message or control that arrived before the description of its collection. Returns
    /// whether it is the first.
    pub(super) fn hold_early(&mut self, collection: CollectionId, early: Early) -> bool {
        let waiting = self.collections.entry(collection).or_default();
        waiting.push(early);
        waiting.len() == 1
    }

    /// Removes and returns everything that waits for the description of a collection.
    pub(crate) fn take_early(&mut self, collection: CollectionId) -> Vec<Early> {
        self.collections.remove(&collection).unwrap_or_default()
    }

    /// Number of messages that wait at tombstones, number of messages that wait for receivers, and
    /// number of messages and controls that wait for collections.
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
    fn the_first_message_for_a_receiver_sets_the_deadline_of_all() {
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
    fn a_member_is_demanded_once_while_messages_wait_for_it() {
        let mut delivery = Delivery::new(PlantedFault::None);
        delivery.demand(actor(1), PeId(4));
        assert_eq!(delivery.take_demand(), None, "no message waits");
        hold(&mut delivery, 1, 10);
        delivery.demand(actor(1), PeId(4));
        delivery.demand(actor(1), PeId(5));
        assert_eq!(delivery.take_demand(), Some((actor(1), PeId(4))), "the first decides");
        hold(&mut delivery, 1, 10);
        delivery.demand(actor(1), PeId(5));
        assert_eq!(delivery.take_demand(), None, "it is being created");

        assert_eq!(delivery.take(actor(1)).unwrap().envelopes.len(), 2);
        hold(&mut delivery, 1, 10);
        delivery.demand(actor(1), PeId(5));
        assert_eq!(delivery.take_demand(), Some((actor(1), PeId(5))), "it has ended meanwhile");
    }

    #[test]
    fn only_messages_that_were_reported_and_are_still_stranded_are_taken() {
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
