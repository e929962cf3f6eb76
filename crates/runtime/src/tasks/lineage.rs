//! The guests and copies that a task has come through, so that all nodes drop it when no frame
//! waits for it any more.
//!
//! The output of a task goes back the way the task came. If it came through a guest that is gone,
//! no frame waits for it: the founder that lent to that guest runs the lent tasks again. The same
//! holds for a loan of which another copy was done first (`backups`). Such an orphan may be on any
//! node, since guests, founders and PEs pass loans on. So each task carries its *lineage*, the set
//! of guests and copies on its way, and the news that one of them is gone suffices to find its
//! orphans: no node has to ask which nodes borrowed from it, however often loans were passed on.
//!
//! If a job can go on after the loss of a founder, every founder adds a copy to the lineage of each
//! loan that it makes to a founder. So lineages show which tasks a lost founder has lent, and no
//! other record is needed.
//!
//! A lineage saves work but decides no result: the output of an orphan that is not recognised finds
//! no frame. So lineages may be cut short where they would take too much memory. Whether tasks
//! repeat the work of others is noted beside the lineage and is never lost, since results depend on
//! it: such tasks prune by a worse bound (`bound`).

use crate::message::steal_agent::CopyId;
use gridspan_topology::NodeId;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A guest or a copy that tasks have come through; if it is gone, all nodes that hold such tasks
/// learn of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Via {
    Guest(NodeId),
    /// One copy of a loan that this founder made to another site.
    Copy(NodeId, CopyId),
}

/// In which ways tasks repeat the work of others. Tasks that they spawn, or call in other pools, do
/// so, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Repeats {
    /// Whether they are backups, while other nodes may work on the other copy.
    pub(super) is_backup: bool,
    /// Whether they run again after the loss of a node, so that no earlier output of them counts.
    pub(super) is_rerun: bool,
}

/// Maximum number of guests and copies in a lineage. Tasks pass through few: each theft takes an
/// older and larger part of the tree, and a chain of thefts is about as long as the logarithm of
/// the tree's size.
pub(super) const LINEAGE_MAX: usize = 32;
/// Maximum number of guests and copies in all lineages that a node distinguishes in a pool. A
/// lineage is forgotten with its last loan; this many take 100 MB.
const VIAS_MAX: usize = 1 << 20;
/// Maximum number of gone copies that a node remembers. By the time that it forgets one, the tasks
/// of that copy have been dropped or have run to their end.
const GONE_MAX: usize = 64 << 10;

/// The name of a lineage within the pool of a node, valid as long as a loan of that lineage is
/// [`Held`], and the ways in which tasks of this name repeat others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LineageId(u32);

impl LineageId {
    /// The lineage of tasks that have come through no guest or copy, and repeat no others.
    pub(super) const FOUNDERS: Self = Self(0);
    /// The bit of backups. Every queued task stores a lineage ID, so the ID has only 32 bits.
    const BACKUP: u32 = 1 << 31;
    /// The bit of tasks that run again.
    const RERUN: u32 = 1 << 30;

    fn new(place: Option<usize>, repeats: Repeats) -> Self {
        let number = place.map_or(0, |place| place as u32 + 1);
        let bit = |is_set, bit| if is_set { bit } else { 0 };
        Self(number | bit(repeats.is_backup, Self::BACKUP) | bit(repeats.is_rerun, Self::RERUN))
    }

    /// The lineage of a root, which has come through no guest or copy.
    pub(super) fn of_root(repeats: Repeats) -> Self {
        Self::new(None, repeats)
    }

    /// The name of this lineage for tasks that run again.
    pub(super) fn rerun(self) -> Self {
        Self(self.0 | Self::RERUN)
    }

    /// The name of this lineage for tasks that repeat others in these ways, too.
    pub(super) fn with(self, repeats: Repeats) -> Self {
        Self(self.0 | Self::new(None, repeats).0)
    }

    /// The ways in which its tasks repeat others.
    pub(super) fn repeats(self) -> Repeats {
        Repeats { is_backup: self.is_backup(), is_rerun: self.0 & Self::RERUN != 0 }
    }

