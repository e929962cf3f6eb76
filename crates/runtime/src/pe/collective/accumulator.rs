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
    /// `latest` is the last reduction that was passed up; `passed` is the number of its
    /// contributions from here so far, and `before` the number of the previous reduction.
    latest: u64,
    passed: u64,
    before: u64,
}

impl GroupState {
    /// Number of further contributions to expect for a reduction.
    pub(crate) fn outstanding(&self, sequence: u64) -> u64 {
        if sequence > self.latest { self.passed } else { self.before.saturating_sub(self.passed) }
    }

    pub(crate) fn pass(&mut self, sequence: u64, count: u64) {
        if sequence > self.latest {
            (self.latest, self.before, self.passed) = (sequence, self.passed, count);
        } else if sequence == self.latest {
            self.passed += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::GroupState;

    #[test]
    fn a_group_expects_what_it_saw_last_time() {
        let mut state = GroupState::default();
        state.pass(0, 3);
        state.pass(0, 1);
        assert_eq!(state.outstanding(1), 4);
        state.pass(1, 3);
        assert_eq!(state.outstanding(1), 1, "one is still missing compared with last time");
        assert_eq!(state.outstanding(2), 3);
    }
}
