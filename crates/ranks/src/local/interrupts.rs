//! Which ranks may end an operation of another rank before the message for which it waits arrives.
//!
//! In a job with `ErrorsReturn`, each rank of a communicator may revoke it, which ends all
//! operations on it, and may fail, which ends the collective ones. So ranks that wait only for each
//! other are not deadlocked while another rank of their communicator runs.
//!
//! In such a job, a call that makes a communicator may fail at a rank, which has learned of a
//! failure, and be complete at others. The rank does not know the number of that communicator, and
//! may agree with other ranks on the same number. So it ignores messages and revocations of ranks
//! that do not belong to the communicator that it has under their number. No sender of such a
//! message can belong to that communicator: it would have agreed on a larger number.

use crate::error::SERVED_FROM;
use crate::runs::Run;
use crate::scope::Scope;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

/// Minimum number of communicators at which those that the program has dropped are removed.
const FORGOTTEN_FROM: usize = 64;

/// The communicators of a rank whose operations others may end. Empty in most jobs.
#[derive(Debug, Default)]
pub(crate) struct Interrupts(Option<Box<Revocable>>);

#[derive(Debug)]
struct Revocable {
    /// The ranks of each communicator, by its number, while the program has the communicator.
    communicators: BTreeMap<u32, Weak<Scope>>,
    /// Number of communicators at which dropped ones are next removed.
    look_at: usize,
    /// Revocations of communicators that the program does not have yet, or has no more: the number,
    /// and the rank of the job that revoked.
    early: Vec<(u32, u32)>,
}

/// Whether ranks have agreed on this number of a communicator. The name server gives each number
/// to one communicator; the world has none of these numbers.
pub(crate) fn is_agreed(number: u32) -> bool {
    (1..SERVED_FROM).contains(&number)
}

impl Interrupts {
    /// For a rank that fails alone if `fails_alone`. If not, its failure ends the job, and no rank
    /// may revoke a communicator.
    pub(crate) fn new(fails_alone: bool) -> Self {
        let (communicators, look_at, early) = (BTreeMap::new(), FORGOTTEN_FROM, Vec::new());
        Self(fails_alone.then(|| Box::new(Revocable { communicators, look_at, early })))
    }

    /// Whether ranks may revoke communicators.
    pub(crate) fn are_possible(&self) -> bool {
        self.0.is_some()
    }

    /// Whether a rank of the job belongs to the communicator of this number. `None` if the program
    /// does not have it.
    pub(crate) fn includes(&self, number: u32, rank: u32) -> Option<bool> {
        let scope = self.0.as_ref()?.communicators.get(&number)?;
        // Operations may outlive the communicator, whose ranks are no longer known then.
        Some(scope.upgrade().is_none_or(|scope| scope.position(rank).is_some()))
    }

    /// Keeps a revocation of a communicator that the program may get later.
    pub(crate) fn keep_revocation(&mut self, number: u32, from: u32) {
        if let Some(known) = &mut self.0
            && !known.early.contains(&(number, from))
        {
            known.early.push((number, from));
        }
    }

    /// Removes and returns the ranks of the job whose revocations of this number were kept.
    pub(crate) fn take_revocations(&mut self, number: u32) -> Vec<u32> {
        let Some(known) = &mut self.0 else { return Vec::new() };
        let early = std::mem::take(&mut known.early);
        let (taken, kept): (Vec<_>, Vec<_>) = early.into_iter().partition(|(of, _)| *of == number);
        known.early = kept;
        taken.into_iter().map(|(_, from)| from).collect()
    }

    /// Notes that the program has a communicator. `used` returns the communicators of the
    /// operations that have not ended: an operation may outlive its communicator.
    pub(crate) fn note(
        &mut self,
        number: u32,
        scope: &Arc<Scope>,
        used: impl FnOnce() -> BTreeSet<u32>,
    ) {
        let Some(known) = &mut self.0 else { return };
        known.communicators.insert(number, Arc::downgrade(scope));
        if known.communicators.len() < known.look_at {
            return;
        }
        let used = used();
        let is_used = |number: &u32, scope: &mut Weak<Scope>| {
            scope.strong_count() > 0 || used.contains(number)
        };
        known.communicators.retain(is_used);
        known.look_at = FORGOTTEN_FROM.max(2 * known.communicators.len());
    }

    /// The ranks that may end operations on any of these communicators. `None` if they are not
    /// known, or if those of one communicator form more than `most` runs.
    pub(crate) fn of_all(&self, communicators: &BTreeSet<u32>, most: usize) -> Option<Vec<Run>> {
        let mut ranks = Vec::new();
        for communicator in communicators {
            ranks.extend(self.of(*communicator, most)?);
        }
        Some(ranks)
    }

    /// The ranks that may end operations on a communicator. `None` if they are not known, or form
    /// more than `most` runs.
    fn of(&self, communicator: u32, most: usize) -> Option<Vec<Run>> {
        let known = self.0.as_ref().and_then(|known| known.communicators.get(&communicator));
        match known {
            // No rank can revoke it.
            None => Some(Vec::new()),
            Some(scope) => scope.upgrade()?.runs(most),
        }
    }
}
