//! Which nodes have joined a running job, as one PE knows, and who is told of it.

use crate::address::id::CollectionId;
use crate::message::envelope::AnyEnvelope;
use crate::message::{MembershipEvent, Stage};
use gridspan_topology::{Layout, NodeId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What the workers of pools are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PoolEvent {
    /// Another node joins or is gone, or this one, which has joined, is active or draining.
    Membership(MembershipEvent),
    /// The places were measured.
    Measured,
}

/// Tells the member of a collection on a PE.
pub(crate) type Tell<C> = fn(&mut C, CollectionId, PoolEvent);

/// Whether a worker message may come from another node.
pub(crate) type IsAllowed = fn(&Layout, NodeId, &dyn AnyEnvelope) -> bool;

/// How the member of a collection on a PE works with other nodes.
pub(crate) struct PoolHooks<C> {
    pub(crate) tell: Tell<C>,
    pub(crate) is_allowed: IsAllowed,
}

// Not derived, which would ask it of `C`.
impl<C> Clone for PoolHooks<C> {
    fn clone(&self) -> Self {
        Self { tell: self.tell, is_allowed: self.is_allowed }
    }
}

/// What a PE knows of nodes that join. Only the first PE of a node knows who is present.
pub(crate) struct Membership<C> {
    /// Those that take part, as the nodes of the layout know.
    pub(crate) present: BTreeSet<NodeId>,
    /// Those that are gone: what comes of them late is dropped.
    pub(crate) gone: BTreeSet<NodeId>,
    /// The collections whose members here share work with other nodes.
    pub(crate) pools: BTreeMap<CollectionId, PoolHooks<C>>,
    /// Where nodes can be reached that were announced since the driver asked last.
    pub(crate) contacts: Vec<(NodeId, String)>,
    /// How far this node has come, if it joined.
    pub(crate) stage: Stage,
    /// While this node drains: the collections that still have something to do.
    pub(crate) draining: BTreeSet<CollectionId>,
}

impl<C> Default for Membership<C> {
    fn default() -> Self {
        Self {
            present: BTreeSet::new(),
            gone: BTreeSet::new(),
            pools: BTreeMap::new(),
            contacts: Vec::new(),
            stage: Stage::Joining,
            draining: BTreeSet::new(),
        }
    }
}
