//! What a rank knows about failed ranks and revoked communicators.

use crate::error::{CallSite, RankError};
use crate::matching::Pattern;
use crate::scope::{Peers, Scope};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

/// The number of the world, the only communicator with agreements that outlasts migration points.
const WORLD: u32 = 0;

/// Failed ranks and revoked communicators. Empty in most jobs, and then a null pointer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Failures(Option<Box<KnownFailures>>);

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct KnownFailures {
    /// The failed ranks of the job, and why each has failed.
    failed: BTreeMap<u32, String>,
    /// The numbers of the revoked communicators.
    revoked: BTreeSet<u32>,
    /// The failures that the rank has acknowledged: a communicator, and a rank of the job.
    acknowledged: BTreeSet<(u32, u32)>,
    /// The agreements on each communicator.
    agreements: BTreeMap<u32, BegunAgreements>,
}

/// The agreements on a communicator that this rank has begun.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct BegunAgreements {
    count: u64,
    /// Upgradable while the program has the communicator.
    #[serde(skip)]
    scope: Weak<Scope>,
}

impl Failures {
    fn known(&mut self) -> &mut KnownFailures {
        self.0.get_or_insert_default()
    }

    /// Notes a failed rank. Returns whether it is a new one.
    pub(super) fn add(&mut self, rank: u32, reason: String) -> bool {
        self.known().failed.insert(rank, reason).is_none()
    }

    /// Notes a revoked communicator. Returns whether it is a new one.
    pub(super) fn add_revoked(&mut self, communicator: u32) -> bool {
        self.known().revoked.insert(communicator)
    }

    /// The next agreement on a communicator with this scope, which no other communicator has.
    /// Forgets, now and then, communicators that the program has dropped.
    pub(crate) fn next_agreement(&mut self, communicator: u32, scope: &Arc<Scope>) -> u64 {
        let agreements = &mut self.known().agreements;
        if agreements.len().is_power_of_two() && !agreements.contains_key(&communicator) {
            agreements.retain(|number, begun| *number == WORLD || begun.scope.strong_count() > 0);
        }
        let begun = agreements.entry(communicator).or_default();
        begun.scope = Arc::downgrade(scope);
        begun.count += 1;
        begun.count
    }

    /// Forgets the agreements on all communicators that end at a migration point.
    pub(crate) fn end_agreements(&mut self) {
        if let Some(known) = self.0.as_deref_mut() {
            known.agreements.retain(|number, _| *number == WORLD);
        }
    }

    pub(crate) fn is_revoked(&self, communicator: u32) -> bool {
        self.0.as_ref().is_some_and(|known| known.revoked.contains(&communicator))
    }

    /// The failed ranks of a communicator, as their ranks in it, in ascending order.
    pub(crate) fn of_scope(&self, scope: &Scope) -> Vec<u32> {
        let Some(known) = &self.0 else { return Vec::new() };
        let mut ranks: Vec<u32> =
            known.failed.keys().filter_map(|rank| scope.position(*rank)).collect();
        ranks.sort_unstable();
        ranks
    }

    /// Acknowledges the failed ranks of a communicator.
    pub(crate) fn acknowledge(&mut self, communicator: u32, scope: &Scope) {
        let Some(known) = self.0.as_deref_mut() else { return };
        let members = known.failed.keys().filter(|rank| scope.position(**rank).is_some());
        known.acknowledged.extend(members.map(|rank| (communicator, *rank)));
    }

    /// The error of an operation on a revoked communicator.
    pub(crate) fn revocation(&self, communicator: u32, at: CallSite) -> Option<RankError> {
        self.is_revoked(communicator).then_some(RankError::Revoked { at })
    }

    /// The error of an operation with this rank of the job, if the rank has failed.
    pub(crate) fn of_rank(&self, rank: u32, at: CallSite) -> Option<RankError> {
        let reason = self.0.as_ref()?.failed.get(&rank)?;
        Some(RankError::PeerFailed { at, rank, reason: reason.clone() })
    }

    /// The error of a receive or probe for which no message is there. One that accepts any rank
    /// fails if one of the ranks has failed and this rank has not acknowledged it.
    pub(crate) fn of_receive(
        &self,
        pattern: &Pattern,
        peers: &Peers,
        at: CallSite,
    ) -> Option<RankError> {
        let known = self.0.as_ref()?;
        let communicator = pattern.context / 2;
        if known.revoked.contains(&communicator) {
            return Some(RankError::Revoked { at });
        }
        let is_known = |rank: u32| {
            pattern.source.is_none() && known.acknowledged.contains(&(communicator, rank))
        };
        let mut failed = known.failed.keys().copied();
        let rank = failed.find(|rank| peers.includes(*rank) && !is_known(*rank))?;
        self.of_rank(rank, at)
    }

    /// The error of a collective operation that waits for a message. Once any rank of the
    /// communicator has failed, the operation fails at each rank that waits: the failed rank may be
    /// missing anywhere in the tree.
    pub(crate) fn of_collective(
        &self,
        communicator: u32,
        scope: &Scope,
        at: CallSite,
    ) -> Option<RankError> {
        let known = self.0.as_ref()?;
        if known.revoked.contains(&communicator) {
            return Some(RankError::Revoked { at });
        }
        let rank = known.failed.keys().find(|rank| scope.position(**rank).is_some())?;
        self.of_rank(*rank, at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scope::World;

    fn scope() -> Arc<Scope> {
        Arc::new(World::of_job(3).scope(Arc::default()))
    }

    #[test]
    fn agreements_on_dropped_communicators_are_forgotten() {
        let mut failures = Failures::default();
        let (world, kept) = (scope(), scope());
        assert_eq!(failures.next_agreement(WORLD, &world), 1);
        assert_eq!(failures.next_agreement(1, &kept), 1);
        for number in 2..100 {
            assert_eq!(failures.next_agreement(number, &scope()), 1);
            assert!(failures.known().agreements.len() <= 4);
        }
        assert_eq!(failures.next_agreement(1, &kept), 2);
        failures.end_agreements();
        assert_eq!(failures.known().agreements.len(), 1);
        assert_eq!(failures.next_agreement(WORLD, &world), 2);
    }
}
