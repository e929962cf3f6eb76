//! Rebalancing: a strategy decides who lives where, and actors move.
//!
//! At a sync point the members of a collection wait for it; else everybody goes on meanwhile. Loads come in,
//! the plan goes out to all, those who live where it moves them from send them off, and migrations on
//! request wait until that is over.

use crate::collection::PlanEntry;
use crate::id::CollectionId;
use crate::pe::core::{Core, Store};
use crate::pe::measure::{id_of, key_of};
use crate::pe::state::{Balances, Occasion, Place};
use crate::wire::{Control, Talk};
use gridspan_balance::{ActorKey, ActorLoad, Edge, Move, PeLoad, Snapshot};
use gridspan_topology::{Layout, PeId};
use std::collections::BTreeMap;

impl Core {
    /// All members of a collection have reached their sync point.
    pub(super) fn begin_balance(&mut self, collection: CollectionId) {
        let Some(root) = &mut self.root else { return };
        if root.strategy.name() == "none" {
            return self.resume_synced(collection);
        }
        self.queue_balance(collection);
    }

    /// Balances while everybody goes on, and then calls `done` with the number of actors that have
    /// moved. Runs on the root.
    pub(crate) fn rebalance(&mut self, done: impl FnOnce(&mut Self, usize) + Send + 'static) {
        let Some(root) = &mut self.root else { return };
        if root.strategy.name() == "none" {
            return done(self, 0);
        }
        root.balances.waits.push_back(Box::new(done));
        self.queue_balance(Balances::<Self>::ASKED);
    }

    /// A plan may move every actor of the job, so that two at a time would contradict each other.
    fn queue_balance(&mut self, occasion: Occasion) {
        let Some(root) = &mut self.root else { return };
        root.balances.queue.push_back(occasion);
        if root.balances.queue.len() == 1 {
            self.measure(occasion);
        }
    }

    /// The number of the occasion: how many of its kind will be over after it.
    fn number_of(&self, occasion: Occasion) -> Option<u64> {
        let root = self.root.as_ref()?;
        match occasion == Balances::<Self>::ASKED {
            true => Some(root.balances.asked + 1),
            false => Some(root.collections.get(&occasion)?.syncs.next),
        }
    }

    /// Asks all PEs for the loads of their actors.
    fn measure(&mut self, collection: Occasion) {
        let Some(syncs) = self.number_of(collection) else { return };
        // What is near what counts from the next time on, if nobody knows it yet.
        self.await_places(|_, _| {});
        let pes = self.common.layout.pes();
        let Some(root) = &mut self.root else { return };
        root.balances.missing = pes.len();
        for pe in pes {
            self.post(pe, Control::Measure { collection, syncs });
        }
    }

    /// Reports what the actors that live here have cost.
    pub(in crate::pe) fn handle_measure(
        &mut self,
        collection: Occasion,
        syncs: u64,
        stores: &[Box<dyn Store>],
    ) {
        self.balancing.insert(collection, syncs);
        let actors = self.take_loads(stores);
        let (talks, pe) = (self.take_talks(), self.pe_load());
        self.post(Self::ROOT, Control::Loads { collection, actors, talks, pe });
    }

    /// Collects loads, and plans once all have come.
    pub(in crate::pe) fn handle_loads(
        &mut self,
        collection: Occasion,
        actors: Vec<(ActorLoad, u32)>,
        talks: Vec<Talk>,
        (from, pe): (PeId, PeLoad),
    ) {
        let layout = self.common.layout.clone();
        let Some(root) = &mut self.root else { return };
        let balances = &mut root.balances;
        balances.loads.extend(actors);
        balances.talks.extend(talks);
        balances.pes.insert(from, pe);
        balances.missing = balances.missing.saturating_sub(1);
        if balances.missing > 0 {
            return;
        }
        let (mut snapshot, epochs) = snapshot(balances, &layout);
        snapshot.hierarchy = root.survey.places.as_ref().map(|places| places.hierarchy.clone());
        let plan = root.strategy.plan(&snapshot);
        if let Some(tell) = &self.common.on_balance {
            tell(&snapshot, &plan);
        }
        let entry = |entry: &Move| {
            let id = id_of(entry.actor);
            let epoch = epochs.get(&entry.actor)? + 1;
            let (from, to) = (entry.from, entry.to);
            (from != to).then_some(PlanEntry { id, from, to, epoch })
        };
        let moves: Vec<_> = plan.moves.iter().filter_map(entry).collect();
        balances.moves = moves.len();
        balances.missing = moves.len();
        tracing::info!(collection = collection.0, moves = moves.len(), "rebalance");
        if moves.is_empty() {
            return self.finish_balance(collection);
        }
        self.post(Self::ROOT, Control::Plan { collection, moves });
    }

    /// Passes a plan down the tree and learns from it. Returns what this PE has to carry out.
    pub(in crate::pe) fn learn_plan(
        &mut self,
        collection: CollectionId,
        moves: Vec<PlanEntry>,
    ) -> Vec<PlanEntry> {
        for child in self.tree_children() {
            self.post(child, Control::Plan { collection, moves: moves.clone() });
        }
        let mut mine = Vec::new();
        for entry in moves {
            if entry.from == self.me {
                mine.push(entry);
            } else if entry.to != self.me {
                self.learn(entry.id, Place { pe: entry.to, epoch: entry.epoch, gone: false });
            }
        }
        mine
    }

    /// A move of a plan is over: the actor lives here now, or could not leave. What a PE has seen of this is
    /// reported once a turn.
    pub(in crate::pe) fn note_moved(&mut self, plan: Option<Occasion>) {
        if let Some(plan) = plan {
            *self.moved.entry(plan).or_default() += 1;
        }
    }

    pub(in crate::pe) fn report_moved(&mut self) {
        while let Some((collection, moves)) = self.moved.pop_first() {
            self.post(Self::ROOT, Control::PlanDone { collection, moves });
        }
    }

    pub(in crate::pe) fn handle_plan_done(&mut self, collection: Occasion, moves: usize) {
        let Some(root) = &mut self.root else { return };
        let missing = &mut root.balances.missing;
        // Only a faulty PE reports more than there are, or what is over.
        if *missing == 0 || root.balances.queue.front() != Some(&collection) {
            return;
        }
        *missing = missing.saturating_sub(moves);
        if *missing == 0 {
            self.finish_balance(collection);
        }
    }

    fn finish_balance(&mut self, occasion: Occasion) {
        self.resume_synced(occasion);
        let Some(root) = &mut self.root else { return };
        let balances = &mut root.balances;
        balances.queue.pop_front();
        let (moves, next) = (balances.moves, balances.queue.front().copied());
        if occasion == Balances::<Self>::ASKED {
            balances.asked += 1;
            if let Some(done) = balances.waits.pop_front() {
                done(self, moves);
            }
        }
        if let Some(next) = next {
            self.measure(next);
        }
    }

    /// Lets the members of a collection go on from their sync point, and those move that wished to.
    fn resume_synced(&mut self, collection: Occasion) {
        if let Some(syncs) = self.number_of(collection) {
            self.post(Self::ROOT, Control::Resume { collection, syncs });
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
    let snapshot = Snapshot::new(
        actors,
        edges.into_iter().map(edge).collect(),
        layout.pes().map(pe_load).collect(),
        layout.clone(),
    );
    (snapshot, epochs)
}
