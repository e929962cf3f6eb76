//! What a PE keeps of members that are no more.

use super::channels::Channels;
use crate::id::ActorId;
use crate::pe::state::TimerId;
use crate::wire::Insertion;
use std::collections::BTreeMap;

/// The tombstones of members whose home this PE is.
#[derive(Default)]
pub(crate) struct Tombstones {
    pub(crate) tombstones: BTreeMap<ActorId, Box<Channels>>,
    /// Insertions that wait for news of an end, and until when.
    pub(crate) insertions: BTreeMap<ActorId, (TimerId, Box<Insertion>)>,
}

impl Tombstones {
    /// How many messages wait here for an earlier one.
    pub(crate) fn held(&self) -> u64 {
        self.tombstones.values().map(|channels| channels.held.len() as u64).sum()
    }
}
