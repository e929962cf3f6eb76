//! Rebalancing: a strategy decides who lives where, and actors move.
//!
//! The job goes on meanwhile. PEs report loads, the root sends the plan to all, PEs send off the
//! actors that it moves away from them, and migrations on request wait until that is over. The
//! [`Balancer`](gridspan_balance::Balancer) decides what to move, if anything; `progress` tells it
//! afterwards how the job gets on.
//!
//! A rebalance may begin when all members of a collection have reached a sync point. They
//! contribute to that as to a reduction and go on; see `LocalCollection::may_leave_sync` for when they wait.

use crate::collection::PlanEntry;
use crate::id::{CollectionId, RebalanceId};
use crate::pe::core::{Core, Store};
use crate::pe::delivery::Place;
use crate::pe::measure::{id_of, key_of};
use crate::pe::replicas::{ReplicaOrders, note_replicas};
use crate::pe::state::Balances;
use crate::wire::{Control, Loads, Moves};
use gridspan_balance::{
    ActorKey, ActorLoad, Cause, Edge, Move, Occasion, Plan, Replica, Snapshot, Window, rounds,
};
use gridspan_topology::{Layout, PeId};
use std::collections::BTreeMap;
use std::time::Duration;

impl Core {
    /// All members of a collection have reached their sync point.
    pub(super) fn complete_sync(&mut self, collection: CollectionId) {
        let (now, is_led) = (self.now, self.is_led());
        let Some(root) = &mut self.root else { return };
        let is_free = root.balances.queue.is_empty();
        let begins = is_free && root.balancer.may_begin(now);
        let is_first = root.collections.get(&collection).is_some_and(|state| state.syncs.next == 1);
        // After the first, members wait until it is known what moves. Leaders at far sites talk
        // for too long for that.
        match begins && is_first && !is_led {
            true => _ = root.balances.first_syncs.insert(collection),
            false => self.settle_syncs(collection),
        }
        if begins {
            self.queue_balance(Cause::SyncPoint);
        }
    }

    /// What moves after first sync points is known.
    fn settle_first_syncs(&mut self) {
        let Some(root) = &mut self.root else { return };
        for collection in std::mem::take(&mut root.balances.first_syncs) {
            self.settle_syncs(collection);
        }
    }

    /// Balances while everybody goes on, and then calls `done` with the number of actors that have
    /// moved. Runs on the root.
    pub(crate) fn rebalance(&mut self, done: impl FnOnce(&mut Self, usize) + Send + 'static) {
        let Some(root) = &mut self.root else { return };
        if !root.balancer.is_active() {
            return done(self, 0);
        }
        root.balances.waits.push_back(Box::new(done));
        self.queue_balance(Cause::Request);
    }

    /// A plan may move every actor of the job, so that two at a time would contradict each other.
    pub(super) fn queue_balance(&mut self, cause: Cause) {
        let Some(root) = &mut self.root else { return };
        root.balances.queue.push_back(cause);
        if root.balances.queue.len() == 1 {
            self.measure();
        }
    }

    /// Asks all PEs for the loads of their actors.
    fn measure(&mut self) {
        let now = self.now;
        // What is near what counts from the next time on, if nobody knows it yet.
        self.await_places(|_, _| {});
        let pes = self.common.layout.pes();
        let led = self.begin_led();
        let asked_own = self.own_now();
        let Some(root) = &mut self.root else { return };
        (root.balances.missing, root.balances.asked) = (pes.len(), now);
        root.balances.asked_own = asked_own;
        root.balances.handled = 0;
        let rebalance = root.balances.present();
        for pe in pes {
            self.post(pe, Control::Measure { rebalance, led });
        }
    }

    /// Reports what the actors that live here have cost.
    pub(in crate::pe) fn handle_measure(
        &mut self,
        rebalance: RebalanceId,
        led: Option<u64>,
        stores: &[Box<dyn Store>],
    ) {
        let begin = self.stopwatch_ns();
        self.rebalance = Some(rebalance);
        let (actors, pe) = self.take_loads(stores);
        let (edges, handled) = (self.take_edges(), self.handled_once());
        let replicas = self.replicas_here();
        let (to, away) = match led {
            Some(_) => (self.site_leader(), self.away(&edges)),
            None => (Self::ROOT, Vec::new()),
        };
        let loads = Loads { rebalance, actors, edges, pe, handled, led, away, replicas };
        self.post_large(to, Control::Loads(Box::new(loads)));
        self.note_collecting(begin);
    }

