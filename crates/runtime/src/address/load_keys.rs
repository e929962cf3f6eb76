//! Conversion between the actor identifiers of the runtime and those of strategies.

use crate::address::id::{ActorId, CollectionId};
use crate::address::index::Key;
use gridspan_balance::ActorKey;

/// Returns the identifier that strategies use for an actor.
pub(crate) fn key_of(id: ActorId) -> ActorKey {
    ActorKey { collection: id.collection.0, index: id.key.0 }
}

/// Returns the identifier that the runtime uses for an actor.
pub(crate) fn id_of(key: ActorKey) -> ActorId {
    ActorId { collection: CollectionId(key.collection), key: Key(key.index) }
}
