//! Contributions that a PE holds back, and its record of earlier reductions.

use crate::message::Contribution;
use gridspan_topology::Time;

/// Combined contributions that wait for more.
pub(crate) struct Accumulator {
    pub(crate) contribution: Contribution,
    pub(crate) deadline: Time,
}

/// A PE's record of the reductions over a group.
#[derive(Default)]
pub(crate) struct GroupState {
    /// The last reduction that was passed up.
    latest: u64,
    /// Number of contributions to `latest` that were passed up from here so far.
    passed: u64,
    /// Number of contributions to the reduction passed up before `latest`.
    before: u64,
}

impl GroupState {
    /// Number of contributions at which this PE passes a reduction up: as many as last time, less
    /// those that it has passed up already.
    pub(crate) fn outstanding(&self, sequence: u64) -> u64 {
        if sequence > self.latest { self.passed } else { self.before.saturating_sub(self.passed) }
    }

    pub(crate) fn pass(&mut self, sequence: u64, count: u64) {
        if sequence > self.latest {
            (self.latest, self.before, self.passed) = (sequence, self.passed, count);
        } else if sequence == self.latest {
            self.passed = self.passed.saturating_add(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::GroupState;

    #[test]
    fn as_many_contributions_are_expected_as_last_time() {
        let mut state = GroupState::default();
        state.pass(0, 3);
        state.pass(0, 1);
        assert_eq!(state.outstanding(1), 4);
        state.pass(1, 3);
        assert_eq!(state.outstanding(1), 1, "four last time, three so far");
        assert_eq!(state.outstanding(2), 3);
    }
}
