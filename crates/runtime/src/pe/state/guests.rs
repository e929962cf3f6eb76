//! Who takes part beside the founders, as one PE knows.

use crate::address::id::CollectionId;
use crate::message::envelope::AnyEnvelope;
use gridspan_topology::{Layout, NodeId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What those are told who share work with guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Notice {
    /// A guest takes part.
    Came,
    /// A guest is gone with all that it owes.
    Gone(NodeId),
    /// The places were measured.
    Measured,
    /// This node is a guest, and everybody knows it.
    Begin,
    /// This node is a guest, and is to hand back what it can.
    Leave,
}

/// Tells the member of a collection on a PE.
pub(crate) type Tell<C> = fn(&mut C, CollectionId, Notice);

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

/// What a PE knows of guests. Only the first PE of a node knows who is present.
pub(crate) struct Guests<C> {
    /// Those that take part, as founders know.
    pub(crate) present: BTreeSet<NodeId>,
    /// Those that are gone: what comes of them late is for nobody.
    pub(crate) gone: BTreeSet<NodeId>,
    /// The collections whose members here share work with other nodes.
    pub(crate) pools: BTreeMap<CollectionId, PoolHooks<C>>,
    /// Where guests can be reached that were heard of since the driver asked last.
    pub(crate) contacts: Vec<(NodeId, String)>,
    /// Where this node is in its visit, if it is a guest.
    pub(crate) visit: Visiting,
}

impl<C> Default for Guests<C> {
    fn default() -> Self {
        Self {
            present: BTreeSet::new(),
            gone: BTreeSet::new(),
            pools: BTreeMap::new(),
            contacts: Vec::new(),
            visit: Visiting::Coming,
        }
    }
}

/// How far the visit of a guest has come, as it knows itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Visiting {
    /// Not everybody knows it.
    Coming,
    /// It can ask for tasks.
    Working,
    /// It hands back what it can; these collections still have something.
    Leaving(BTreeSet<CollectionId>),
}