    /// Whether its tasks are backups.
    #[inline]
    pub(super) fn is_backup(self) -> bool {
        self.0 & Self::BACKUP != 0
    }

    /// Whether its tasks repeat others in any way.
    #[inline]
    pub(super) fn is_repeat(self) -> bool {
        self.0 & (Self::BACKUP | Self::RERUN) != 0
    }

    /// Returns the index of the lineage in `places`; `None` for tasks that have come through no
    /// guest or copy.
    fn place(self) -> Option<usize> {
        ((self.0 & (Self::RERUN - 1)) as usize).checked_sub(1)
    }
}

/// The lineages of the tasks of a pool on one node. The PEs and the agent of the node share them; a
/// clone refers to the same lineages.
#[derive(Clone, Default)]
pub(super) struct Lineages(Arc<Mutex<Known>>);

/// Keeps the name of a lineage from being used for another one.
pub(crate) struct Held {
    id: LineageId,
    /// The state that counts holders; `None` if nothing is held.
    known: Option<Arc<Mutex<Known>>>,
}

impl Held {
    pub(super) fn id(&self) -> LineageId {
        self.id
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(known) = &self.known {
            lock(known).release(self.id);
        }
    }
}

#[derive(Default)]
struct Known {
    /// The lineages. Tasks that have come through no guest or copy have none.
    places: Vec<Option<Lineage>>,
    free: Vec<usize>,
    /// The index of each lineage in `places`.
    numbers: BTreeMap<Arc<[Via]>, usize>,
    /// Sum of the lengths of all lineages.
    len: usize,
    gone: BTreeSet<Via>,
    /// The founders that are lost.
    lost: BTreeSet<NodeId>,
    /// The copies in `gone`, oldest first.
    gone_copies: VecDeque<Via>,
}

struct Lineage {
    /// Ascending and distinct.
    vias: Arc<[Via]>,
    /// Number of [`Held`] values.
    holders: usize,
}

impl Lineages {
    /// Returns the lineage of tasks that have come through all of `vias`, of which at most
    /// [`LINEAGE_MAX`] count, and that repeat others in these ways; `None` if any of these vias is
    /// gone.
    pub(super) fn enter(
        &self,
        vias: impl IntoIterator<Item = Via>,
        repeats: Repeats,
    ) -> Option<Held> {
        let set: BTreeSet<Via> = vias.into_iter().take(LINEAGE_MAX).collect();
        let vias: Vec<Via> = set.into_iter().collect();
        let mut known = lock(&self.0);
        if known.is_any_gone(&vias) {
            return None;
        }
        let place = known.enter(&vias);
        drop(known);
        Some(self.held(LineageId::new(place, repeats)))
    }

    /// Holds a lineage once more; `None` if no frame waits for its tasks.
    pub(super) fn hold(&self, id: LineageId) -> Option<Held> {
        if let Some(place) = id.place() {
            let mut known = lock(&self.0);
            if known.is_orphaned(id) {
                return None;
            }
            known.lineage(place)?.holders += 1;
        }
        Some(self.held(id))
    }

    fn held(&self, id: LineageId) -> Held {
        Held { id, known: id.place().is_some().then(|| self.0.clone()) }
    }

    /// Returns the guests and copies that tasks of a lineage have come through.
    pub(super) fn vias(&self, id: LineageId) -> Vec<Via> {
        if id.place().is_none() {
            return Vec::new();
        }
        lock(&self.0).vias(id).to_vec()
    }

    /// Whether no frame waits for tasks of this lineage any more.
    pub(super) fn is_orphaned(&self, id: LineageId) -> bool {
        id.place().is_some() && lock(&self.0).is_orphaned(id)
    }

    /// Whether no frame waits for tasks that have come through all of `vias`, because one of these
    /// is gone.
    pub(super) fn is_any_gone(&self, vias: &[Via]) -> bool {
        !vias.is_empty() && lock(&self.0).is_any_gone(vias)
    }

    /// Notes that no frame waits for tasks that have come through `via`. Returns whether this was
    /// unknown.
    pub(super) fn note_gone(&self, via: Via) -> bool {
        lock(&self.0).note_gone(via)
    }

