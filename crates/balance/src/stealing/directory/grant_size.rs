//! The number of tasks that a thief gets where tasks spawn others.
//!
//! The work of such a task is known only afterwards. In a tree that divides evenly, the oldest task
//! has half of the work, and a grant of more than one would leave the holder very little; where
//! most tasks spawn nothing, a single task is not worth its messages. So grants grow while thieves
//! return soon, and shrink while they stay away for long.

use gridspan_topology::{NodeId, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// If a thief returns after fewer round trips, its grant was too small to pay for its messages.
const SOON: u32 = 4;
/// If a thief returns after more round trips, its grant was more than enough.
const LATE: u32 = 32;
/// Largest grant per worker. If a grant of this size lasts for only a few round trips, a larger one
/// does not pay either.
const MAX: u64 = 256;

/// The least grant is an even share divided by this number: one of many tasks is only a small part
/// of the work.
const LEAST_PART: u64 = 8;

/// Size of grants, per worker of a thief.
#[derive(Clone, Debug)]
pub(super) struct GrantSize {
    tasks: u64,
    /// Time at which each thief was last served.
    served: BTreeMap<NodeId, Time>,
}

impl Default for GrantSize {
    fn default() -> Self {
        Self { tasks: 1, served: BTreeMap::new() }
    }
}

impl GrantSize {
    /// Returns the number of tasks for a thief with `workers` workers and an even share of `even`
    /// tasks.
    pub(super) fn limit(&self, even: u64, workers: u32) -> u64 {
        let grant = self.tasks.saturating_mul(u64::from(workers.max(1)));
        even.min(grant.max(even / LEAST_PART))
    }

    /// Records that a thief is served now.
    pub(super) fn note_served(&mut self, thief: NodeId, now: Time) {
        self.served.insert(thief, now);
    }

    /// Records that a thief asks again, and adapts the size of grants.
    pub(super) fn note_back(&mut self, thief: NodeId, now: Time, round_trip: Duration) {
        let Some(served) = self.served.remove(&thief) else { return };
        let away = now.since(served);
        if away < round_trip * SOON {
            self.tasks = (self.tasks * 2).min(MAX);
        } else if away > round_trip * LATE {
            self.tasks = (self.tasks / 2).max(1);
        }
    }

    /// Forgets a thief that has left.
    pub(super) fn forget(&mut self, thief: NodeId) {
        self.served.remove(&thief);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_micros(100);

    /// Returns the grant after a thief was away for `micros`, `times` times.
    fn after(grant: &mut GrantSize, times: u32, micros: u64) -> u64 {
        for _ in 0..times {
            grant.note_served(NodeId(1), Time(0));
            grant.note_back(NodeId(1), Time(micros * 1000), RTT);
        }
        grant.tasks
    }

    #[test]
    fn grants_grow_while_thieves_return_soon_and_shrink_while_they_stay_away() {
        let mut grant = GrantSize::default();
        assert_eq!(grant.limit(20, 3), 3);
        assert_eq!(after(&mut grant, 3, 300), 8);
        assert_eq!(after(&mut grant, 3, 1000), 8);
        assert_eq!(after(&mut grant, 2, 10_000), 2);
        assert_eq!(after(&mut grant, 5, 10_000), 1);
        assert_eq!(after(&mut grant, 100, 1), MAX);
    }

    #[test]
    fn a_thief_that_was_not_served_does_not_change_the_grant() {
        let mut grant = GrantSize::default();
        grant.note_back(NodeId(1), Time(5), RTT);
        assert_eq!(grant.limit(10, 1), 1);
    }
}
