//! Agreements of the living ranks of a communicator.
//!
//! An agreement ends once each rank of the communicator has asked or has failed. All living ranks
//! that have asked get the same answer. The actor of rank 0 decides. It does not fail: it goes on
//! after the program of rank 0 has failed, and the loss of its node takes the whole job back to a
//! checkpoint.
//!
//! A communicator that an agreement makes has a number that none of the asking or failed ranks has
//! used: a failed rank may have completed a `dup` that failed at others, and have sent messages on
//! the new communicator. No other communicator may receive these messages.

use super::message::{AgreementKey, AgreementRequest, ServerReply};
use crate::runs::{self, Run};
use crate::ticket::{Asker, Ticket};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The contribution of a rank to an agreement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Given {
    ticket: Ticket,
    flags: u64,
    next_communicator: u32,
}

/// An agreement that some living rank has not asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Agreement {
    members: Vec<Run>,
    /// The members that have neither asked nor failed.
    missing: BTreeSet<u32>,
    given: BTreeMap<u32, Given>,
}

/// The failed ranks, and the agreements that are open.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Agreements {
    failed: BTreeMap<u32, String>,
    /// The smallest number of a communicator that no failed rank has used.
    next_of_failed: u32,
    open: BTreeMap<AgreementKey, Agreement>,
}

impl Agreements {
    /// Handles the request of a rank. Returns the answers of agreements that are complete.
    pub(super) fn ask(
        &mut self,
        asker: Asker,
        request: AgreementRequest,
    ) -> Vec<(Asker, ServerReply)> {
        let AgreementRequest { key, members, flags, next_communicator } = request;
        let failed = &self.failed;
        let agreement = self.open.entry(key).or_insert_with(|| {
            let missing = runs::ranks(&members).filter(|rank| !failed.contains_key(rank)).collect();
            Agreement { members, missing, given: BTreeMap::new() }
        });
        agreement.missing.remove(&asker.rank);
        let given = Given { ticket: asker.ticket, flags, next_communicator };
        agreement.given.insert(asker.rank, given);
        self.complete()
    }

    /// Forgets a request that waits. Its rank is missing again, unless it has failed.
    pub(super) fn withdraw(&mut self, asker: Asker) {
        let Self { failed, open, .. } = self;
        for agreement in open.values_mut() {
            let given = agreement.given.get(&asker.rank);
            if given.is_some_and(|given| given.ticket == asker.ticket) {
                agreement.given.remove(&asker.rank);
                if !failed.contains_key(&asker.rank) {
                    agreement.missing.insert(asker.rank);
                }
            }
        }
    }

    /// Notes that a rank has failed. Returns the answers to the ranks that have waited for it.
    pub(super) fn note_failed(
        &mut self,
        rank: u32,
        next_communicator: u32,
        reason: String,
    ) -> Vec<(Asker, ServerReply)> {
        self.failed.insert(rank, reason);
        self.next_of_failed = self.next_of_failed.max(next_communicator);
        for agreement in self.open.values_mut() {
            agreement.missing.remove(&rank);
        }
        self.complete()
    }

    /// The failed ranks, and why each has failed.
    pub(super) fn failed(&self) -> &BTreeMap<u32, String> {
        &self.failed
    }

    /// Ends the agreements for which no living rank is missing.
    fn complete(&mut self) -> Vec<(Asker, ServerReply)> {
        let complete: Vec<AgreementKey> = self
            .open
            .iter()
            .filter(|(_, agreement)| agreement.missing.is_empty())
            .map(|(key, _)| *key)
            .collect();
        let mut answers = Vec::new();
        for key in complete {
            if let Some(agreement) = self.open.remove(&key) {
                answers.extend(agreement.answers(&self.failed, self.next_of_failed));
            }
        }
        answers
    }
}

impl Agreement {
    /// The answers to all living ranks that have asked.
    fn answers(
        self,
        failed: &BTreeMap<u32, String>,
        next_of_failed: u32,
    ) -> Vec<(Asker, ServerReply)> {
        let is_living = |rank: &u32| !failed.contains_key(rank);
        let given: Vec<(u32, Given)> =
            self.given.into_iter().filter(|(rank, _)| is_living(rank)).collect();
        let flags = given.iter().fold(u64::MAX, |flags, (_, given)| flags & given.flags);
        let number =
            given.iter().map(|(_, given)| given.next_communicator).fold(next_of_failed, u32::max);
        let survivors = runs::ranks(&self.members).filter(is_living);
        let survivors = runs::runs(survivors, usize::MAX).unwrap_or_default();
        let answer = |(rank, Given { ticket, .. })| {
            let survivors = survivors.clone();
            (Asker { rank, ticket }, ServerReply::Agreed { flags, number, survivors })
        };
        given.into_iter().map(answer).collect()
    }
}
