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
//! In a job that goes on without lost founders, every founder marks all of its loans to founders.
//! So the mark of a lost founder finds the tasks that it has lent, and no other record is needed.
//!
//! A lineage saves work but decides no result: an orphan that is not recognised finds no frame in
//! the end. So lineages may be cut short where they would take too much memory. But the output of
//! an orphan does not count, so a value of the pool's bound that it finds may not reach other
//! tasks, which would prune by it (`bound`).

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

impl Via {
    /// Whether this is the backup of a loan.
    pub(super) fn is_backup(&self) -> bool {
        matches!(self, Self::Copy(_, copy) if copy.is_backup)
    }
}

/// Maximum number of guests and copies in a lineage. Tasks pass through few: each theft takes an
/// older and larger part of the tree, and a chain of thefts is about as long as the logarithm of
/// the tree's size.
pub(super) const LINEAGE_MAX: usize = 32;
/// Maximum number of guests and copies in all lineages that a node distinguishes in a pool. A
/// lineage is forgotten with its last loan; this many take 100 MB.
const VIAS_MAX: usize = 1 << 20;
/// Maximum number of gone copies that are remembered: tasks of older ones have been dropped since,
/// or run to their end.
const GONE_MAX: usize = 64 << 10;

/// The name of a lineage within the pool of a node, valid as long as a loan of that lineage is
/// [`Held`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LineageId(u32);

impl LineageId {
    /// The lineage of tasks that have come through no guest or copy.
    pub(super) const FOUNDERS: Self = Self(0);
    /// The bit of backups. Every queued task has a lineage, so it has only 32 bits.
    const BACKUP: u32 = 1 << 31;

    fn new(place: usize, is_backup: bool) -> Self {
        Self((place as u32 + 1) | if is_backup { Self::BACKUP } else { 0 })
    }

    /// Whether tasks of this lineage are backups.
    #[inline]
    pub(super) fn is_backup(self) -> bool {
        self.0 & Self::BACKUP != 0
    }

    /// Returns the index of the lineage in `places`; `None` for [`LineageId::FOUNDERS`].
    fn place(self) -> Option<usize> {
        ((self.0 & !Self::BACKUP) as usize).checked_sub(1)
    }
}

/// The lineages of the tasks of a pool on one node. Its PEs and its agent share them; so do clones.
#[derive(Clone, Default)]
pub(super) struct Lineages(Arc<Mutex<Known>>);

/// Keeps the name of a lineage from being used for another one.
pub(crate) struct Held {
    id: LineageId,
    /// The state in which holders are counted; `None` for [`LineageId::FOUNDERS`].
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
    /// Lineages by number less one; [`LineageId::FOUNDERS`] has none.
    places: Vec<Option<Lineage>>,
    free: Vec<usize>,
    numbers: BTreeMap<Arc<[Via]>, LineageId>,
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
    /// [`LINEAGE_MAX`] count; `None` if any of these is gone.
    pub(super) fn enter(&self, vias: impl IntoIterator<Item = Via>) -> Option<Held> {
        let set: BTreeSet<Via> = vias.into_iter().take(LINEAGE_MAX).collect();
        let vias: Vec<Via> = set.into_iter().collect();
        let mut known = lock(&self.0);
        if known.is_any_gone(&vias) {
            return None;
        }
        let id = known.enter(&vias);
        drop(known);
        Some(self.held(id))
    }

    /// Holds a lineage once more; `None` if no frame waits for its tasks.
    pub(super) fn hold(&self, id: LineageId) -> Option<Held> {
        if id != LineageId::FOUNDERS {
            let mut known = lock(&self.0);
            if known.is_orphaned(id) {
                return None;
            }
            known.lineage(id)?.holders += 1;
        }
        Some(self.held(id))
    }

    fn held(&self, id: LineageId) -> Held {
        Held { id, known: (id != LineageId::FOUNDERS).then(|| self.0.clone()) }
    }

    /// Returns the guests and copies that tasks of a lineage have come through.
    pub(super) fn vias(&self, id: LineageId) -> Vec<Via> {
        if id == LineageId::FOUNDERS {
            return Vec::new();
        }
        lock(&self.0).vias(id).to_vec()
    }

    /// Whether no frame waits for tasks of this lineage any more.
    pub(super) fn is_orphaned(&self, id: LineageId) -> bool {
        id != LineageId::FOUNDERS && lock(&self.0).is_orphaned(id)
    }

