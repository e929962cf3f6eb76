//! What actors cost: their time, and whom they talk to.
//!
//! Measured only where a strategy may use it. Handlers are timed where the driver has a clock; in virtual
//! time they say themselves what they cost.

use super::core::{Core, Stopwatch, Store};
use super::queue::message_bytes;
use crate::Actor;
use crate::id::{ActorId, KindId, Sender};
use crate::index::Key;
use crate::wire::Talk;
use gridspan_balance::{ActorKey, ActorLoad, PeLoad};
use std::time::Duration;

impl Core {
    /// Has handlers timed from now on, if anybody wants to know.
    pub(super) fn set_stopwatch(&mut self, stopwatch: Stopwatch) {
        if self.talks.is_some() {
            self.stopwatch = Some(stopwatch);
        }
    }

    /// A handler that began then has ended. Returns the time, at which the next begins.
    pub(super) fn note_handled(&mut self, kind: KindId, slot: u32, begin: u64) -> Option<u64> {
        let now = self.stopwatch.as_ref()?();
        // While others had the processor, the clock went on.
        let ran = (now.saturating_sub(begin) as f64 * self.availability) as u64;
        if let Some(member) = self.member(kind, slot) {
            member.load_ns += ran;
        }
        Some(now)
    }

    /// An actor sends a message.
    pub(super) fn note_talk<A: Actor>(
        &mut self,
        sender: Sender,
        to: ActorId,
        message: &A::Message,
    ) {
        if let Sender::Actor(seat) = sender {
            let from = self.seat_id(seat);
            if let Some(talks) = &mut self.talks {
                talks.note(from, to, message_bytes::<A>(message) as u64);
            }
        }
    }

    /// What the actors that live here have cost since the last time, with their epochs. The size of
    /// one is taken once, since it costs as much as to move it.
    pub(super) fn take_loads(&mut self, stores: &[Box<dyn Store>]) -> Vec<(ActorLoad, u32)> {
        let mut actors = Vec::new();
        let seats = self.members.iter_mut().zip(stores).flat_map(|(members, store)| {
            let seats = members.iter_mut().enumerate();
            seats.filter_map(move |(slot, member)| Some((slot, member.as_mut()?, store)))
        });
        for (slot, member, store) in seats {
            let id = member.id;
            let Some(local) = self.collections.get(id.collection) else { continue };
            let load = ActorLoad {
                id: key_of(id),
                pe: self.me,
                load: Duration::from_nanos(std::mem::take(&mut member.load_ns)),
                bytes: *member
                    .state_bytes
                    .get_or_insert_with(|| store.encode(slot as u32).len() as u64),
                migratable: local.info.migratable(),
            };
            actors.push((load, member.epoch));
        }
        actors
    }

    /// Who has sent how much to whom from here since the last time.
    pub(super) fn take_talks(&mut self) -> Vec<Talk> {
        self.talks.as_mut().map_or_else(Vec::new, |talks| talks.take())
    }

    /// How much of a processor this PE gets.
    pub(super) fn pe_load(&self) -> PeLoad {
        PeLoad { available: self.availability, ..PeLoad::default() }
    }
}

/// An actor as strategies know it.
pub(super) fn key_of(id: ActorId) -> ActorKey {
    ActorKey { collection: id.collection.0, index: id.key.0 }
}

/// An actor as the runtime knows it.
pub(super) fn id_of(key: ActorKey) -> ActorId {
    ActorId { collection: crate::id::CollectionId(key.collection), key: Key(key.index) }
}
