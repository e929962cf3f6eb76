//! The right to number the broadcasts of a collection, as state of the PE that holds it.
//! `coordinator/sequencer.rs` explains how it is passed on.

use crate::address::id::{ActorId, CollectionId};
use crate::message::SequencerRight;
use crate::pe::PlantedFault;
use std::collections::{BTreeMap, BTreeSet};

/// The rights that a PE holds.
#[derive(Default)]
pub(crate) struct Rights {
    held: BTreeMap<CollectionId, SequencerRight>,
    /// The last recalled term of each collection.
    recalled: BTreeMap<CollectionId, u64>,
    /// Collections for which this PE accepts no right.
    renounced: BTreeSet<CollectionId>,
}

impl Rights {
    /// Stores a granted right. Returns it if it has been recalled already, or has been renounced.
    pub(crate) fn grant(
        &mut self,
        collection: CollectionId,
        right: SequencerRight,
    ) -> Option<SequencerRight> {
        let is_recalled = self.recalled.get(&collection).is_some_and(|&term| term >= right.term);
        if is_recalled || self.renounced.contains(&collection) {
            return Some(right);
        }
        self.held.insert(collection, right);
        None
    }

    /// Removes and returns the right of a recalled term, or `None` if it has not arrived. A right
    /// of a later term stays.
    pub(crate) fn recall(
        &mut self,
        collection: CollectionId,
        term: u64,
        fault: PlantedFault,
    ) -> Option<SequencerRight> {
        let recalled = self.recalled.entry(collection).or_default();
        *recalled = term.max(*recalled);
        if self.held.get(&collection).is_some_and(|right| right.term > term) {
            return None;
        }
        match fault {
            PlantedFault::RightKept => self.held.get(&collection).cloned(),
            _ => self.held.remove(&collection),
        }
    }

    /// Renounces the right for a collection. Returns the right if this PE holds it.
    pub(crate) fn renounce(&mut self, collection: CollectionId) -> Option<SequencerRight> {
        self.renounced.insert(collection);
        self.held.remove(&collection)
    }

    pub(crate) fn has_renounced(&self, collection: CollectionId) -> bool {
        self.renounced.contains(&collection)
    }

    /// Takes the next number for broadcast `count` of a sender, counted from one. Returns `None` if
    /// this PE does not hold the right, or does not know that the sender's previous broadcast has a
    /// number. If the sender `has_moved` and this PE knows no broadcast of it, returns `None` too:
    /// the broadcast may follow an insertion that was requested elsewhere.
    pub(crate) fn number(
        &mut self,
        collection: CollectionId,
        (source, count): (ActorId, u64),
        has_moved: bool,
    ) -> Option<u64> {
        let right = self.held.get_mut(&collection)?;
        let numbered = match right.numbered.get(&source) {
            Some(&numbered) => numbered,
            None if has_moved => return None,
            None => 0,
        };
        if numbered + 1 != count {
            return None;
        }
        right.numbered.insert(source, count);
        right.next += 1;
        Some(right.next - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::index::Key;

    const FAMILY: CollectionId = CollectionId(3);

    fn actor(key: u128) -> ActorId {
        ActorId { collection: FAMILY, key: Key(key) }
    }

    #[test]
    fn a_pe_numbers_a_broadcast_if_the_previous_one_has_a_number() {
        let mut rights = Rights::default();
        let numbered = BTreeMap::from([(actor(1), 5)]);
        let right = SequencerRight { term: 1, next: 70, numbered };
        assert_eq!(rights.number(FAMILY, (actor(2), 1), false), None, "no right");
        assert_eq!(rights.grant(FAMILY, right), None);
        assert_eq!(rights.number(FAMILY, (actor(1), 6), false), Some(70));
        assert_eq!(rights.number(FAMILY, (actor(1), 8), false), None, "the seventh has no number");
        assert_eq!(rights.number(FAMILY, (actor(2), 3), false), None, "the first two have none");
        assert_eq!(
            rights.number(FAMILY, (actor(2), 1), true),
            None,
            "the sender may have requested an insertion"
        );
        assert_eq!(rights.number(FAMILY, (actor(2), 1), false), Some(71));
        assert_eq!(rights.number(FAMILY, (actor(2), 2), true), Some(72));

        let back = rights.recall(FAMILY, 1, PlantedFault::None).unwrap();

        assert_eq!((back.term, back.next), (1, 73));
        assert_eq!(back.numbered, BTreeMap::from([(actor(1), 6), (actor(2), 2)]));
        assert_eq!(rights.number(FAMILY, (actor(1), 7), false), None);
    }

    #[test]
    fn a_late_recall_of_an_earlier_term_leaves_the_right() {
        let mut rights = Rights::default();
        let right = SequencerRight { term: 2, next: 7, numbered: BTreeMap::new() };
        assert_eq!(rights.grant(FAMILY, right.clone()), None);
        assert_eq!(rights.recall(FAMILY, 1, PlantedFault::None), None);
        assert_eq!(rights.recall(FAMILY, 2, PlantedFault::None), Some(right));
    }

    #[test]
    fn a_right_that_arrives_after_its_recall_is_returned() {
        let mut rights = Rights::default();
        assert_eq!(rights.recall(FAMILY, 2, PlantedFault::None), None);
        let right = SequencerRight { term: 2, next: 1, numbered: BTreeMap::new() };
        assert_eq!(rights.grant(FAMILY, right.clone()), Some(right));
        assert_eq!(rights.number(FAMILY, (actor(1), 1), false), None);
    }
}
