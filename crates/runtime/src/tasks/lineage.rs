//! Which guests a task has come through, so that all nodes drop it when one of them is gone.
//!
//! The output of a task goes back the way it came. If it came through a guest that is gone, nobody
//! waits for it: the founder that lent to that guest has its task done again. Such an orphan may be
//! anywhere, since guests, founders and PEs lend on what they were lent. So each task carries its
//! *lineage*, the set of guests on its way, and the news that a guest is gone suffices to know its
//! orphans: no node has to ask who borrowed from it, however often they were lent on.
//!
//! A lineage saves work and decides no result: an orphan that is not known as one finds no frame in
//! the end. So lineages may be cut short where they would take too much memory.

use gridspan_topology::NodeId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Guests in a lineage, at most. Tasks pass through few: each theft takes an older and larger part
/// of the tree, and a chain of thefts is about as long as the logarithm of the tree.
pub(super) const LINEAGE_MAX: usize = 32;
/// Lineages that a node tells apart in a pool, at most: 64 Ki of them take 20 MB at the worst.
const LINEAGES_MAX: usize = 64 << 10;

/// Names a lineage within the pool of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LineageId(u32);

impl LineageId {
    /// That of tasks that have come through no guest.
    pub(super) const FOUNDERS: Self = Self(0);
}

/// The lineages of the tasks of a pool on one node. Its PEs and its steward share them.
#[derive(Default)]
pub(super) struct Lineages(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// By number less one: those of [`LineageId::FOUNDERS`] are not here.
    sets: Vec<BTreeSet<NodeId>>,
    numbers: BTreeMap<BTreeSet<NodeId>, LineageId>,
    gone: BTreeSet<NodeId>,
}

impl Lineages {
    /// The lineage of tasks that have come through these guests; `None` if one of them is gone.
    pub(super) fn enter(&self, guests: impl IntoIterator<Item = NodeId>) -> Option<LineageId> {
        let set: BTreeSet<NodeId> = guests.into_iter().take(LINEAGE_MAX).collect();
        if set.is_empty() {
            return Some(LineageId::FOUNDERS);
        }
        let mut known = self.known();
        if !known.gone.is_disjoint(&set) {
            return None;
        }
        if let Some(&number) = known.numbers.get(&set) {
            return Some(number);
        }
        if known.sets.len() == LINEAGES_MAX {
            return Some(LineageId::FOUNDERS);
        }
        known.sets.push(set.clone());
        let number = LineageId(known.sets.len() as u32);
        known.numbers.insert(set, number);
        Some(number)
    }

    /// The guests of a lineage.
    pub(super) fn guests(&self, lineage: LineageId) -> Vec<NodeId> {
        if lineage == LineageId::FOUNDERS {
            return Vec::new();
        }
        self.known().guests(lineage).iter().copied().collect()
    }

    /// Whether nobody waits for tasks of this lineage any more.
    pub(super) fn is_orphaned(&self, lineage: LineageId) -> bool {
        lineage != LineageId::FOUNDERS && {
            let known = self.known();
            !known.guests(lineage).is_disjoint(&known.gone)
        }
    }

    /// A guest is gone.
    pub(super) fn note_gone(&self, guest: NodeId) {
        self.known().gone.insert(guest);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn guests(&self, LineageId(number): LineageId) -> &BTreeSet<NodeId> {
        &self.sets[number as usize - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeId = NodeId(7);
    const B: NodeId = NodeId(8);
    const C: NodeId = NodeId(9);

    #[test]
    fn all_lineages_with_a_guest_that_is_gone_are_orphaned_and_no_other_is() {
        let lineages = Lineages::default();
        let [a, b, ab, ba] = [&[A][..], &[B], &[A, B], &[B, A]]
            .map(|guests| lineages.enter(guests.iter().copied()).unwrap());
        assert_eq!(ab, ba);
        assert_eq!(lineages.guests(ab), [A, B]);
        lineages.note_gone(A);
        assert_eq!([a, b, ab].map(|lineage| lineages.is_orphaned(lineage)), [true, false, true]);
        assert!(!lineages.is_orphaned(LineageId::FOUNDERS));
        assert_eq!(lineages.enter([C, A]), None);
        assert!(lineages.enter([C, B]).is_some());
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let lineages = Lineages::default();
        let many = lineages.enter((0..1000).map(NodeId)).unwrap();
        assert_eq!(lineages.guests(many).len(), LINEAGE_MAX);
        let pair = |number: u32| [NodeId(number), NodeId(number + 1)];
        for number in 0..LINEAGES_MAX as u32 {
            lineages.enter(pair(number)).unwrap();
        }
        assert_eq!(lineages.enter([A, C]), Some(LineageId::FOUNDERS));
        assert_eq!(lineages.guests(lineages.enter(pair(3)).unwrap()), pair(3));
    }
}
