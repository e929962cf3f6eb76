//! Rebalancing: a strategy decides where actors live, and actors move.
//!
//! The job continues meanwhile. PEs report loads, the coordinator sends the plan to all, PEs send
//! off the actors that the plan moves away from them, and requested migrations wait until the
//! rebalance is over. The [`Balancer`](gridspan_balance::Balancer) decides which actors to move, if
//! any; `progress` reports the job's pace to it afterwards.
//!
//! A sync point reached by all members of a collection is one cause of a rebalance;
//! `queue_balance` in `progress` takes all causes. Members contribute to a sync point as to a
//! reduction and continue; see `LocalCollection::may_leave_sync` for when they wait.

mod borders;
mod leaders;
mod moves;
mod progress;
mod replicas;

use super::event::Asker;
use super::machine::Coordinator;
use super::state::balance::Balances;
use super::state::timers::Timer;
use crate::address::collection::PlanEntry;
use crate::address::id::CollectionId;
use crate::address::load_keys::{id_of, key_of};
use crate::message::{Control, Loads, MeasuredSpeed};
use gridspan_balance::{
    ActorKey, ActorLoad, Cause, Edge, Move, Occasion, Plan, Replica, Snapshot, Window, rounds,
};
use gridspan_topology::{Layout, PeId, Time};
use replicas::ReplicaOrders;
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum share of the job's time for requested rebalances that move nothing. Above it,
/// `rebalance_if_due` does nothing.
const FUTILE_MAX: f64 = 0.02;

impl Coordinator {
    /// Handles a sync point that all members of a collection have reached.
    pub(in crate::coordinator) fn complete_sync(&mut self, collection: CollectionId) {
        let (now, is_led) = (self.now, self.is_led());
        let is_free = self.balances.queue.is_empty();
        let begins = is_free && self.balancer.may_begin(now);
        let is_first = self.collections.get(&collection).is_some_and(|state| state.syncs.next == 1);
        // After their first sync point, members wait until the moves are known. Leaders at distant
        // sites take too long for that.
        match begins && is_first && !is_led {
            true => _ = self.balances.first_syncs.insert(collection),
            false => self.settle_syncs(collection),
        }
        if begins {
            self.queue_balance(Cause::SyncPoint);
        }
    }

    /// Releases the members that wait at first sync points, because the moves are known.
    pub(in crate::coordinator) fn settle_first_syncs(&mut self) {
        for collection in std::mem::take(&mut self.balances.first_syncs) {
            self.settle_syncs(collection);
        }
    }

    /// Rebalances while the job continues, and then answers with the number of actors moved and of
    /// replicas begun or ended.
    pub(in crate::coordinator) fn rebalance(&mut self, asker: Asker) {
        if !self.balancer.is_active() {
            return self.answer(asker, 0_usize);
        }
        self.balances.waits.push_back(asker);
        self.queue_balance(Cause::Request);
    }

    /// Like [`rebalance`](Self::rebalance), unless too much of the job's time has passed in
    /// requests that moved nothing.
    pub(in crate::coordinator) fn rebalance_if_due(&mut self, asker: Asker) {
        let budget = self.now.since(Time::ZERO).mul_f64(FUTILE_MAX);
        match self.balances.futile <= budget {
            true => self.rebalance(asker),
            false => self.answer(asker, 0_usize),
        }
    }

    /// Asks all PEs for the loads of their actors.
    pub(in crate::coordinator) fn measure(&mut self) {
        let now = self.now;
        // If the places are not known yet, only later rebalances use them.
        self.want_places();
        let pes = self.common.layout.pes();
        let led = self.begin_led();
        (self.balances.missing, self.balances.asked) = (pes.len(), now);
        // This is an estimate until main's PE reports the time.
        self.balances.asked_own = self.own_now();
        self.balances.handled = 0;
        let rebalance = self.balances.present();
        for pe in pes {
            self.post(pe, Control::Measure { rebalance, led });
        }
    }

    /// Notes the time at which main's PE was asked for its loads, by the clock of the job's own
    /// time, and how long that PE took to measure them.
    pub(in crate::coordinator) fn note_own_time(&mut self, at: Time, measuring_ns: u64) {
        self.balances.asked_own = at;
        self.learn_own_time(at);
        self.balances.collecting_ns = self.balances.collecting_ns.saturating_add(measuring_ns);
    }

    /// Collects loads, and schedules planning once all have arrived.
    pub(in crate::coordinator) fn handle_loads(&mut self, from: PeId, loads: Loads) {
        let begin = self.stopwatch_ns();
        let Loads { rebalance, actors, edges, pe, handled, replicas, .. } = loads;
        let balances = &mut self.balances;
        // Only a faulty PE reports twice, or for another rebalance.
        if rebalance != balances.present() || balances.pes.contains_key(&from) {
            return;
        }
        balances.replicas.extend(replicas);
        balances.loads.extend(actors);
        balances.edges.extend(edges);
        balances.pes.insert(from, pe);
        balances.handled = balances.handled.saturating_add(handled);
        balances.missing = balances.missing.saturating_sub(1);
        let is_last = balances.missing == 0;
        self.balances.collecting_ns += self.stopwatch_ns().saturating_sub(begin);
        if is_last {
            // This keeps the job from being quiescent until the decision, though no message is in
            // flight.
            self.created += 1;
            self.run_after(Duration::ZERO, Timer::Decide);
        }
    }

