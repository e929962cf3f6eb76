//! Unfinished work of a job, for reports on jobs that do not end, and for tests.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Maximum number of members that a report names: enough to find the others.
pub(crate) const NAMED_MAX: usize = 3;

/// Formats a number with `one` if it is 1, and with `several` otherwise.
pub(crate) fn counted(number: impl Into<u64>, one: &str, several: &str) -> String {
    let number = number.into();
    format!("{number} {}", if number == 1 { one } else { several })
}

/// Unfinished work of one PE, or the sum of several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PendingWork {
    /// Number of members that live here; replicas do not count.
    pub members: u64,
    /// Number of messages created, including operations that count as messages for quiescence.
    pub created: u64,
    /// Number of messages handled. Comparable with `created` only in the sum over all PEs.
    pub processed: u64,
    /// Number of PEs with ready messages.
    pub busy: u64,
    /// Number of messages held until an earlier message to the same member arrives.
    pub held: u64,
    /// Number of messages that wait for a member to appear.
    pub awaiting: u64,
    /// Number of packets that wait for the description of a collection.
    pub early: u64,
    /// Number of members offered to another PE.
    pub departing: u64,
    /// Number of members accepted from another PE and not committed.
    pub arriving: u64,
    /// Number of broadcasts held until an earlier broadcast arrives.
    pub early_broadcasts: u64,
    /// Number of reductions that wait for more contributions.
    pub reductions: u64,
    /// Number of asks without an answer.
    pub questions: u64,
    /// Number of rebalances that are in progress, queued, or not yet over for a PE.
    pub rebalances: u64,
    /// Number of members that wait at a sync point.
    pub synced: u64,
    /// Number of messages dropped because their member does not exist.
    pub dead_letters: u64,
    /// Some of the members that do not exist.
    pub absent_members: Vec<String>,
    /// Requests of main that wait for an answer. Only the coordinator knows them.
    pub main_waits: Vec<String>,
}

impl PendingWork {
    /// Returns a readable report of a stalled job.
    pub fn stalled(&self) -> String {
        format!("the job has stalled: every PE is idle and nothing is on its way, but {self}")
    }
}

impl std::ops::AddAssign for PendingWork {
    /// Saturates: counts may come from a faulty node.
    fn add_assign(&mut self, mut other: Self) {
        self.members = self.members.saturating_add(other.members);
        self.created = self.created.saturating_add(other.created);
        self.processed = self.processed.saturating_add(other.processed);
        self.busy = self.busy.saturating_add(other.busy);
        self.held = self.held.saturating_add(other.held);
        self.awaiting = self.awaiting.saturating_add(other.awaiting);
        self.early = self.early.saturating_add(other.early);
        self.departing = self.departing.saturating_add(other.departing);
        self.arriving = self.arriving.saturating_add(other.arriving);
        self.early_broadcasts = self.early_broadcasts.saturating_add(other.early_broadcasts);
        self.reductions = self.reductions.saturating_add(other.reductions);
        self.questions = self.questions.saturating_add(other.questions);
        self.rebalances = self.rebalances.saturating_add(other.rebalances);
        self.synced = self.synced.saturating_add(other.synced);
        self.dead_letters = self.dead_letters.saturating_add(other.dead_letters);
        self.absent_members.append(&mut other.absent_members);
        self.absent_members.truncate(NAMED_MAX);
        self.main_waits.append(&mut other.main_waits);
    }
}

impl fmt::Display for PendingWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.main_waits[..] {
            [] => f.write_str("main waits for nothing that the runtime knows of")?,
            waits => write!(f, "main waits for {}", waits.join("; "))?,
        }
        let counts = [
            (self.busy, "PE has messages ready", "PEs have messages ready"),
            (
                self.held,
                "message waits for an earlier one to the same member",
                "messages wait for an earlier one to the same member",
            ),
            (
                self.awaiting,
                "message waits for a member that does not exist yet",
                "messages wait for a member that does not exist yet",
            ),
            (
                self.early,
                "packet waits for the description of a collection",
                "packets wait for the description of a collection",
            ),
            (self.departing, "member is leaving its PE", "members are leaving their PE"),
            (self.arriving, "member is arriving on a PE", "members are arriving on a PE"),
            (
                self.early_broadcasts,
                "broadcast waits for an earlier one",
                "broadcasts wait for an earlier one",
            ),
            (
                self.reductions,
                "reduction waits for contributions",
                "reductions wait for contributions",
            ),
            (self.questions, "question has no answer", "questions have no answer"),
            (self.rebalances, "rebalance is not over", "rebalances are not over"),
            (
                self.synced,
                "member waits at a sync point that others have not reached",
                "members wait at a sync point that others have not reached",
            ),
            (
                self.dead_letters,
                "message was for a member that does not exist",
                "messages were for members that do not exist",
            ),
        ];
        for (count, one, several) in counts.into_iter().filter(|(count, ..)| *count > 0) {
            write!(f, "; {}", counted(count, one, several))?;
        }
        if !self.absent_members.is_empty() {
            write!(f, ", such as {}", self.absent_members.join(", "))?;
        }
        if self.created != self.processed {
            let made = counted(self.created, "message", "messages");
            write!(f, "; {made} created, {} handled", self.processed)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_one_are_singular_and_of_two_plural() {
        let all = |number| PendingWork {
            busy: number,
            held: number,
            awaiting: number,
            early: number,
            departing: number,
            arriving: number,
            early_broadcasts: number,
            reductions: number,
            questions: number,
            rebalances: number,
            synced: number,
            dead_letters: number,
            created: number,
            ..PendingWork::default()
        };

        let (one, two) = (all(1).to_string(), all(2).to_string());

        let (ones, twos): (Vec<&str>, Vec<&str>) =
            (one.split("; ").skip(1).collect(), two.split("; ").skip(1).collect());
        assert_eq!((ones.len(), twos.len()), (13, 13), "{one}");
        let plurals = ["PEs", "messages", "members", "packets", "broadcasts", "reductions"];
        let plurals = plurals.iter().chain(&["questions", "rebalances", "are", "were", "wait"]);
        let plurals: Vec<&str> = plurals.copied().collect();
        for (one, two) in ones.iter().zip(&twos) {
            // The text after `that` is about other things.
            let subject = |text: &str| text.split(" that ").next().unwrap_or(text).to_owned();
            let has_plural =
                |text: &str| subject(text).split(' ').take(3).any(|word| plurals.contains(&word));
            assert!(one.starts_with("1 ") && !has_plural(one), "{one}");
            assert!(two.starts_with("2 ") && has_plural(two), "{two}");
        }
    }

    #[test]
    fn counts_of_a_faulty_node_are_added_without_overflow() {
        let most = || PendingWork { created: u64::MAX, held: u64::MAX, ..PendingWork::default() };
        let mut sum = most();
        sum += most();
        assert_eq!(sum, most());
    }
}
