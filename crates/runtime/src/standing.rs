//! What a job has begun and not finished: for reports on jobs that do not end, and for tests.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The most members that a report names: enough to find the others.
pub(crate) const NAMED_MAX: usize = 3;

/// Unfinished business of one PE, or of several, summed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// Members that live here; second seats do not count.
    pub members: u64,
    /// Messages made, including what counts as such for quiescence.
    pub created: u64,
    /// Of all PEs together, messages that have been dealt with.
    pub processed: u64,
    /// PEs with messages that are ready to be handled.
    pub busy: u64,
    /// Messages that wait for an earlier one to the same member.
    pub held: u64,
    /// Messages that wait for a member to turn up.
    pub awaiting: u64,
    /// What waits for the description of a collection.
    pub early: u64,
    /// Members that were offered to another PE.
    pub departing: u64,
    /// Members that were accepted from another PE and not committed.
    pub arriving: u64,
    /// Broadcasts that were overtaken by a later one.
    pub early_broadcasts: u64,
    /// Reductions that wait for more contributions.
    pub reductions: u64,
    /// Questions without an answer so far.
    pub questions: u64,
    /// Rebalances under way or waiting for their turn, and those of whose end a PE has not heard.
    pub rebalances: u64,
    /// Members that wait at a sync point.
    pub synced: u64,
    /// Messages that were dropped, since their member does not exist.
    pub dead_letters: u64,
    /// Some of those members.
    pub nobody: Vec<String>,
    /// What main waits for. Only PE 0 knows.
    pub main_waits: Vec<String>,
}

impl Standing {
    /// That a job can never go on, for people.
    pub fn stalled(&self) -> String {
        format!("the job has stalled: every PE is idle and nothing is on its way, but {self}")
    }
}

impl std::ops::AddAssign for Standing {
    fn add_assign(&mut self, mut other: Self) {
        self.members += other.members;
        self.created += other.created;
        self.processed += other.processed;
        self.busy += other.busy;
        self.held += other.held;
        self.awaiting += other.awaiting;
        self.early += other.early;
        self.departing += other.departing;
        self.arriving += other.arriving;
        self.early_broadcasts += other.early_broadcasts;
        self.reductions += other.reductions;
        self.questions += other.questions;
        self.rebalances += other.rebalances;
        self.synced += other.synced;
        self.dead_letters += other.dead_letters;
        self.nobody.append(&mut other.nobody);
        self.nobody.truncate(NAMED_MAX);
        self.main_waits.append(&mut other.main_waits);
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.main_waits[..] {
            [] => f.write_str("main waits for nothing that the runtime knows of")?,
            waits => write!(f, "main waits for {}", waits.join("; "))?,
        }
        let counts = [
            (self.busy, "PEs have messages ready"),
            (self.held, "messages wait for an earlier one to the same member"),
            (self.awaiting, "messages wait for a member to turn up"),
            (self.early, "packets wait for the description of a collection"),
            (self.departing, "members are leaving their PE"),
            (self.arriving, "members are arriving on a PE"),
            (self.early_broadcasts, "broadcasts wait for an earlier one"),
            (self.reductions, "reductions wait for contributions"),
            (self.questions, "questions have no answer"),
            (self.rebalances, "rebalances are not over"),
            (self.synced, "members wait at a sync point that others have not reached"),
            (self.dead_letters, "messages were for members that do not exist"),
        ];
        for (count, what) in counts.iter().filter(|(count, _)| *count > 0) {
            write!(f, "; {count} {what}")?;
        }
        if !self.nobody.is_empty() {
            write!(f, ", such as {}", self.nobody.join(", "))?;
        }
        if self.created != self.processed {
            write!(f, "; {} messages made, {} dealt with", self.created, self.processed)?;
        }
        Ok(())
    }
}
