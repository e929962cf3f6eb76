//! Who numbers the broadcasts of a collection: the root, or a PE that has the right for a time. How
//! it passes is told in `pe/collective/sequencer.rs`.

use crate::id::{ActorId, CollectionId};
use crate::pe::PlantedFault;
use crate::wire::SequencerRight;
use gridspan_topology::PeId;
use std::collections::{BTreeMap, BTreeSet};

/// A PE gets the right after so many requests in a row, so that its third broadcast is the first
/// that it numbers itself.
const ROW_MIN: u64 = 2;
/// And after so many at most, however often it had to give the right back soon.
const ROW_MAX: u64 = 64;

/// What the root knows of it.
#[derive(Debug)]
pub(crate) struct Sequencer {
    /// Who has the right, and whether it was asked to give it back.
    holder: Option<(PeId, bool)>,
    /// How often the right was granted.
    term: u64,
    /// The number that was next when it was granted last.
    granted: u64,
    /// Who has asked last, and how often in a row.
    row: Option<(PeId, u64)>,
    /// How many in a row it takes.
    row_min: u64,
}

impl Default for Sequencer {
    fn default() -> Self {
        Self { holder: None, term: 0, granted: 0, row: None, row_min: ROW_MIN }
    }
}

impl Sequencer {
    /// Whether a PE has the right.
    pub(crate) fn is_away(&self) -> bool {
        self.holder.is_some()
    }

    /// A PE asks for a number. It is of no use to one with several requests under way, the next of
    /// which would take it back.
    pub(crate) fn note(&mut self, from: PeId, is_alone: bool) {
        self.row = match self.row {
            _ if !is_alone => None,
            Some((pe, count)) if pe == from => Some((pe, count + 1)),
            _ => Some((from, 1)),
        };
    }

    /// The root numbers a broadcast of its own.
    pub(crate) fn break_row(&mut self) {
        self.row = None;
    }

    /// Grants the right to a PE if it has asked often enough in a row; `next` is the next number.
    /// Returns the term.
    pub(crate) fn grant(&mut self, to: PeId, next: u64) -> Option<u64> {
        let is_earned = self.row.is_some_and(|(pe, row)| pe == to && row >= self.row_min);
        if !is_earned || self.is_away() {
            return None;
        }
        (self.holder, self.granted) = (Some((to, false)), next);
        self.term += 1;
        Some(self.term)
    }

    /// Whom to ask for the right, and of which term, unless that was asked before.
    pub(crate) fn recall(&mut self) -> Option<(PeId, u64)> {
        let (holder, is_recalled) = self.holder.as_mut()?;
        (!std::mem::replace(is_recalled, true)).then_some((*holder, self.term))
    }

    /// The right comes back. Returns false if nobody has that of this term.
    pub(crate) fn returned(&mut self, term: u64, next: u64) -> bool {
        if self.term != term || self.holder.take().is_none() {
            return false;
        }
        self.row = None;
        // Each number saved its sender a round trip, and to take the right back costs one.
        self.row_min = match next.saturating_sub(self.granted) >= self.row_min {
            true => ROW_MIN,
            false => ROW_MAX.min(2 * self.row_min),
        };
        true
    }
}

/// The rights that a PE has.
#[derive(Default)]
pub(crate) struct Rights {
    held: BTreeMap<CollectionId, SequencerRight>,
    /// The last term of each collection that was to be given back.
    recalled: BTreeMap<CollectionId, u64>,
    /// Collections of which this PE wants no right.
    renounced: BTreeSet<CollectionId>,
}

impl Rights {
    /// A right is granted. Returns it if it was asked for before it came, or is not wanted.
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

    /// The right of a term is to be given back. `None` if it has not come.
    pub(crate) fn recall(
        &mut self,
        collection: CollectionId,
        term: u64,
        fault: PlantedFault,
    ) -> Option<SequencerRight> {
        self.recalled.insert(collection, term);
        match fault {
            PlantedFault::RightKept => self.held.get(&collection).cloned(),
            _ => self.held.remove(&collection),
        }
    }

    /// This PE wants the right to a collection no more. Returns that which it has.
    pub(crate) fn renounce(&mut self, collection: CollectionId) -> Option<SequencerRight> {
        self.renounced.insert(collection);
        self.held.remove(&collection)
    }