    /// Runs `act` for a task of this lineage, unless no frame waits for the task. The loss of a
    /// founder is noted before or after `act`, not meanwhile. Once a founder is lost, a task whose
    /// lineage may be cut short counts as one for which no frame waits.
    pub(super) fn unless_orphaned<T>(&self, id: LineageId, act: impl FnOnce() -> T) -> Option<T> {
        if id == LineageId::FOUNDERS {
            return Some(act());
        }
        let known = lock(&self.0);
        let is_cut = !known.lost.is_empty() && known.vias(id).len() >= LINEAGE_MAX;
        (!is_cut && !known.is_orphaned(id)).then(act)
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

    /// Notes that no frame waits for tasks that this founder has lent, because it is lost. In a job
    /// that goes on without it, every founder marks its loans.
    pub(super) fn note_lost(&self, founder: NodeId) {
        lock(&self.0).lost.insert(founder);
    }
}

impl Known {
    /// Returns the name of a lineage and holds it once more, or [`LineageId::FOUNDERS`] if there
    /// are too many lineages.
    fn enter(&mut self, vias: &[Via]) -> LineageId {
        if let Some(&id) = self.numbers.get(vias) {
            if let Some(lineage) = self.lineage(id) {
                lineage.holders += 1;
            }
            return id;
        }
        if vias.is_empty() || self.len + vias.len() > VIAS_MAX {
            return LineageId::FOUNDERS;
        }
        self.len += vias.len();
        let is_backup = vias.iter().any(Via::is_backup);
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
        let id = LineageId::new(place, is_backup);
        self.numbers.insert(vias, id);
        id
    }

    fn release(&mut self, id: LineageId) {
        let Some(lineage) = self.lineage(id) else { return };
        lineage.holders -= 1;
        if lineage.holders == 0
            && let Some(place) = id.place()
            && let Some(Lineage { vias, .. }) = self.places[place].take()
        {
            self.len -= vias.len();
            self.numbers.remove(&vias);
            self.free.push(place);
        }
    }

    fn lineage(&mut self, id: LineageId) -> Option<&mut Lineage> {
        self.places.get_mut(id.place()?)?.as_mut()
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

    #[test]
    fn exactly_the_lineages_with_a_gone_guest_are_orphaned() {
        let lineages = Lineages::default();
        let held = [&[A][..], &[B], &[A, B], &[B, A]]
            .map(|vias| lineages.enter(vias.iter().copied()).unwrap());
        let [a, b, ab, ba] = held.each_ref().map(Held::id);
        assert_eq!(ab, ba);
        assert_eq!(lineages.vias(ab), [A, B]);
        lineages.note_gone(A);
        assert_eq!([a, b, ab].map(|lineage| lineages.is_orphaned(lineage)), [true, false, true]);
        assert!(lineages.hold(a).is_none() && lineages.hold(b).is_some());
        assert!(!lineages.is_orphaned(LineageId::FOUNDERS));
        assert!(lineages.enter([C, A]).is_none());
        assert!(lineages.enter([C, B]).is_some());
    }

    #[test]
    fn the_tasks_that_a_lost_founder_has_lent_are_orphans() {
        let lineages = Lineages::default();
        let copy = |node| Via::Copy(NodeId(node), CopyId { loan: 3, is_backup: false });
        let held = [&[copy(1)][..], &[copy(2)], &[copy(2), copy(1)]]
            .map(|vias| lineages.enter(vias.iter().copied()).unwrap());
        lineages.note_lost(NodeId(1));
        let are_orphans = held.each_ref().map(|held| lineages.is_orphaned(held.id()));
        assert_eq!(are_orphans, [true, false, true]);
        assert!(lineages.enter([copy(1)]).is_none() && lineages.hold(held[2].id()).is_none());
        assert!(lineages.is_any_gone(&[copy(2), copy(1)]) && !lineages.is_any_gone(&[copy(2)]));
    }

    #[test]
    fn a_lineage_is_forgotten_with_its_last_loan() {
        let lineages = Lineages::default();
        let copy = |loan| Via::Copy(NodeId(1), CopyId { loan, is_backup: false });
        // The sum of their lengths exceeds the limit for one time.
        for first in 0..(3 * VIAS_MAX / LINEAGE_MAX) as u64 {
            let set: Vec<Via> = (0..LINEAGE_MAX as u64).map(|next| copy(first + next)).collect();
            let held = lineages.enter(set.clone()).unwrap();
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
        let many = lineages.enter((0..1000).map(guest)).unwrap();
        assert_eq!(lineages.vias(many.id()).len(), LINEAGE_MAX);
        let set = |number: u32| (0..LINEAGE_MAX as u32).map(move |next| guest(number + next));
        let most = (VIAS_MAX / LINEAGE_MAX) as u32;
        let held: Vec<_> = (1..=most).map(|number| lineages.enter(set(number)).unwrap()).collect();
        assert_eq!(held.last().map(Held::id), Some(LineageId::FOUNDERS));
        assert_eq!(lineages.vias(lineages.enter(set(3)).unwrap().id()), set(3).collect::<Vec<_>>());

        let copy = |loan| Via::Copy(NodeId(1), CopyId { loan, is_backup: false });
        lineages.note_gone(A);
        for loan in 0..=GONE_MAX as u64 {
            assert!(lineages.note_gone(copy(loan)));
        }
        assert!(!lineages.note_gone(A) && !lineages.note_gone(copy(1)));
        assert!(lineages.enter([copy(0)]).is_some() && lineages.enter([copy(1)]).is_none());
    }
}
