//! Counters of a PE.

/// Counts of a PE's work, for reports and tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeStatistics {
    /// Messages handled.
    pub handled: u64,
    /// Times that a message was forwarded, because it arrived on a PE without its receiver.
    pub forwarded: u64,
    /// Migrations, counted by the PE that the actor has left.
    pub migrations: u64,
    /// Actors that have gained a replica.
    pub replicas: u64,
    /// Times that the right to number broadcasts passed from the coordinator to another PE. The
    /// coordinator counts them: a PE reports zero.
    pub handovers: u64,
    /// Messages that arrived twice and were dropped.
    pub repeated: u64,
    /// Messages that were dropped because their receiver did not exist.
    pub dead_letters: u64,
    /// Answers that arrived after their time-out.
    pub late_answers: u64,
}

impl std::ops::AddAssign for PeStatistics {
    fn add_assign(&mut self, other: Self) {
        self.handled += other.handled;
        self.forwarded += other.forwarded;
        self.migrations += other.migrations;
        self.replicas += other.replicas;
        self.handovers += other.handovers;
        self.repeated += other.repeated;
        self.dead_letters += other.dead_letters;
        self.late_answers += other.late_answers;
    }
}
