//! The activities of a job when nodes are lost.
//!
//! Actors cross the network as bytes, so they cannot refer to a model of the job. The model is a
//! thread-local instead: a simulation runs on one thread.

use crate::order::{Broadcast, Stamp};
use gridspan_runtime::pe::PendingWork;
use gridspan_runtime::{CheckpointStore, Time};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

thread_local! {
    static LEDGER: RefCell<Ledger> = RefCell::default();
}

/// An activity that may be under way when nodes are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LossPhase {
    /// No PE has a message ready, and none of the following is under way.
    Idle,
    /// A checkpoint is being made, encoded, stored or copied.
    Checkpoint,
    /// The job goes back to a checkpoint after another loss.
    Recovery,
    /// A member is on its way to another PE.
    Migration,
    /// Some members have contributed to a reduction, and others have not.
    Reduction,
    /// Some members have not handled an ordered broadcast.
    Broadcast,
    /// A member was inserted and does not exist yet.
    Creation,
    /// Tasks that began on the first PE are running, and other PEs have taken some of them.
    Steal,
    /// Nodes were asked to leave or join, and main has not yet continued after that.
    Handover,
}

impl LossPhase {
    pub(crate) const ALL: [Self; 9] = [
        Self::Idle,
        Self::Checkpoint,
        Self::Recovery,
        Self::Migration,
        Self::Reduction,
        Self::Broadcast,
        Self::Creation,
        Self::Steal,
        Self::Handover,
    ];
}

/// What runs on nodes that are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LostPlace {
    Main,
    Coordinator,
    /// All members of a site that had several.
    Site,
}

impl LostPlace {
    pub(crate) const ALL: [Self; 3] = [Self::Main, Self::Coordinator, Self::Site];
}

/// Why a run has begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Begun {
    #[default]
    FromStart,
    AfterLoss,
    AfterChange,
}

/// The activities of the job in the present run.
#[derive(Default)]
pub(crate) struct Ledger {
    begun: Begun,
    /// Whether main has continued from a checkpoint.
    is_restored: bool,
    /// Whether main waits for a checkpoint.
    pub(crate) is_at_checkpoint: bool,
    /// Whether tasks for which main waits have run on PEs other than the first.
    pub(crate) are_tasks_taken: bool,
    /// For each broadcast of this run, the number of members that have not handled it.
    broadcasts: BTreeMap<Broadcast, u32>,
    insertions: BTreeSet<i32>,
    last_handled: Time,
}

/// Runs a function with the model of this thread.
pub(crate) fn ledger<T>(run: impl FnOnce(&mut Ledger) -> T) -> T {
    LEDGER.with_borrow_mut(run)
}

/// Begins a run.
pub(crate) fn begin(begun: Begun) {
    LEDGER.set(Ledger { begun, ..Ledger::default() });
}

impl Ledger {
    pub(crate) fn restored(&mut self) {
        self.is_restored = true;
    }

    /// Notes a broadcast and the number of its receivers.
    pub(crate) fn broadcast_sent(&mut self, stamp: &Stamp, members: u32) {
        self.broadcasts.extend(stamp.broadcast().map(|broadcast| (broadcast, members)));
    }

    /// Notes that a member handles a message at `now`.
    pub(crate) fn handled(&mut self, stamp: Option<&Stamp>, now: Time) {
        self.last_handled = now;
        let Some(broadcast) = stamp.and_then(Stamp::broadcast) else { return };
        if let Some(missing) = self.broadcasts.get_mut(&broadcast) {
            *missing -= 1;
            if *missing == 0 {
                self.broadcasts.remove(&broadcast);
            }
        }
    }

    pub(crate) fn inserted(&mut self, index: i32) {
        self.insertions.insert(index);
    }

    pub(crate) fn created(&mut self, index: i32) {
        self.insertions.remove(&index);
    }

    /// Time of the job at which the last message of this run was handled.
    pub(crate) fn last_handled(&self) -> Time {
        self.last_handled
    }

    /// The activities under way in a stopped run with this unfinished work and these stores.
    pub(crate) fn under_way(
        &self,
        pending: &PendingWork,
        stores: &[CheckpointStore],
        is_change_requested: bool,
    ) -> BTreeSet<LossPhase> {
        let is_begun_as = |begun| self.begun == begun && !self.is_restored;
        let holdings = stores.iter().flat_map(CheckpointStore::holdings);
        let is_kept_incomplete = holdings.into_iter().any(|holding| holding.manifest.is_none());
        let found = [
            (LossPhase::Checkpoint, self.is_at_checkpoint || is_kept_incomplete),
            (LossPhase::Recovery, is_begun_as(Begun::AfterLoss)),
            (LossPhase::Migration, pending.departing + pending.arriving > 0),
            (LossPhase::Reduction, pending.reductions > 0),
            (LossPhase::Broadcast, !self.broadcasts.is_empty()),
            (LossPhase::Creation, !self.insertions.is_empty()),
            (LossPhase::Steal, self.are_tasks_taken),
            (LossPhase::Handover, is_change_requested || is_begun_as(Begun::AfterChange)),
        ];
        let mut phases: BTreeSet<LossPhase> =
            found.into_iter().filter(|(_, is_it)| *is_it).map(|(phase, _)| phase).collect();
        if phases.is_empty() && pending.busy == 0 {
            phases.insert(LossPhase::Idle);
        }
        phases
    }
}
