//! A base collection and its bound collections, in the reference model.

use gridspan_runtime::{ActorId, CollectionId};

/// A base collection, and those that are bound to it.
#[derive(Debug, Default)]
pub(super) struct Bonds {
    /// The base first.
    collections: Vec<CollectionId>,
    /// Whether another bound collection is being created, which needs all members of the base.
    pub(super) is_growing: bool,
}

impl Bonds {
    pub(super) fn add(&mut self, collection: CollectionId) {
        self.collections.push(collection);
    }

    /// The members of the other collections with the index of `id`, whether they exist or not.
    /// Empty if the collection of `id` is not one of these.
    pub(super) fn others(&self, id: ActorId) -> impl Iterator<Item = ActorId> {
        let is_bound = self.collections.contains(&id.collection);
        let others =
            self.collections.iter().filter(move |&&other| is_bound && other != id.collection);
        others.map(move |&collection| ActorId { collection, ..id })
    }

    pub(super) fn base(&self) -> Option<CollectionId> {
        self.collections.first().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_runtime::Key;

    #[test]
    fn partners_of_a_member_have_its_index_in_the_other_collections() {
        let member = |collection| ActorId { collection: CollectionId(collection), key: Key(7) };
        let mut bonds = Bonds::default();
        [4, 9, 6].into_iter().for_each(|collection| bonds.add(CollectionId(collection)));

        let others: Vec<ActorId> = bonds.others(member(9)).collect();

        assert_eq!(others, [member(4), member(6)]);
        assert_eq!(bonds.others(member(5)).count(), 0);
        assert_eq!(bonds.base(), Some(CollectionId(4)));
    }
}