    pub(crate) fn has_renounced(&self, collection: CollectionId) -> bool {
        self.renounced.contains(&collection)
    }

    /// Numbers the broadcast of this count of a sender, if this PE may: the sender's one before
    /// must have its number. The first of a sender that `has_moved` goes to the root: it may follow
    /// an insertion that was asked for elsewhere.
    pub(crate) fn number(
        &mut self,
        collection: CollectionId,
        (source, count): (ActorId, u64),
        has_moved: bool,
    ) -> Option<u64> {
        let right = self.held.get_mut(&collection)?;
        let come = match right.come.get(&source) {
            Some(&come) => come,
            None if has_moved => return None,
            None => 0,
        };
        if come + 1 != count {
            return None;
        }
        right.come.insert(source, count);
        right.next += 1;
        Some(right.next - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Key;

    const FAMILY: CollectionId = CollectionId(3);

    fn actor(key: u128) -> ActorId {
        ActorId { collection: FAMILY, key: Key(key) }
    }

    #[test]
    fn the_right_goes_to_who_asks_alone_and_less_soon_after_it_was_of_no_use() {
        let mut sequencer = Sequencer::default();
        sequencer.note(PeId(4), true);
        assert_eq!(sequencer.grant(PeId(4), 1), None);
        sequencer.note(PeId(5), true);
        sequencer.note(PeId(4), true);
        assert_eq!(sequencer.grant(PeId(4), 3), None, "another has asked between");
        sequencer.note(PeId(4), false);
        assert_eq!(sequencer.grant(PeId(4), 4), None, "the next request would take it back");
        (0..2).for_each(|_| sequencer.note(PeId(4), true));
        assert_eq!(sequencer.grant(PeId(4), 4), Some(1));
        assert_eq!(sequencer.recall(), Some((PeId(4), 1)));
        assert_eq!(sequencer.recall(), None, "once is enough");
        assert!(!sequencer.returned(2, 5) && sequencer.returned(1, 5));
        (0..3).for_each(|_| sequencer.note(PeId(4), true));
        assert_eq!(sequencer.grant(PeId(4), 8), None, "it was of no use before");
        sequencer.note(PeId(4), true);
        assert_eq!(sequencer.grant(PeId(4), 9), Some(2));
        assert!(sequencer.returned(2, 1000));
        (0..2).for_each(|_| sequencer.note(PeId(4), true));
        assert_eq!(sequencer.grant(PeId(4), 1002), Some(3));
    }

    #[test]
    fn a_pe_numbers_what_follows_on_what_has_a_number() {
        let mut rights = Rights::default();
        let come = BTreeMap::from([(actor(1), 5)]);
        let right = SequencerRight { term: 1, next: 70, come };
        assert_eq!(rights.number(FAMILY, (actor(2), 1), false), None, "no right");
        assert_eq!(rights.grant(FAMILY, right), None);
        assert_eq!(rights.number(FAMILY, (actor(1), 6), false), Some(70));
        assert_eq!(rights.number(FAMILY, (actor(1), 8), false), None, "one is missing");
        assert_eq!(rights.number(FAMILY, (actor(2), 3), false), None, "others may be on their way");
        assert_eq!(
            rights.number(FAMILY, (actor(2), 1), true),
            None,
            "it may have inserted another"
        );
        assert_eq!(rights.number(FAMILY, (actor(2), 1), false), Some(71));
        assert_eq!(rights.number(FAMILY, (actor(2), 2), true), Some(72));

        let back = rights.recall(FAMILY, 1, PlantedFault::None).unwrap();

        assert_eq!((back.term, back.next), (1, 73));
        assert_eq!(back.come, BTreeMap::from([(actor(1), 6), (actor(2), 2)]));
        assert_eq!(rights.number(FAMILY, (actor(1), 7), false), None);
    }

    #[test]
    fn a_right_that_comes_after_its_recall_goes_back() {
        let mut rights = Rights::default();
        assert_eq!(rights.recall(FAMILY, 2, PlantedFault::None), None);
        let right = SequencerRight { term: 2, next: 1, come: BTreeMap::new() };
        assert_eq!(rights.grant(FAMILY, right.clone()), Some(right));
        assert_eq!(rights.number(FAMILY, (actor(1), 1), false), None);
    }
}
