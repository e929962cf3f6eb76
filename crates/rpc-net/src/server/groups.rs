//! The groups that one connection has started.

use std::collections::{BTreeSet, VecDeque};

/// Largest number of groups of one connection that run at the same time: more than a client begins
/// while the ends of others are on their way to the server. Each single call is a group.
const GROUPS_MAX: usize = 10_000;
/// Number of ended groups that are remembered: an order of such a group may come after the group's
/// end, because streams overtake each other.
const ENDED_MAX: usize = 1000;

/// Running groups, and those that ended last.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    going_on: BTreeSet<u64>,
    ended: VecDeque<u64>,
}

impl Groups {
    /// Registers the group of an order. Returns the reason if the order is refused.
    pub(crate) fn begin(&mut self, group: u64) -> Result<(), String> {
        if self.ended.contains(&group) {
            return Err("its group has ended".to_owned());
        }
        if self.going_on.len() >= GROUPS_MAX && !self.going_on.contains(&group) {
            return Err(format!("{GROUPS_MAX} groups are already running"));
        }
        self.going_on.insert(group);
        Ok(())
    }

    pub(crate) fn has(&self, group: u64) -> bool {
        self.going_on.contains(&group)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.going_on.is_empty()
    }

    /// Ends a group. Returns whether it was running.
    pub(crate) fn end(&mut self, group: u64) -> bool {
        self.ended.push_back(group);
        if self.ended.len() > ENDED_MAX {
            self.ended.pop_front();
        }
        self.going_on.remove(&group)
    }

    /// Removes all running groups, and returns them.
    pub(crate) fn take(&mut self) -> BTreeSet<u64> {
        std::mem::take(&mut self.going_on)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_that_has_ended_does_not_begin_again() {
        let mut groups = Groups::default();
        assert!(groups.begin(7).is_ok() && groups.begin(7).is_ok() && groups.has(7));

        assert!(groups.end(7) && !groups.end(8));

        assert!(groups.begin(7).is_err() && groups.begin(8).is_err() && groups.begin(9).is_ok());
        assert_eq!(groups.take(), [9].into());
    }

    #[test]
    fn the_number_of_running_groups_is_limited() {
        let mut groups = Groups::default();
        (0..GROUPS_MAX as u64).for_each(|group| groups.begin(group).unwrap());

        assert!(groups.begin(u64::MAX).is_err() && groups.begin(0).is_ok());
        groups.end(0);
        assert!(groups.begin(u64::MAX).is_ok());
    }
}
