//! Which members are bound to each other.

use crate::address::id::{ActorId, CollectionId};
use crate::message::Edge;
use crate::pe::core::Core;

impl Core {
    pub(in crate::pe) fn is_bound(&self, collection: CollectionId) -> bool {
        self.collections.get(collection).is_some_and(|local| local.base.is_some())
    }

    /// The member to which an actor is bound, or the actor itself. Partners are one unit for
    /// balancing, under this identity.
    pub(in crate::pe) fn base_of(&self, id: ActorId) -> ActorId {
        let base = self.collections.get(id.collection).and_then(|local| local.base);
        base.map_or(id, |collection| ActorId { collection, ..id })
    }

    /// The base of the actor, and then all members bound to it, whether they exist or not.
    pub(in crate::pe) fn partners(&self, id: ActorId) -> Vec<ActorId> {
        let base = self.base_of(id);
        let local = self.collections.get(base.collection);
        let bound = local.into_iter().flat_map(|local| &local.bound);
        let bound = bound.map(|&collection| ActorId { collection, ..base });
        std::iter::once(base).chain(bound).collect()
    }

    /// The members that end with this one: itself and those bound to it.
    pub(in crate::pe) fn ending_with(&self, id: ActorId) -> Vec<ActorId> {
        match self.is_bound(id.collection) {
            true => vec![id],
            false => self.partners(id),
        }
    }

    /// Replaces the ends of edges by the units to which they belong. Edges keep their positions, so
    /// several may have equal ends afterwards.
    pub(in crate::pe) fn join_edges(&self, edges: &mut [Edge]) {
        if self.collections.has_bound() {
            for edge in edges {
                (edge.from, edge.to) = (self.base_of(edge.from), self.base_of(edge.to));
            }
        }
    }
}
