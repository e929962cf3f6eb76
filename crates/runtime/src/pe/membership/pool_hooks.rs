//! The hooks of pools: what a PE calls when something happens to nodes or places.

use crate::address::id::CollectionId;
use crate::message::MembershipEvent;
use crate::message::envelope::AnyEnvelope;
use gridspan_topology::{Layout, NodeId};
use serde::{Deserialize, Serialize};

/// An event for the workers of pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PoolEvent {
    /// Another node joins or is gone; or this node is a guest, and becomes active or drains.
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
