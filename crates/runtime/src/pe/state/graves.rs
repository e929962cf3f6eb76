//! What a PE keeps of members that are no more.

use super::channel::Channels;
use crate::id::ActorId;
use crate::wire::Insertion;
use gridspan_topology::Time;
use std::collections::BTreeMap;

/// The graves whose home a PE is.
#[derive(Default)]
pub(crate) struct Graves {
    pub(crate) graves: BTreeMap<ActorId, Box<Channels>>,
    /// Insertions that wait for news of an end, and since when.
    pub(crate) insertions: BTreeMap<ActorId, (Time, Box<Insertion>)>,
}

impl Graves {
    /// How many messages wait here for an earlier one.
    pub(crate) fn held(&self) -> u64 {
        self.graves.values().map(|channels| channels.held.len() as u64).sum()
    }
}
