//! Rebalancing: a strategy decides who lives where, and actors move.
//!
//! At a sync point the members of a collection wait for it; else everybody goes on meanwhile. Loads
//! come in, the plan goes out to all, those who live where it moves them from send them off, and
//! migrations on request wait until that is over. What to move, if anything, is for the
//! [`Balancer`](gridspan_balance::Balancer) to say; `pulse` tells it afterwards how the job gets
//! on.

use super::twins::{TwinOrders, note_seats};
use crate::collection::PlanEntry;
use crate::id::CollectionId;
use crate::pe::core::{Core, Store};
use crate::pe::measure::{id_of, key_of};
use crate::pe::state::{Balances, Occasion, Place};
use crate::wire::{Control, Loads, Moves};
use gridspan_balance::{
    ActorKey, ActorLoad, Cause, Edge, Move, Occasion as Asked, Plan, Snapshot, Twin, Window, rounds,
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
        let is_first =
            root.collections.get(&collection).is_some_and(|family| family.syncs.next == 1);
        // After the first, members wait until it is known what moves. Leaders at far sites talk
        // for too long for that.
        match begins && is_first && !is_led {
            true => _ = root.balances.first_syncs.insert(collection),
            false => self.resume_synced(collection),
        }
        if begins {
            self.queue_balance(Balances::<Self>::ALL, Cause::SyncPoint);
        }
    }

    /// What moves after first sync points is known.
    fn settle_first_syncs(&mut self) {
        let Some(root) = &mut self.root else { return };
        for collection in std::mem::take(&mut root.balances.first_syncs) {
            self.resume_synced(collection);
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
        self.queue_balance(Balances::<Self>::ALL, Cause::Request);
    }

    /// A plan may move every actor of the job, so that two at a time would contradict each other.
    pub(super) fn queue_balance(&mut self, occasion: Occasion, cause: Cause) {
        let Some(root) = &mut self.root else { return };
        root.balances.queue.push_back((occasion, cause));
        if root.balances.queue.len() == 1 {
            self.measure(occasion);
        }
    }

    /// The number of the occasion: how many of its kind will be over after it.
    fn number_of(&self, occasion: Occasion) -> Option<u64> {
        let root = self.root.as_ref()?;
        match occasion == Balances::<Self>::ALL {
            true => Some(root.balances.count + 1),
            false => Some(root.collections.get(&occasion)?.syncs.next),
        }
    }

    /// Asks all PEs for the loads of their actors.
    fn measure(&mut self, collection: Occasion) {
        let (Some(syncs), now) = (self.number_of(collection), self.now) else { return };
        // What is near what counts from the next time on, if nobody knows it yet.
        self.await_places(|_, _| {});
        let pes = self.common.layout.pes();
        let led = self.begin_led();
        let asked_own = self.own_now();
        let Some(root) = &mut self.root else { return };
        (root.balances.missing, root.balances.asked) = (pes.len(), now);
        root.balances.asked_own = asked_own;
        root.balances.handled = 0;
        for pe in pes {
            self.post(pe, Control::Measure { collection, syncs, led });
        }
    }

    /// Reports what the actors that live here have cost.
    pub(in crate::pe) fn handle_measure(
        &mut self,
        collection: Occasion,
        syncs: u64,
        led: Option<u64>,
        stores: &[Box<dyn Store>],
    ) {
        self.balancing.insert(collection, syncs);
        let (actors, pe) = self.take_loads(stores);
        let (talks, handled) = (self.take_talks(), self.handled_once());
        let twins = self.twins_here();
        let (to, away) = match led {
            Some(_) => (self.site_leader(), self.away(&talks)),
            None => (Self::ROOT, Vec::new()),
        };
        let loads = Loads { collection, actors, talks, pe, handled, led, away, twins };
        self.post_large(to, Control::Loads(Box::new(loads)));
    }

    /// Collects loads, and plans once all have come.
    pub(in crate::pe) fn handle_loads(&mut self, from: PeId, loads: Loads) {
        if let Some(number) = loads.led {
            return self.gather(from, number, loads);
        }
        let Some(root) = &mut self.root else { return };
        let Loads { collection, actors, talks, pe, handled, twins, .. } = loads;
        let balances = &mut root.balances;
        balances.twins.extend(twins);
        balances.loads.extend(actors);
        balances.talks.extend(talks);
        balances.pes.insert(from, pe);
        balances.handled += handled;
        balances.missing = balances.missing.saturating_sub(1);
        if balances.missing > 0 {
            return;
        }
        let begin = self.stopwatch_ns();
        let (moves, orders) = self.decide();
        let thought = self.stopwatch_ns().saturating_sub(begin);
        let ends: usize = orders.end.values().map(Vec::len).sum();
        if let Some(root) = &mut self.root {
            (root.balances.thought, root.balances.begins) = (thought, orders.begin);
        }
        if self.begin_moves(collection, moves.len() + ends) {
            if !moves.is_empty() {
                self.post_to_all(|| Control::Plan { collection, moves: moves.clone() });
            }
            self.post_ends(collection, orders.end);
        }
        // PEs learn of it after what leaves them.
        self.settle_first_syncs();
    }

    /// So many moves are about to begin. False if there are none, and the rebalance is over.
    pub(super) fn begin_moves(&mut self, collection: Occasion, moves: usize) -> bool {
        let now = self.now;
        let Some(root) = &mut self.root else { return false };
        let balances = &mut root.balances;
        (balances.moved, balances.missing, balances.planned) = (0, moves, now);
        let thought = Duration::from_nanos(std::mem::take(&mut balances.thought));
        // At a sync point the job stands still, for thinking too; what then is carried out is
        // counted in the end.
        match collection != Balances::<Self>::ALL {
            true if moves == 0 && balances.begins.is_empty() => {
                root.balancer.spent(now.since(balances.asked))
            }
            true => {}
            false => root.balancer.spent(thought),
        }
        if moves == 0 {
            self.go_on_with_plan(collection);
            return false;
        }
        // It may have begun by itself, and actors send when they arrive: what PEs have answered to
        // a question about quiescence before says nothing any more.
        root.waves.created += 1;
        true
    }

    /// What to move after what has been measured.
    fn decide(&mut self) -> (Vec<PlanEntry>, TwinOrders) {
        let (now, layout) = (self.now, self.common.layout.clone());
        let Some(root) = &mut self.root else { return Default::default() };
        let (mut snapshot, epochs) = snapshot(&mut root.balances, &layout);
        let twins = std::mem::take(&mut root.balances.twins);
        snapshot.hierarchy = root.survey.places.as_ref().map(|places| places.hierarchy.clone());
        snapshot.links = root.survey.site_links(now, &layout);
        snapshot.has_step_order = root.uses_steps;
        let Some(Asked { now, cause, time, handled }) = self.end_window() else {
            return Default::default();
        };
        note_seats(self, &mut snapshot, twins);
        let Some(root) = &mut self.root else { return Default::default() };
        root.balancer.learn_speeds(&mut snapshot);
        let is_fresh_wanted = std::mem::take(&mut root.balances.events.is_fresh_wanted);
        let window = Window { now, cause, snapshot: &snapshot, time, handled };
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
            // To give up a second seat is a change of place, too.
            let is_twin = |twin: &Twin| twin.actor.cmp(&entry.actor);
            let has_two = snapshot.twins.binary_search_by(is_twin).is_ok();
            let epoch = epochs.get(&entry.actor)? + 1 + u32::from(has_two);
            let (from, to) = (entry.from, entry.to);
            (from != to).then_some(PlanEntry { id, from, to, epoch })
        };
        let moves = plan.moves.iter().filter_map(entry).collect();
        (moves, TwinOrders::of(&snapshot, &plan))
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

    /// A move of a plan is over: the actor lives here now, or could not leave. What a PE has seen
    /// of this is reported once a turn.
    pub(in crate::pe) fn note_moved(&mut self, plan: Option<Occasion>, has_arrived: bool) {
        let Some(plan) = plan else { return };
        let Moves { arrived, stayed } = self.moved.entry(plan).or_default();
        *(if has_arrived { arrived } else { stayed }) += 1;
    }

    pub(in crate::pe) fn report_moved(&mut self) {
        while let Some((collection, moves)) = self.moved.pop_first() {
            self.post(Self::ROOT, Control::PlanDone { collection, moves });
        }
    }

    pub(in crate::pe) fn handle_plan_done(&mut self, collection: Occasion, moves: Moves) {
        let Some(root) = &mut self.root else { return };
        let balances = &mut root.balances;
        // Only a faulty PE reports more than there are, or what is over.
        let is_present = balances.queue.front().is_some_and(|&(front, _)| front == collection);
        if balances.missing == 0 || !is_present {
            return;
        }
        let Moves { arrived, stayed } = moves;
        balances.moved += arrived.min(balances.missing) as u64;
        balances.missing = balances.missing.saturating_sub(arrived.saturating_add(stayed));
        if balances.missing == 0 {
            self.go_on_with_plan(collection);
        }
    }

    /// A part of the plan is over.
    fn go_on_with_plan(&mut self, occasion: Occasion) {
        if !self.post_begins(occasion) {
            self.finish_balance(occasion);
        }
    }

    fn finish_balance(&mut self, occasion: Occasion) {
        self.resume_synced(occasion);
        let now = self.now;
        let Some(root) = &mut self.root else { return };
        let balances = &mut root.balances;
        let is_stop = occasion != Balances::<Self>::ALL;
        // At a sync point the job stood still all the time, which is no part of its steps.
        let begin = if is_stop { balances.asked } else { balances.planned };
        if is_stop {
            balances.own_time.add_pause(now.since(begin));
        } else {
            balances.count += 1;
        }
        let cause = balances.queue.pop_front().map(|(_, cause)| cause);
        let (moved, next) = (balances.moved, balances.queue.front().copied());
        let was_judging = root.balancer.is_judging();
        root.balancer.carried_out(now, moved, now.since(begin), is_stop);
        if cause == Some(Cause::Request)
            && let Some(done) = balances.waits.pop_front()
        {
            done(self, moved as usize);
        }
        self.after_balance(cause, was_judging);
        if let Some((next, _)) = next {
            self.measure(next);
        }
    }

    /// Lets the members of a collection go on from their sync point, and those move that wished to.
    fn resume_synced(&mut self, collection: Occasion) {
        if let Some(syncs) = self.number_of(collection) {
            self.post_to_all(|| Control::Resume { collection, syncs });
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
    for talk in std::mem::take(&mut balances.talks) {
        if let (Some(from), Some(to)) = (position(talk.from), position(talk.to))
            && from != to
        {
            let (messages, bytes) = edges.entry((from, to)).or_default();
            *messages += talk.messages;
            *bytes += talk.bytes;
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
