//! Which ranks may end an operation of another rank before the message for which it waits arrives.
//!
//! In a job with `ErrorsReturn`, each rank of a communicator may revoke it, which ends all
//! operations on it, and may fail, which ends the collective ones. So ranks that wait only for each
//! other are not deadlocked while another rank of their communicator runs.

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
}

impl Interrupts {
    /// For a rank that fails alone if `fails_alone`. If not, its failure ends the job, and no rank
    /// may revoke a communicator.
    pub(crate) fn new(fails_alone: bool) -> Self {
        let revocable =
            || Box::new(Revocable { communicators: BTreeMap::new(), look_at: FORGOTTEN_FROM });
        Self(fails_alone.then(revocable))
    }

    /// Whether ranks may revoke communicators.
    pub(crate) fn are_possible(&self) -> bool {
        self.0.is_some()
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
