//! The nodes that have joined a running job, as one PE knows them.

use crate::address::id::CollectionId;
use crate::message::Stage;
use crate::pe::membership::pool_hooks::PoolHooks;
use gridspan_topology::{Layout, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// A PE's knowledge of nodes that join. Only the first PE of a node knows which are present.
pub(crate) struct Membership<C> {
    /// The guests that take part. Known on founders only.
    pub(crate) present: BTreeSet<NodeId>,
    /// The guests that are gone, and the founders that are suspended or lost: they take no tasks.
    pub(crate) gone: BTreeSet<NodeId>,
    /// The founders that are about to leave, and take no tasks. Only the first PE of a node knows
    /// them.
    pub(crate) resting: BTreeSet<NodeId>,
    /// The collections whose members here share work with other nodes.
    pub(crate) pools: BTreeMap<CollectionId, PoolHooks<C>>,
    /// The stage of this node, if it joined.
    pub(crate) stage: Stage,
    /// While this node drains: the collections that still have work.
    pub(crate) draining: BTreeSet<CollectionId>,
}

impl<C> Membership<C> {
    /// The founders that are suspended or lost.
    pub(crate) fn lost_founders(&self, layout: &Layout) -> impl Iterator<Item = NodeId> {
        self.gone.iter().copied().filter(|&node| !layout.is_guest(node))
    }
}

impl<C> Default for Membership<C> {
    fn default() -> Self {
        Self {
            present: BTreeSet::new(),
            gone: BTreeSet::new(),
            resting: BTreeSet::new(),
            pools: BTreeMap::new(),
            stage: Stage::Joining,
            draining: BTreeSet::new(),
        }
    }
}
