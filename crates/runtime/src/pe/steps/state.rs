//! What a PE keeps for the order of messages of steps.

use crate::address::id::ActorId;
use crate::pe::rank::FAR;
use rustc_hash::FxHashMap;

/// Nothing in jobs without steps.
#[derive(Default)]
pub(crate) struct Steps {
    is_used: bool,
    /// Hops from each resident or arriving actor to another site.
    hops: FxHashMap<ActorId, u8>,
}

impl Steps {
    /// A message of a step is here. Returns whether it is the first one.
    pub(super) fn begin(&mut self) -> bool {
        !std::mem::replace(&mut self.is_used, true)
    }

    /// Learns how near actors are to another site.
    pub(super) fn learn(&mut self, hops: Vec<(ActorId, u8)>) {
        self.hops = hops.into_iter().collect();
    }

    /// How near an actor is to another site.
    pub(crate) fn hops(&self, id: ActorId) -> u8 {
        self.hops.get(&id).copied().unwrap_or(FAR)
    }
}
