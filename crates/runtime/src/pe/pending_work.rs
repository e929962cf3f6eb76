//! A PE's unfinished work.

use super::Pe;
use super::core::Core;
use super::delivery::Channels;
use crate::address::id::{ActorId, CollectionId};
use crate::message::pending_work::PendingWork;

impl Pe {
    /// Counts the unfinished work here. Takes time proportional to the state of the PE.
    pub fn pending_work(&self) -> PendingWork {
        self.core.pending_work()
    }
}

impl Core {
    /// Counts the unfinished work here.
    pub(super) fn pending_work(&self) -> PendingWork {
        let core = self;
        let members = || core.members.iter().flatten().flatten();
        let [at_tombstones, awaiting, early] = core.delivery.waiting();
        let held = |channels: &Channels| channels.held.len() as u64;
        PendingWork {
            members: members().filter(|member| !core.replicas.is_secondary(member.id)).count()
                as u64,
            created: core.created,
            processed: core.processed,
            busy: u64::from(!core.lanes.is_empty()),
            held: members().filter_map(|member| member.channels.as_deref()).map(held).sum::<u64>()
                + at_tombstones,
            awaiting,
            early,
            departing: core.departing.len() as u64,
            arriving: core.arriving.len() as u64,
            early_broadcasts: core.early_broadcasts(),
            reductions: core.accumulators.len() as u64,
            questions: core.waits.len() as u64,
            rebalances: u64::from(core.rebalance.is_some()),
            synced: members().filter(|member| member.synced).count() as u64,
            dead_letters: core.statistics.dead_letters,
            absent_members: core.looks.absent_members.iter().map(|id| core.name_of(*id)).collect(),
            main_waits: Vec::new(),
        }
    }

    /// The name of a member in messages for users.
    pub(super) fn name_of(&self, id: ActorId) -> String {
        let local = self.collections.get(id.collection);
        let kind = local.and_then(|local| self.common.kind(local.info.kind));
        let kind = kind.map_or("a member", |kind| kind.name());
        format!("{kind} {:?} of collection {}", id.key, id.collection.0)
    }

    /// The type of a pool's tasks, if the collection is a pool.
    pub(super) fn tasks_of(&self, collection: CollectionId) -> Option<&'static str> {
        let kind = self.collections.get(collection)?.info.kind;
        self.common.task_names.get(&kind).copied()
    }
}
