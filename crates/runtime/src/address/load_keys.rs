//! Actors by the names that strategies know them by.

use crate::address::id::{ActorId, CollectionId};
use crate::address::index::Key;
use gridspan_balance::ActorKey;

/// An actor as strategies know it.
pub(crate) fn key_of(id: ActorId) -> ActorKey {
    ActorKey { collection: id.collection.0, index: id.key.0 }
}

/// An actor as the runtime knows it.
pub(crate) fn id_of(key: ActorKey) -> ActorId {
    ActorId { collection: CollectionId(key.collection), key: Key(key.index) }
}
