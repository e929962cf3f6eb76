//! State of guests.

use crate::address::id::CollectionId;
use crate::message::Stage;
use gridspan_topology::{NodeId, PeId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The nodes that have joined, and the pools of tasks that they may work for.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Members {
    /// All guests that have asked to join, including those that are gone.
    pub(crate) guests: BTreeMap<NodeId, Entry>,
    /// The pools that are open.
    pub(crate) pools: BTreeSet<CollectionId>,
    /// Whether the hierarchy was sent to all nodes.
    pub(crate) is_hierarchy_told: bool,
}

/// State of a guest.
#[derive(Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) pes: u32,
    pub(crate) stage: Stage,
    /// First PEs of the nodes that do not know the guest yet.
    pub(crate) awaited: BTreeSet<PeId>,
}

impl Members {
    /// Returns the guests that have members of the pools' collections, and their numbers of PEs.
    pub(crate) fn taking_part(&self) -> Vec<(NodeId, u32)> {
        let is_in = |stage| (Stage::Active..=Stage::Draining).contains(&stage);
        let known = self.guests.iter().filter(|(_, entry)| is_in(entry.stage));
        known.map(|(&guest, entry)| (guest, entry.pes)).collect()
    }

    /// Returns the guests up to this stage, and their numbers of PEs.
    pub(crate) fn up_to(&self, stage: Stage) -> Vec<(NodeId, u32)> {
        let known = self.guests.iter().filter(|(_, entry)| entry.stage <= stage);
        known.map(|(&guest, entry)| (guest, entry.pes)).collect()
    }
}