    /// The root has measured, or collected what others have, since `begin`.
    fn note_collecting(&mut self, begin: u64) {
        let ns = self.stopwatch_ns().saturating_sub(begin);
        if let Some(root) = &mut self.root {
            root.balances.collecting_ns += ns;
        }
    }

    /// Collects loads, and plans once all have come.
    pub(in crate::pe) fn handle_loads(&mut self, from: PeId, loads: Loads) {
        if let Some(number) = loads.led {
            return self.gather(from, number, loads);
        }
        let begin = self.stopwatch_ns();
        let Some(root) = &mut self.root else { return };
        let Loads { rebalance, actors, edges, pe, handled, replicas, .. } = loads;
        let balances = &mut root.balances;
        // Only a faulty PE reports twice, or for another rebalance.
        if rebalance != balances.present() || balances.pes.contains_key(&from) {
            return;
        }
        balances.replicas.extend(replicas);
        balances.loads.extend(actors);
        balances.edges.extend(edges);
        balances.pes.insert(from, pe);
        balances.handled += handled;
        balances.missing = balances.missing.saturating_sub(1);
        let is_last = balances.missing == 0;
        self.note_collecting(begin);
        if is_last {
            self.carry_out(rebalance);
        }
    }

    /// Everything has been measured. Plans, and sends the plan to all.
    fn carry_out(&mut self, rebalance: RebalanceId) {
        let begin = self.stopwatch_ns();
        let (moves, orders) = self.decide();
        let planning_ns = self.stopwatch_ns().saturating_sub(begin);
        let ends: usize = orders.end.values().map(Vec::len).sum();
        if let Some(root) = &mut self.root {
            root.balancer.planned_for(Duration::from_nanos(planning_ns));
            (root.balances.planning_ns, root.balances.begins) = (planning_ns, orders.begin);
        }
        if self.begin_moves(moves.len() + ends) {
            if !moves.is_empty() {
                self.post_to_all(|| Control::Plan { rebalance, moves: moves.clone() });
            }
            self.post_ends(rebalance, orders.end);
        }
        // PEs learn of it after what leaves them.
        self.settle_first_syncs();
    }

    /// So many moves are about to begin. False if there are none, and the rebalance is over.
    pub(super) fn begin_moves(&mut self, moves: usize) -> bool {
        let now = self.now;
        let Some(root) = &mut self.root else { return false };
        let balances = &mut root.balances;
        (balances.moved, balances.missing, balances.planned) = (0, moves, now);
        let planning_ns = std::mem::take(&mut balances.planning_ns);
        let collecting_ns = std::mem::take(&mut balances.collecting_ns);
        root.balancer.spent(Duration::from_nanos(planning_ns + collecting_ns));
        if moves == 0 {
            self.go_on_with_plan();
            return false;
        }
        // It may have begun by itself, and actors send when they arrive: what PEs have answered to
        // a question about quiescence before says nothing any more.
        root.quiescence.created += 1;
        true
    }

    /// What to move after what has been measured.
    fn decide(&mut self) -> (Vec<PlanEntry>, ReplicaOrders) {
        let (now, layout) = (self.now, self.common.layout.clone());
        let takes_time = self.stopwatch.is_some();
        let Some(root) = &mut self.root else { return Default::default() };
        let (mut snapshot, epochs) = snapshot(&mut root.balances, &layout);
        let replicas = std::mem::take(&mut root.balances.replicas);
        snapshot.hierarchy = root.survey.places.as_ref().map(|places| places.hierarchy.clone());
        snapshot.links = root.survey.site_links(now, &layout);
        snapshot.has_step_order = root.uses_steps;
        let Some(Occasion { now, cause, time, handled }) = self.end_window() else {
            return Default::default();
        };
        note_replicas(self, &mut snapshot, replicas);
        let Some(root) = &mut self.root else { return Default::default() };
        root.balancer.learn_speeds(&mut snapshot);
        let is_fresh_wanted = std::mem::take(&mut root.balances.events.is_fresh_wanted);
        let window = Window { now, cause, snapshot: &snapshot, time, handled, takes_time };
        let plan = match is_fresh_wanted && cause == Cause::ForeignLoad {
            true => Plan::none(),
            false => root.balancer.decide(&window),
        };
        self.tell_borders(&snapshot, &plan);
        for tell in &self.common.balancing.on_snapshot {
            tell(&snapshot, &plan);
        }
        let entry = |entry: &Move| {
            let id = id_of(entry.actor);
            // To give up a replica is a change of place, too.
            let is_replicated = |replica: &Replica| replica.actor.cmp(&entry.actor);
            let has_two = snapshot.replicas.binary_search_by(is_replicated).is_ok();
            let epoch = epochs.get(&entry.actor)? + 1 + u32::from(has_two);
            let (from, to) = (entry.from, entry.to);
            (from != to).then_some(PlanEntry { id, from, to, epoch })
        };
        let moves = plan.moves.iter().filter_map(entry).collect();
        (moves, ReplicaOrders::of(&snapshot, &plan))
    }

