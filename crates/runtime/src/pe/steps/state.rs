//! State of a PE for the order of messages of steps.

use crate::address::id::ActorId;
use crate::pe::rank::FAR;
use rustc_hash::FxHashMap;

/// The hops of actors to another site. Empty in jobs without steps.
#[derive(Default)]
pub(crate) struct Steps {
    is_used: bool,
    /// Hops from each resident or arriving actor to another site.
    hops: FxHashMap<ActorId, u8>,
}

impl Steps {
    /// Notes a message of a step. Returns whether it is the first one.
    pub(super) fn begin(&mut self) -> bool {
        !std::mem::replace(&mut self.is_used, true)
    }

    /// Sets the hops of actors to another site.
    pub(super) fn learn(&mut self, hops: Vec<(ActorId, u8)>) {
        self.hops = hops.into_iter().collect();
    }

    /// The hops of an actor to another site, or [`FAR`] if they are not known.
    pub(crate) fn hops(&self, id: ActorId) -> u8 {
        self.hops.get(&id).copied().unwrap_or(FAR)
    }
}
