//! What actors cost: their time, and whom they talk to. Where the time of a PE goes.
//!
//! Measured only where a strategy may use it. Handlers are timed where the driver has a clock; in
//! virtual time they say themselves what they cost.

pub(in crate::pe) mod edges;
pub(in crate::pe) mod measures;
pub(in crate::pe) mod timesheet;

use crate::Actor;
use crate::address::id::{ActorId, COORDINATOR, CollectionId, KindId, Sender, Slot};
use crate::address::load_keys::key_of;
use crate::message::{Control, Edge};
use crate::pe::core::{Core, Stopwatch, Store};
use crate::pe::delivery::message_bytes;
use crate::pe::measure::edges::EdgeCache;
use crate::pe::measure::measures::Measures;
use crate::pe::measure::timesheet::Spent;
use crate::pe::members::member::Member;
use gridspan_balance::{ActorLoad, PeLoad};
use gridspan_topology::Time;
use std::time::Duration;

/// What members that have left had sent to others is kept for so many pairs.
const LEFT_MAX: usize = 1 << 18;

impl Core {
    /// Whether time is that of a simulation.
    pub(crate) fn is_virtual_time(&self) -> bool {
        self.clock.is_none()
    }

    /// Has handlers timed from now on, if anybody wants to know.
    pub(in crate::pe) fn set_stopwatch(&mut self, stopwatch: Stopwatch) {
        if self.measures.is_some() {
            self.stopwatch = Some(stopwatch);
        }
    }

    /// Charges compute time to the actor in a slot.
    pub(crate) fn charge(&mut self, slot: Slot, time: Duration) {
        let time = self.pace.takes(time);
        self.charged += time;
        // What is measured needs no telling.
        if self.stopwatch.is_none()
            && let Some(member) = self.member(slot.kind, slot.index)
        {
            member.load_ns += time.as_nanos() as u64;
            member.paced.note();
        }
    }

    /// A handler that began then has ended. Returns the time, at which the next begins.
    pub(in crate::pe) fn note_handled(
        &mut self,
        kind: KindId,
        slot: u32,
        begin: u64,
    ) -> Option<u64> {
        let now = self.stopwatch.as_ref()?();
        let taken = self.pace.takes(Duration::from_nanos(now.saturating_sub(begin)));
        if let Some(member) = self.member(kind, slot) {
            member.load_ns += taken.as_nanos() as u64;
            member.paced.note();
        }
        Some(now)
    }

    /// An actor sends a message. Out of line, so that the way of a message that nobody measures
    /// stays short.
    #[inline(never)]
    pub(in crate::pe) fn note_edge<A: Actor>(
        &mut self,
        sender: Sender,
        to: (CollectionId, u128),
        message: &A::Message,
    ) {
        let to = ActorId::joined(to);
        let (Sender::Actor(Slot { kind, index: slot }), Some(measures)) =
            (sender, &mut self.measures)
        else {
            return;
        };
        if let Some(Some(member)) = self.members[kind.index()].get_mut(slot as usize) {
            let bytes = message_bytes::<A>(message) as u64;
            if !measures.edges.note(member.id, &mut member.ring, to, bytes) {
                self.forget_edges();
            }
        }
    }

    /// There are too many pairs.
    #[cold]
    fn forget_edges(&mut self) {
        let Some(measures) = &mut self.measures else { return };
        measures.edges.forget(&mut rings(&mut self.members));
    }

    /// A member leaves; whom it has talked to is told from here.
    pub(in crate::pe) fn keep_edges(&mut self, member: &mut Member) {
        if let Some(Measures { edges, left, .. }) = self.measures.as_deref_mut() {
            edges.take_one(member.id, std::mem::take(&mut member.ring), left);
            left.truncate(LEFT_MAX);
        }
    }

    /// What the actors that live here have cost since the last time, with their epochs, and where
    /// the PE's time went. The size of an actor is taken once, since it costs as much as to move
    /// it.
    pub(in crate::pe) fn take_loads(
        &mut self,
        stores: &[Box<dyn Store>],
    ) -> (Vec<(ActorLoad, u32)>, PeLoad) {
        let Some(measures) = &mut self.measures else { return (Vec::new(), PeLoad::default()) };
        // While others had the processor, the clock of handlers went on; what they charge is
        // without.
        let share = if self.stopwatch.is_some() { measures.time.share() } else { 1.0 };
        let mut actors = Vec::new();
        let mut sum = Duration::ZERO;
        let slots = self.members.iter_mut().zip(stores).flat_map(|(members, store)| {
            let slots = members.iter_mut().enumerate();
            slots.filter_map(move |(slot, member)| Some((slot, member.as_mut()?, store)))
        });
        for (slot, member, store) in slots {
            let id = member.id;
            let Some(local) = self.collections.get(id.collection) else { continue };
            let load_ns = std::mem::take(&mut member.load_ns);
            let ns = load_ns as f64 * share;
            let load = ActorLoad {
                id: key_of(id),
                pe: self.me,
                load: Duration::from_nanos(ns as u64),
                bytes: *member
                    .state_bytes
                    .get_or_insert_with(|| store.encode(slot as u32).len() as u64),
                migratable: local.info.migratable(),
                pace: member.paced.take(self.me, load_ns, share),
            };
            sum = sum.saturating_add(load.load);
            // What an actor costs at its replica, it costs at the first.
            if !self.replicas.is_secondary(id) {
                actors.push((load, member.epoch));
            }
        }
        (actors, measures.time.take(self.now, sum))
    }

    /// Who has sent how much to whom from here since the last time.
    pub(in crate::pe) fn take_edges(&mut self) -> Vec<Edge> {
        let Some(Measures { edges, left, .. }) = self.measures.as_deref_mut() else {
            return Vec::new();
        };
        let mut all = std::mem::take(left);
        all.append(&mut edges.take(&mut rings(&mut self.members)));
        all.sort_unstable_by_key(|edge| (edge.from, edge.to));
        all
    }

    /// The driver has found where time went.
    pub(in crate::pe) fn note_time(&mut self, spent: Spent) {
        let now = self.now;
        if self.measures.as_mut().is_some_and(|measures| measures.time.note(now, spent)) {
            self.post(COORDINATOR, Control::ShareChanged);
        }
    }

    /// The driver has tried which share of a processor this PE gets.
    pub(in crate::pe) fn note_trial(&mut self, now: Time, spent: Spent) {
        if self.measures.as_mut().is_some_and(|measures| measures.time.note_trial(now, spent)) {
            self.post(COORDINATOR, Control::ShareChanged);
        }
    }
}

/// Where each member is in its ring of those it talks to.
fn rings(members: &mut [Vec<Option<Member>>]) -> Vec<(ActorId, &mut EdgeCache)> {
    let members = members.iter_mut().flatten().flatten();
    members.map(|member| (member.id, &mut member.ring)).collect()
}