    /// Learns from moves that are about to begin. Returns what this PE has to carry out.
    pub(in crate::pe) fn learn_moves(&mut self, moves: Vec<PlanEntry>) -> Vec<PlanEntry> {
        let mut mine = Vec::new();
        for entry in moves {
            if entry.from == self.me {
                mine.push(entry);
            } else if entry.to != self.me {
                self.learn(entry.id, Place::at(entry.to, entry.epoch));
            }
        }
        mine
    }

    pub(in crate::pe) fn handle_plan_done(&mut self, rebalance: RebalanceId, moves: Moves) {
        let Some(root) = &mut self.root else { return };
        let balances = &mut root.balances;
        // Only a faulty PE reports more than there are, or what is over.
        if balances.missing == 0 || rebalance != balances.present() {
            return;
        }
        let Moves { arrived, stayed } = moves;
        balances.moved += arrived.min(balances.missing) as u64;
        balances.missing = balances.missing.saturating_sub(arrived.saturating_add(stayed));
        if balances.missing == 0 {
            self.go_on_with_plan();
        }
    }

    /// A part of the plan is over.
    fn go_on_with_plan(&mut self) {
        let Some(root) = &self.root else { return };
        let rebalance = root.balances.present();
        if !self.post_begins(rebalance) {
            self.finish_balance(rebalance);
        }
    }

    fn finish_balance(&mut self, rebalance: RebalanceId) {
        self.post_to_all(|| Control::Rebalanced { rebalance });
        let now = self.now;
        let Some(root) = &mut self.root else { return };
        let balances = &mut root.balances;
        balances.count += 1;
        let cause = balances.queue.pop_front();
        let (moved, is_next) = (balances.moved, !balances.queue.is_empty());
        let was_judging = root.balancer.is_judging();
        root.balancer.carried_out(now, moved, now.since(balances.planned));
        if cause == Some(Cause::Request)
            && let Some(done) = balances.waits.pop_front()
        {
            done(self, moved as usize);
        }
        self.after_balance(cause, was_judging);
        if is_next {
            self.measure();
        }
    }

    /// Lets the members of a collection go on from their sync point.
    fn settle_syncs(&mut self, collection: CollectionId) {
        let state = self.root.as_ref().and_then(|root| root.collections.get(&collection));
        if let Some(syncs) = state.map(|state| state.syncs.next) {
            self.post_to_all(|| Control::SettleSyncs { collection, syncs });
        }
    }
}

/// What the strategy sees, and the epoch of each actor.
fn snapshot(balances: &mut Balances<Core>, layout: &Layout) -> (Snapshot, BTreeMap<ActorKey, u32>) {
    let mut loads = std::mem::take(&mut balances.loads);
    loads.sort_by_key(|(load, _)| load.id);
    let epochs: BTreeMap<_, _> = loads.iter().map(|(load, epoch)| (load.id, *epoch)).collect();
    let actors: Vec<ActorLoad> = loads.into_iter().map(|(load, _)| load).collect();
    let position = |id| {
        let position = actors.binary_search_by_key(&key_of(id), |load| load.id).ok()?;
        Some(position as u32)
    };
    // A sender that has moved was measured in several places.
    let mut edges: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
    for edge in std::mem::take(&mut balances.edges) {
        if let (Some(from), Some(to)) = (position(edge.from), position(edge.to))
            && from != to
        {
            let (messages, bytes) = edges.entry((from, to)).or_default();
            *messages += edge.messages;
            *bytes += edge.bytes;
        }
    }
    let edge = |((from, to), (messages, bytes))| Edge { from, to, messages, bytes };
    let pes = std::mem::take(&mut balances.pes);
    let pe_load = |pe| pes.get(&pe).copied().unwrap_or_default();
    let edges: Vec<Edge> = edges.into_iter().map(edge).collect();
    let steps = rounds(&edges);
    let pes = layout.pes().map(pe_load).collect();
    let snapshot = Snapshot { steps, ..Snapshot::new(actors, edges, pes, layout.clone()) };
    (snapshot, epochs)
}