    /// Makes a plan from the loads of all PEs, and sends it to all PEs.
    pub(in crate::coordinator) fn decide_and_carry_out(&mut self) {
        self.processed += 1;
        let rebalance = self.balances.present();
        let begin = self.stopwatch_ns();
        let (moves, orders) = self.decide();
        let planning_ns = self.stopwatch_ns().saturating_sub(begin);
        let ends: usize = orders.end.values().map(Vec::len).sum();
        self.balancer.planned_for(Duration::from_nanos(planning_ns));
        (self.balances.planning_ns, self.balances.begins) = (planning_ns, orders.begin);
        if self.begin_moves(moves.len() + ends) {
            if !moves.is_empty() {
                self.post_to_all(|| Control::Plan { rebalance, moves: moves.clone() });
            }
            self.post_ends(rebalance, orders.end);
        }
        // First, PEs must receive the plan, by which they send off the departing actors.
        self.settle_first_syncs();
    }

    /// Decides which actors to move and which replicas to begin and end, from the measurements.
    fn decide(&mut self) -> (Vec<PlanEntry>, ReplicaOrders) {
        let (now, layout) = (self.now, self.common.layout.clone());
        let takes_time = self.stopwatch.is_some();
        let (mut snapshot, epochs) = snapshot(&mut self.balances, &layout);
        let replicas = std::mem::take(&mut self.balances.replicas);
        snapshot.hierarchy = self.survey.places.as_ref().map(|places| places.hierarchy.clone());
        snapshot.links = self.survey.site_links(now, &layout);
        snapshot.has_step_order = self.uses_steps;
        let Some(Occasion { now, cause, time, handled }) = self.end_window() else {
            return Default::default();
        };
        self.note_replicas(&mut snapshot, replicas);
        self.balancer.learn_speeds(&mut snapshot);
        self.balances.speeds = MeasuredSpeed::of_pes(&snapshot.pes);
        self.balancer.state_moves_at(self.survey.rates_inside(now, &layout));
        let is_fresh_wanted = std::mem::take(&mut self.balances.events.is_fresh_wanted);
        let window = Window { now, cause, snapshot: &snapshot, time, handled, takes_time };
        let plan = match is_fresh_wanted && cause == Cause::ForeignLoad {
            true => Plan::none(),
            false => self.balancer.decide(&window),
        };
        self.tell_borders(&snapshot, &plan);
        for tell in &self.common.balancing.on_snapshot {
            tell(&snapshot, &plan);
        }
        let entry = |entry: &Move| {
            let id = id_of(entry.actor);
            // Giving up a replica also counts as a move.
            let is_replicated = |replica: &Replica| replica.actor.cmp(&entry.actor);
            let has_two = snapshot.replicas.binary_search_by(is_replicated).is_ok();
            let epoch = epochs.get(&entry.actor)?.saturating_add(1 + u32::from(has_two));
            let (from, to) = (entry.from, entry.to);
            (from != to).then_some(PlanEntry { id, from, to, epoch })
        };
        let moves = plan.moves.iter().filter_map(entry).collect();
        (moves, ReplicaOrders::of(&snapshot, &plan))
    }

    /// Releases the members of a collection from their sync point.
    fn settle_syncs(&mut self, collection: CollectionId) {
        if let Some(syncs) = self.state(collection).map(|state| state.syncs.next) {
            self.post_to_all(|| Control::SettleSyncs { collection, syncs });
        }
    }
}

/// Builds the strategy's input, and returns it with the epoch of each actor.
fn snapshot(balances: &mut Balances, layout: &Layout) -> (Snapshot, BTreeMap<ActorKey, u32>) {
    let mut loads = std::mem::take(&mut balances.loads);
    loads.sort_by_key(|(load, _)| load.id);
    let epochs: BTreeMap<_, _> = loads.iter().map(|(load, epoch)| (load.id, *epoch)).collect();
    let actors: Vec<ActorLoad> = loads.into_iter().map(|(load, _)| load).collect();
    let position = |id| {
        let position = actors.binary_search_by_key(&key_of(id), |load| load.id).ok()?;
        Some(position as u32)
    };
    // A sender that has moved was measured on several PEs.
    let mut edges: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
    for edge in std::mem::take(&mut balances.edges) {
        if let (Some(from), Some(to)) = (position(edge.from), position(edge.to))
            && from != to
        {
            let (messages, bytes) = edges.entry((from, to)).or_default();
            *messages = messages.saturating_add(edge.messages);
            *bytes = bytes.saturating_add(edge.bytes);
        }
    }
    let edge = |((from, to), (messages, bytes))| Edge { from, to, messages, bytes };
    let pes = std::mem::take(&mut balances.pes);
    let pe_load = |pe| pes.get(&pe).copied().unwrap_or_default();
    let edges: Vec<Edge> = edges.into_iter().map(edge).collect();
    let steps = rounds(&edges);
    let pes = layout.pes().map(pe_load).collect();
    let mut snapshot = Snapshot::new(actors, edges, pes, layout.clone());
    snapshot.steps = steps;
    (snapshot, epochs)
}
