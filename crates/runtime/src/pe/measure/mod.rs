//! Measurements of actors (their time, and the messages between them), and of the time of a PE.
//!
//! They are taken only if a strategy may use them. If the driver has set a stopwatch, handlers are
//! timed; in virtual time, handlers charge their costs themselves.

pub(in crate::pe) mod edges;
pub(in crate::pe) mod measures;
pub(in crate::pe) mod timesheet;

use crate::Actor;
use crate::address::id::{ActorId, COORDINATOR, CollectionId, KindId, Sender, Slot};
use crate::address::load_keys::{id_of, key_of};
use crate::message::{Control, Edge};
use crate::pe::Pe;
use crate::pe::core::{Core, Stopwatch, Store};
use crate::pe::delivery::message_bytes;
use crate::pe::measure::edges::EdgeCache;
use crate::pe::measure::measures::Measures;
use crate::pe::measure::timesheet::{Spent, WANTED_MIN};
use crate::pe::members::member::Member;
use gridspan_balance::{ActorKey, ActorLoad, PeLoad};
use gridspan_topology::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum number of edges that are kept of members that have left.
const LEFT_MAX: usize = 1 << 18;

impl Core {
    /// Whether the job runs in virtual time.
    pub(crate) fn is_virtual_time(&self) -> bool {
        self.clock.is_none()
    }

    /// Starts to time handlers, if loads are measured.
    pub(in crate::pe) fn set_stopwatch(&mut self, stopwatch: Stopwatch) {
        if self.measures.is_some() {
            self.stopwatch = Some(stopwatch);
        }
    }

    /// Charges compute time to the actor in a slot.
    pub(crate) fn charge(&mut self, slot: Slot, time: Duration) {
        let time = self.pace.takes(time);
        self.charged = self.charged.saturating_add(time);
        // Handlers that are timed need no charge.
        if self.stopwatch.is_none()
            && let Some(member) = self.member(slot.kind, slot.index)
        {
            let charged_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            member.load_ns = member.load_ns.saturating_add(charged_ns);
            member.paced.note();
        }
    }

    /// Counts a unit of work that an actor reports.
    pub(crate) fn count_work(&mut self, slot: Slot) {
        if let Some(member) = self.member(slot.kind, slot.index) {
            member.paced.count_work();
        }
    }

    /// Counts the time of a handler that began at `begin`. Returns the current time, at which the
    /// next handler begins.
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

    /// Counts a message of an actor. Not inlined, so that the path of messages that are not
    /// measured stays short.
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

    /// Removes the edges with the fewest messages, to make room.
    #[cold]
    fn forget_edges(&mut self) {
        let Some(measures) = &mut self.measures else { return };
        measures.edges.forget(&mut rings(&mut self.members));
    }

    /// Keeps the edges of a member that leaves, to report them from here.
    pub(in crate::pe) fn keep_edges(&mut self, member: &mut Member) {
        if let Some(Measures { edges, left, .. }) = self.measures.as_deref_mut() {
            edges.take_one(member.id, std::mem::take(&mut member.ring), left);
            left.truncate(LEFT_MAX);
        }
    }

