//! The nodes that have joined a running job, as one PE knows them, and the hooks that are notified.

use crate::address::id::CollectionId;
use crate::message::envelope::AnyEnvelope;
use crate::message::{MembershipEvent, Stage};
use gridspan_topology::{Layout, NodeId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// An event for the workers of pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PoolEvent {
    /// Another node joins or is gone; or this node, which has joined, becomes active or drains.
    Membership(MembershipEvent),
    /// The places have been measured.
    Measured,
}

/// Notifies the member of a collection on a PE.
pub(crate) type Tell<C> = fn(&mut C, CollectionId, PoolEvent);

/// Whether a worker message may come from another node.
pub(crate) type IsAllowed = fn(&Layout, NodeId, &dyn AnyEnvelope) -> bool;

/// The open tasks of a pool on a PE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OpenTasks {
    /// Number of tasks that were handed in here and are not done.
    pub(crate) roots: u64,
    /// Number of frames that wait for outputs.
    pub(crate) frames: u64,
    /// Number of tasks that are ready to run.
    pub(crate) ready: u64,
}

/// The hooks of a collection whose member on this PE works with other nodes.
pub(crate) struct PoolHooks<C> {
    pub(crate) tell: Tell<C>,
    pub(crate) is_allowed: IsAllowed,
    /// The open tasks that the member has reported last.
    pub(crate) open: OpenTasks,
}

// Not derived, since the derive would require `C: Clone`.
impl<C> Clone for PoolHooks<C> {
    fn clone(&self) -> Self {
        let Self { tell, is_allowed, open } = *self;
        Self { tell, is_allowed, open }
    }
}

/// A PE's knowledge of nodes that join. Only the first PE of a node knows which are present.
pub(crate) struct Membership<C> {
    /// The guests that take part. Known on founders only.
    pub(crate) present: BTreeSet<NodeId>,
    /// The guests that are gone, and the founders that are suspended or lost: they take no tasks.
    pub(crate) gone: BTreeSet<NodeId>,
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
            pools: BTreeMap::new(),
            stage: Stage::Joining,
            draining: BTreeSet::new(),
        }
    }
}
