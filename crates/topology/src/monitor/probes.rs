//! Which pairs of groups to probe: those of which nothing was heard for long, and not many at once.

use super::table::LinkMonitor;
use crate::units::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// A pair is probed when it was not observed for so long.
const SILENCE: Duration = Duration::from_secs(10);
/// A group takes part in at most one probe in this time.
const PAUSE: Duration = Duration::from_secs(1);

/// A pair of groups to probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Probe {
    /// The group that sends.
    pub from: u32,
    /// The group that answers.
    pub to: u32,
}

/// Remembers which groups were probed when.
#[derive(Clone, Debug, Default)]
pub struct ProbePlan {
    /// When each group took part in a probe.
    busy: BTreeMap<u32, Time>,
    asked: BTreeMap<(u32, u32), Time>,
}

impl ProbePlan {
    /// The probes that are due among `groups`, those of which least is known first. A round trip
    /// counts for both directions, so that each pair is probed from its lower number only.
    pub fn due(&mut self, now: Time, groups: &[u32], monitor: &LinkMonitor) -> Vec<Probe> {
        let mut silent = Vec::new();
        for (at, &from) in groups.iter().enumerate() {
            for &to in &groups[at + 1..] {
                let observed = monitor.estimate(now, from, to).map(|estimate| estimate.observed);
                let asked = self.asked.get(&(from, to)).copied();
                let last = observed.max(asked);
                if last.is_none_or(|last| now.since(last) >= SILENCE) {
                    silent.push((last, from, to));
                }
            }
        }
        silent.sort_unstable();
        let mut probes = Vec::new();
        for (_, from, to) in silent {
            let is_free = |group| self.busy.get(&group).is_none_or(|&at| now.since(at) >= PAUSE);
            if is_free(from) && is_free(to) {
                self.busy.extend([(from, now), (to, now)]);
                self.asked.insert((from, to), now);
                probes.push(Probe { from, to });
            }
        }
        probes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::LinkSample;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn silent_pairs_are_probed_and_a_group_at_most_once_a_second() {
        let mut plan = ProbePlan::default();
        let monitor = LinkMonitor::new();
        let probes = |plan: &mut ProbePlan, second| {
            plan.due(Time(second * SECOND), &[0, 1, 2, 3], &monitor).len()
        };
        assert_eq!(probes(&mut plan, 0), 2);
        assert_eq!(probes(&mut plan, 0), 0);
        let later: usize = (1..10).map(|second| probes(&mut plan, second)).sum();
        assert_eq!(later, 4, "each of six pairs once in ten seconds");
    }

    #[test]
    fn a_pair_that_is_heard_of_is_left_alone() {
        let mut plan = ProbePlan::default();
        let mut monitor = LinkMonitor::new();
        let sample =
            LinkSample { round_trip: Some(Duration::from_millis(9)), ..Default::default() };
        for second in 0..60 {
            let now = Time(second * SECOND);
            monitor.observe(now, 4, 7, sample);
            monitor.changes(now);
            assert_eq!(plan.due(now, &[4, 7], &monitor), []);
        }
    }
}
