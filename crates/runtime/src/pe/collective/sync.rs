//! The sync point: members wait, a strategy decides who lives where, actors move, members go on.

use crate::collection::PlanEntry;
use crate::id::{ActorId, CollectionId};
use crate::index::Key;
use crate::pe::core::Core;
use crate::pe::state::{Family, Place};
use crate::wire::Control;
use gridspan_balance::{ActorKey, ActorLoad, PeLoad, Snapshot};
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

    /// Reports the loads of the actors that live here and may move.
    pub(in crate::pe) fn handle_measure(&mut self, collection: CollectionId, syncs: u64) {
        self.balancing.insert(collection, syncs);
        let mut actors = Vec::new();
        for member in self.members.iter_mut().flatten().flatten() {
            let id = member.id;
            if self.collections.get(id.collection).is_some_and(|local| local.info.migratable()) {
                let load = ActorLoad {
                    id: ActorKey { collection: id.collection.0, index: id.key.0 },
                    pe: self.me,
                    load: Duration::from_nanos(std::mem::take(&mut member.load_ns)),
                    bytes: 0,
                    migratable: true,
                };
                actors.push((load, member.epoch));
            }
        }
        self.post(Self::ROOT, Control::Loads { collection, actors });
    }

    /// Collects loads, and plans once all have come.
    pub(in crate::pe) fn handle_loads(
        &mut self,
        collection: CollectionId,
        actors: Vec<(ActorLoad, u32)>,
    ) {
        let layout = self.common.layout.clone();
        let Some(root) = &mut self.root else { return };
        let Some(family) = root.collections.get_mut(&collection) else { return };
        family.loads.extend(actors);
        family.missing = family.missing.saturating_sub(1);
        if family.missing > 0 {
            return;
        }
        let mut loads = std::mem::take(&mut family.loads);
        loads.sort_by_key(|(load, _)| load.id);
        let epochs: BTreeMap<_, _> = loads.iter().map(|(load, epoch)| (load.id, *epoch)).collect();
        let snapshot = Snapshot::new(
            loads.into_iter().map(|(load, _)| load).collect(),
            Vec::new(),
            layout.pes().map(|_| PeLoad::default()).collect(),
            (*layout).clone(),
        );
        let plan = root.strategy.plan(&snapshot);
        let moves: Vec<_> = plan
            .moves
            .iter()
            .filter_map(|entry| {
                let ActorKey { collection, index } = entry.actor;
                let id = ActorId { collection: CollectionId(collection), key: Key(index) };
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