    /// Takes the costs of the actors that live here, with their epochs, and the use of the PE's
    /// time, both since the last call. The size of an actor is determined once, since that encodes
    /// its whole state.
    pub(in crate::pe) fn take_loads(
        &mut self,
        stores: &[Box<dyn Store>],
    ) -> (Vec<(ActorLoad, u32)>, PeLoad) {
        let Some(measures) = &mut self.measures else { return (Vec::new(), PeLoad::default()) };
        // Timed handlers include the time in which other programs had the processor; charged costs
        // do not.
        let share = if self.stopwatch.is_some() { measures.time.share() } else { 1.0 };
        let bytes_max = self.common.limits.message_bytes() as u64;
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
            let is_movable = store.is_movable(slot as u32);
            let encoded = || store.encode(slot as u32).len() as u64;
            if is_movable {
                member.state_bytes.get_or_insert_with(encoded);
            }
            let mut load = ActorLoad::new(key_of(id), self.me, Duration::from_nanos(ns as u64));
            load.bytes = member.state_bytes.unwrap_or_default();
            load.migratable = local.info.migratable()
                && is_movable
                && member.state_bytes.is_none_or(|bytes| bytes <= bytes_max);
            let counts_work =
                self.common.kind(local.info.kind).is_some_and(|kind| kind.counts_work());
            load.pace = member.paced.take(counts_work, self.me, (load_ns, share));
            sum = sum.saturating_add(load.load);
            // The cost of an actor at its replica equals its cost at the primary.
            if !self.replicas.is_secondary(id) {
                actors.push((load, member.epoch));
            }
        }
        let pe = measures.time.take(self.now, sum);
        if actors.iter().any(|(load, _)| load.migratable) {
            // The plan that follows knows the share.
            measures.unreported = None;
        }
        self.join_loads(&mut actors);
        (actors, pe)
    }

    /// Adds the loads and sizes of bound members to those of their partners in the base collection.
    /// The times per message stay those of the partners alone.
    fn join_loads(&self, actors: &mut Vec<(ActorLoad, u32)>) {
        if !self.collections.has_bound() {
            return;
        }
        let (bound, mut units): (Vec<_>, Vec<_>) =
            actors.drain(..).partition(|(load, _)| self.is_bound(id_of(load.id).collection));
        let positions: BTreeMap<ActorKey, usize> =
            units.iter().enumerate().map(|(at, (load, _))| (load.id, at)).collect();
        for (load, _) in bound {
            if let Some(&at) = positions.get(&key_of(self.base_of(id_of(load.id)))) {
                let unit: &mut ActorLoad = &mut units[at].0;
                unit.load = unit.load.saturating_add(load.load);
                unit.bytes = unit.bytes.saturating_add(load.bytes);
            }
        }
        *actors = units;
    }

    /// Takes the edges since the last call, of the actors here and of those that have left.
    pub(in crate::pe) fn take_edges(&mut self) -> Vec<Edge> {
        let Some(Measures { edges, left, .. }) = self.measures.as_deref_mut() else {
            return Vec::new();
        };
        let mut all = std::mem::take(left);
        all.append(&mut edges.take(&mut rings(&mut self.members)));
        all.sort_unstable_by_key(|edge| (edge.from, edge.to));
        all
    }
}

impl Pe {
    /// Takes the driver's report of the use of time since the last report, if loads are measured.
    /// The driver has to report at least twice a second if the PE shares a processor with other
    /// programs.
    pub fn note_time(&mut self, spent: Spent) {
        let Core { measures, now, .. } = &mut self.core;
        let Some(measures) = measures else { return };
        let is_due = |tried: Time| now.since(tried) >= WANTED_MIN;
        if measures.time.note(*now, spent) {
            self.report_share(false);
        } else if measures.unreported.is_some_and(is_due) {
            self.report_share(true);
        }
    }

    /// Takes the driver's report of the processor time of a trial that has just ended.
    pub fn note_trial(&mut self, now: Time, spent: Spent) {
        let now = self.core.checkpointing.job_time(now);
        let measures = self.core.measures.as_mut();
        if measures.is_some_and(|measures| measures.time.note_trial(now, spent)) {
            self.report_share(false);
        }
    }

    /// Reports a changed share to the coordinator, if no actor lives here or an actor here can move
    /// now. If actors live here and none can move, a rebalance would move none of them and end the
    /// window of measurements that the next rebalance needs. So the PE tries again later.
    fn report_share(&mut self, is_late: bool) {
        let slots = self.core.members.iter().zip(&self.stores).flat_map(|(members, store)| {
            let slots = members.iter().enumerate().filter(|(_, member)| member.is_some());
            slots.map(move |(slot, _)| store.is_movable(slot as u32))
        });
        let (mut has_members, mut may_move) = (false, false);
        for is_movable in slots {
            has_members = true;
            may_move |= is_movable;
        }
        let is_reported = may_move || !has_members;
        let now = self.core.now;
        if let Some(measures) = &mut self.core.measures {
            measures.unreported = (!is_reported).then_some(now);
        }
        if is_reported {
            self.core.post(COORDINATOR, Control::ShareChanged { is_late });
        }
    }
}

fn rings(members: &mut [Vec<Option<Member>>]) -> Vec<(ActorId, &mut EdgeCache)> {
    let members = members.iter_mut().flatten().flatten();
    members.map(|member| (member.id, &mut member.ring)).collect()
}
