//! A PE's part in operations that involve many PEs; the other part is the coordinator's.

pub(in crate::pe) mod accumulator;
mod broadcast;
pub(in crate::pe) mod collections;
mod create;
mod direct;
mod lead;
pub(in crate::pe) mod leading;
mod phases;
mod quiescence;
mod reduction;
pub(in crate::pe) mod rights;
mod sequencer;
mod sync;
mod unordered;

pub(in crate::pe) use unordered::{Streams, is_stream};

use crate::Actor;
use crate::address::id::{CollectionId, Sender};
use crate::pe::actor::options::BroadcastOptions;
use crate::pe::core::Core;

impl Core {
    /// Sends a message to all members of a collection.
    pub(crate) fn broadcast_with<A: Actor>(
        &mut self,
        sender: Sender,
        collection: CollectionId,
        options: BroadcastOptions,
        message: A::Message,
    ) {
        let BroadcastOptions { priority, is_unordered } = options;
        match is_unordered {
            false => self.broadcast::<A>(sender, collection, priority, message),
            true => self.broadcast_unordered::<A>(sender, collection, priority, message),
        }
    }
}
