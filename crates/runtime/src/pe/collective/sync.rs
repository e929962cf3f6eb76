//! The sync point: members wait, a strategy decides who lives where, actors move, members go on.

use crate::collection::PlanEntry;
use crate::id::CollectionId;
use crate::pe::core::{Core, Store};
use crate::pe::measure::{id_of, key_of};
use crate::pe::state::{Family, Place};
use crate::wire::{Control, Talk};
use gridspan_balance::{ActorKey, ActorLoad, Edge, PeLoad, Snapshot};
use gridspan_topology::{Layout, PeId};
use std::collections::BTreeMap;
use std::time::Duration;

impl Core {
    /// All members of a collection have reached their sync point.
    pub(super) fn begin_balance(&mut self, collection: CollectionId) {
        let Some(root) = &mut self.root else { return };
        if root.strategy.name() == "none" {
            return self.resume_synced(collection);
        }
        // A plan may move every actor of the job, so that two at a time would contradict each other.
        root.balances.push_back(collection);
        if root.balances.len() == 1 {
            self.measure(collection);
        }
    }

    /// Asks all PEs for the loads of their actors.
    fn measure(&mut self, collection: CollectionId) {
        let pes = self.common.layout.pes();
        let Some(family) = self.family(collection) else { return };
        family.missing = pes.len() as u32;
        family.loads.clear();
        let syncs = family.syncs.next;
        for pe in pes {
            self.post(pe, Control::Measure { collection, syncs });
        }
    }

    /// Reports what the actors that live here have cost.
    pub(in crate::pe) fn handle_measure(
        &mut self,
        collection: CollectionId,
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
        collection: CollectionId,
        actors: Vec<(ActorLoad, u32)>,
        talks: Vec<Talk>,
        (from, pe): (PeId, PeLoad),
    ) {
        let layout = self.common.layout.clone();
        let Some(root) = &mut self.root else { return };
        let Some(family) = root.collections.get_mut(&collection) else { return };
        family.loads.extend(actors);
        family.talks.extend(talks);
        family.pes.insert(from, pe);
        family.missing = family.missing.saturating_sub(1);
        if family.missing > 0 {
            return;
        }
        let (snapshot, epochs) = snapshot(family, &layout);
        let plan = root.strategy.plan(&snapshot);
        let moves: Vec<_> = plan
            .moves
            .iter()
            .filter_map(|entry| {
                let id = id_of(entry.actor);
                let epoch = epochs.get(&entry.actor)? + 1;
                (entry.from != entry.to).then_some(PlanEntry {
                    id,
                    from: entry.from,
                    to: entry.to,
                    epoch,
                })
            })
            .collect();
        family.missing = layout.pe_count();
        tracing::info!(collection = collection.0, moves = moves.len(), "rebalance");
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

    pub(in crate::pe) fn handle_plan_done(&mut self, collection: CollectionId) {
        let Some(family) = self.family(collection) else { return };
        family.missing = family.missing.saturating_sub(1);
        if family.missing == 0 {
            self.finish_balance(collection);
        }
    }

    fn finish_balance(&mut self, collection: CollectionId) {
        self.resume_synced(collection);
        let Some(root) = &mut self.root else { return };
        root.balances.pop_front();
        if let Some(&next) = root.balances.front() {
            self.measure(next);
        }
    }

    /// Lets the members of a collection go on from their sync point.
    fn resume_synced(&mut self, collection: CollectionId) {
        let Some(Family { syncs, .. }) = self.family(collection) else { return };
        let syncs = syncs.next;
        self.post(Self::ROOT, Control::Resume { collection, syncs });
    }
}

/// What the strategy sees, and the epoch of each actor.
fn snapshot(family: &mut Family<Core>, layout: &Layout) -> (Snapshot, BTreeMap<ActorKey, u32>) {
    let mut loads = std::mem::take(&mut family.loads);
    loads.sort_by_key(|(load, _)| load.id);
    let epochs: BTreeMap<_, _> = loads.iter().map(|(load, epoch)| (load.id, *epoch)).collect();
    let actors: Vec<ActorLoad> = loads.into_iter().map(|(load, _)| load).collect();
    let position = |id| {
        let position = actors.binary_search_by_key(&key_of(id), |load| load.id).ok()?;
        Some(position as u32)
    };
    // A sender that has moved was measured in several places.
    let mut edges: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
    for talk in std::mem::take(&mut family.talks) {
        if let (Some(from), Some(to)) = (position(talk.from), position(talk.to))
            && from != to
        {
            let (messages, bytes) = edges.entry((from, to)).or_default();
            *messages += talk.messages;
            *bytes += talk.bytes;
        }
    }
    let edge = |((from, to), (messages, bytes))| Edge { from, to, messages, bytes };
    let pes = std::mem::take(&mut family.pes);
    let ordinary = PeLoad { speed: 1.0, background: Duration::ZERO };
    let snapshot = Snapshot {
        edges: edges.into_iter().map(edge).collect(),
        actors,
        pes: layout.pes().map(|pe| pes.get(&pe).copied().unwrap_or(ordinary)).collect(),
        layout: layout.clone(),
    };
    (snapshot, epochs)
}
