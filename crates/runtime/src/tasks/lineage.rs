//! What a task has come through, so that all nodes drop it when nobody waits for it any more.
//!
//! The output of a task goes back the way it came. If it came through a guest that is gone, nobody
//! waits for it: the founder that lent to that guest has its task done again. The same holds for a
//! loan of which another copy was done first (`backups`). Such an orphan may be anywhere, since
//! guests, founders and PEs lend on what they were lent. So each task carries its *lineage*, the
//! set of guests and copies on its way, and the news that one of them is gone suffices to know its
//! orphans: no node has to ask who borrowed from it, however often they were lent on.
//!
//! A lineage saves work and decides no result: an orphan that is not known as one finds no frame in
//! the end. So lineages may be cut short where they would take too much memory.

use gridspan_topology::NodeId;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Something that tasks have come through, and that all who were lent them hear of if it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Via {
    /// A guest.
    Guest(NodeId),
    /// One copy of a loan that this founder made to another site.
    Copy(NodeId, CopyId),
}

/// One of two copies of a loan of a node: the one that was lent, or the backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct CopyId {
    /// Names the loan among those of its node.
    pub(super) loan: u64,
    pub(super) is_backup: bool,
}

/// Guests and copies in a lineage, at most. Tasks pass through few: each theft takes an older and larger part
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
    sets: Vec<BTreeSet<Via>>,
    numbers: BTreeMap<BTreeSet<Via>, LineageId>,
    gone: BTreeSet<Via>,
}

impl Lineages {
    /// The lineage of tasks that have come through all of this; `None` if any of it is gone.
    pub(super) fn enter(&self, vias: impl IntoIterator<Item = Via>) -> Option<LineageId> {
        let set: BTreeSet<Via> = vias.into_iter().take(LINEAGE_MAX).collect();
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

    /// What tasks of a lineage have come through.
    pub(super) fn vias(&self, lineage: LineageId) -> Vec<Via> {
        if lineage == LineageId::FOUNDERS {
            return Vec::new();
        }
        self.known().vias(lineage).iter().copied().collect()
    }

    /// Whether tasks of this lineage are backups.
    pub(super) fn is_backup(&self, lineage: LineageId) -> bool {
        let is_backup = |via: &Via| matches!(via, Via::Copy(_, copy) if copy.is_backup);
        lineage != LineageId::FOUNDERS && self.known().vias(lineage).iter().any(is_backup)
    }

    /// Whether nobody waits for tasks of this lineage any more.
    pub(super) fn is_orphaned(&self, lineage: LineageId) -> bool {
        lineage != LineageId::FOUNDERS && {
            let known = self.known();
            !known.vias(lineage).is_disjoint(&known.gone)
        }
    }

    /// Nobody waits for what has come through this. Returns whether that is news.
    pub(super) fn note_gone(&self, via: Via) -> bool {
        self.known().gone.insert(via)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn vias(&self, LineageId(number): LineageId) -> &BTreeSet<Via> {
        &self.sets[number as usize - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Via = Via::Guest(NodeId(7));
    const B: Via = Via::Guest(NodeId(8));
    const C: Via = Via::Copy(NodeId(8), CopyId { loan: 1, is_backup: true });

    #[test]
    fn all_lineages_with_something_that_is_gone_are_orphaned_and_no_other_is() {
        let lineages = Lineages::default();
        let [a, b, ab, ba] = [&[A][..], &[B], &[A, B], &[B, A]]
            .map(|vias| lineages.enter(vias.iter().copied()).unwrap());
        assert_eq!(ab, ba);
        assert_eq!(lineages.vias(ab), [A, B]);
        lineages.note_gone(A);
        assert_eq!([a, b, ab].map(|lineage| lineages.is_orphaned(lineage)), [true, false, true]);
        assert!(!lineages.is_orphaned(LineageId::FOUNDERS));
        assert_eq!(lineages.enter([C, A]), None);
        assert!(lineages.enter([C, B]).is_some());
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let lineages = Lineages::default();
        let guest = |number| Via::Guest(NodeId(number));
        let many = lineages.enter((0..1000).map(guest)).unwrap();
        assert_eq!(lineages.vias(many).len(), LINEAGE_MAX);
        let pair = |number: u32| [guest(number), guest(number + 1)];
        for number in 0..LINEAGES_MAX as u32 {
            lineages.enter(pair(number)).unwrap();
        }
        assert_eq!(lineages.enter([A, C]), Some(LineageId::FOUNDERS));
        assert_eq!(lineages.vias(lineages.enter(pair(3)).unwrap()), pair(3));
    }
}