    /// Notes that no frame waits for tasks that this founder has lent, because it is lost. If the
    /// job goes on, the lineages of these tasks contain copies of its loans.
    pub(super) fn note_lost(&self, founder: NodeId) {
        lock(&self.0).lost.insert(founder);
    }
}

impl Known {
    /// Returns the index of a lineage and holds it once more, or `None` if there are too many
    /// lineages.
    fn enter(&mut self, vias: &[Via]) -> Option<usize> {
        if let Some(&place) = self.numbers.get(vias) {
            if let Some(lineage) = self.lineage(place) {
                lineage.holders += 1;
            }
            return Some(place);
        }
        if vias.is_empty() || self.len + vias.len() > VIAS_MAX {
            return None;
        }
        self.len += vias.len();
        let vias: Arc<[Via]> = vias.into();
        let lineage = Some(Lineage { vias: vias.clone(), holders: 1 });
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                self.places.push(None);
                self.places.len() - 1
            }
        };
        self.places[place] = lineage;
        self.numbers.insert(vias, place);
        Some(place)
    }

    fn release(&mut self, id: LineageId) {
        let Some(place) = id.place() else { return };
        let Some(lineage) = self.lineage(place) else { return };
        lineage.holders -= 1;
        if lineage.holders == 0
            && let Some(Lineage { vias, .. }) = self.places[place].take()
        {
            self.len -= vias.len();
            self.numbers.remove(&vias);
            self.free.push(place);
        }
    }

    fn lineage(&mut self, place: usize) -> Option<&mut Lineage> {
        self.places.get_mut(place)?.as_mut()
    }

    fn vias(&self, id: LineageId) -> &[Via] {
        let lineage = id.place().and_then(|place| self.places.get(place)?.as_ref());
        lineage.map_or(&[], |lineage| &lineage.vias)
    }

    fn is_orphaned(&self, id: LineageId) -> bool {
        self.is_any_gone(self.vias(id))
    }

    fn is_any_gone(&self, vias: &[Via]) -> bool {
        let is_lost = |via: &Via| match via {
            Via::Copy(lender, _) => self.lost.contains(lender),
            Via::Guest(_) => false,
        };
        vias.iter().any(|via| self.gone.contains(via) || is_lost(via))
    }

    fn note_gone(&mut self, via: Via) -> bool {
        let is_news = self.gone.insert(via);
        if is_news && matches!(via, Via::Copy(..)) {
            self.gone_copies.push_back(via);
            if self.gone_copies.len() > GONE_MAX
                && let Some(oldest) = self.gone_copies.pop_front()
            {
                self.gone.remove(&oldest);
            }
        }
        is_news
    }
}

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Via = Via::Guest(NodeId(7));
    const B: Via = Via::Guest(NodeId(8));
    const C: Via = Via::Copy(NodeId(8), CopyId { loan: 1, is_backup: true });
    const NONE: Repeats = Repeats { is_backup: false, is_rerun: false };
    const RERUN: Repeats = Repeats { is_backup: false, is_rerun: true };

    #[test]
    fn exactly_the_lineages_with_a_gone_guest_are_orphaned() {
        let lineages = Lineages::default();
        let held = [&[A][..], &[B], &[A, B], &[B, A]]
            .map(|vias| lineages.enter(vias.iter().copied(), NONE).unwrap());
        let [a, b, ab, ba] = held.each_ref().map(Held::id);
        assert_eq!(ab, ba);
        assert_eq!(lineages.vias(ab), [A, B]);
        lineages.note_gone(A);
        assert_eq!([a, b, ab].map(|lineage| lineages.is_orphaned(lineage)), [true, false, true]);
        assert!(lineages.hold(a).is_none() && lineages.hold(b).is_some());
        assert!(!lineages.is_orphaned(LineageId::FOUNDERS));
        assert!(lineages.enter([C, A], NONE).is_none());
        assert!(lineages.enter([C, B], NONE).is_some());
    }

    #[test]
    fn tasks_that_run_again_share_the_vias_of_those_that_do_not() {
        let lineages = Lineages::default();
        let [first, again] = [NONE, RERUN].map(|it| lineages.enter([A], it).unwrap());
        assert_eq!(first.id().rerun(), again.id());
        assert_eq!([first.id(), again.id()].map(LineageId::repeats), [NONE, RERUN]);
        assert_eq!([first.id(), again.id()].map(LineageId::is_repeat), [false, true]);
        drop(again);
        // Held for the tasks that do not run again.
        assert_eq!(lineages.vias(first.id().rerun()), [A]);
        lineages.note_gone(A);
        assert!(lineages.is_orphaned(first.id().rerun()));
        drop(first);
        assert_eq!(lock(&lineages.0).len, 0);

        let root = LineageId::of_root(RERUN);
        assert_eq!((root.repeats(), root), (RERUN, LineageId::FOUNDERS.rerun()));
        assert!(lineages.hold(root).is_some() && !lineages.is_orphaned(root));
    }

    #[test]
    fn the_tasks_that_a_lost_founder_has_lent_are_orphans() {
        let lineages = Lineages::default();
        let copy = |node| Via::Copy(NodeId(node), CopyId { loan: 3, is_backup: false });
        let held = [&[copy(1)][..], &[copy(2)], &[copy(2), copy(1)]]
            .map(|vias| lineages.enter(vias.iter().copied(), NONE).unwrap());
        lineages.note_lost(NodeId(1));
        let are_orphans = held.each_ref().map(|held| lineages.is_orphaned(held.id()));
        assert_eq!(are_orphans, [true, false, true]);
        assert!(lineages.enter([copy(1)], NONE).is_none());
        assert!(lineages.hold(held[2].id()).is_none());
        assert!(lineages.is_any_gone(&[copy(2), copy(1)]) && !lineages.is_any_gone(&[copy(2)]));
    }

    #[test]
    fn a_lineage_is_forgotten_with_its_last_loan() {
        let lineages = Lineages::default();
        let copy = |loan| Via::Copy(NodeId(1), CopyId { loan, is_backup: false });
        // The sum of all their lengths exceeds the limit for lineages that are held at the same
        // time.
        for first in 0..(3 * VIAS_MAX / LINEAGE_MAX) as u64 {
            let set: Vec<Via> = (0..LINEAGE_MAX as u64).map(|next| copy(first + next)).collect();
            let held = lineages.enter(set.clone(), NONE).unwrap();
            let again = lineages.hold(held.id()).unwrap();
            drop(held);
            assert_eq!(lineages.vias(again.id()), set);
        }
        let known = lock(&lineages.0);
        assert_eq!((known.places.len(), known.numbers.len(), known.len), (1, 0, 0));
    }

    #[test]
    fn the_numbers_of_lineages_and_gone_copies_are_limited() {
        let lineages = Lineages::default();
        let guest = |number| Via::Guest(NodeId(number));
        let many = lineages.enter((0..1000).map(guest), RERUN).unwrap();
        assert_eq!(lineages.vias(many.id()).len(), LINEAGE_MAX);
        assert_eq!(many.id().repeats(), RERUN);
        let set = |number: u32| (0..LINEAGE_MAX as u32).map(move |next| guest(number + next));
        let most = (VIAS_MAX / LINEAGE_MAX) as u32;
        let enter = |number| lineages.enter(set(number), RERUN).unwrap();
        let held: Vec<_> = (1..=most).map(enter).collect();
        assert_eq!(held.last().map(Held::id), Some(LineageId::of_root(RERUN)));
        assert_eq!(lineages.vias(enter(3).id()), set(3).collect::<Vec<_>>());

        let copy = |loan| Via::Copy(NodeId(1), CopyId { loan, is_backup: false });
        lineages.note_gone(A);
        for loan in 0..=GONE_MAX as u64 {
            assert!(lineages.note_gone(copy(loan)));
        }
        assert!(!lineages.note_gone(A) && !lineages.note_gone(copy(1)));
        let enter = |loan| lineages.enter([copy(loan)], NONE);
        assert!(enter(0).is_some() && enter(1).is_none());
    }
}
