//! Which pairs of groups to probe: those of which nothing was heard for long, and not many at once.

use super::table::LinkMonitor;
use crate::units::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// A pair is pinged when it was not observed for so long.
const SILENCE: Duration = Duration::from_secs(10);
/// The bandwidth of a direction is measured when it was not observed for so long. A train of
/// packets costs more than a ping, and bandwidths change less.
const STALE: Duration = Duration::from_secs(60);
/// A group takes part in at most one probe in this time.
const PAUSE: Duration = Duration::from_secs(1);

/// What is wanted of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum WantedProbe {
    /// Its round trip, which counts for both directions.
    RoundTrip,
    /// The bandwidth of this direction.
    Bandwidth,
}

/// A pair of groups to probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Probe {
    /// The group that sends.
    pub from: u32,
    /// The group that answers.
    pub to: u32,
    /// What to find out.
    pub what: WantedProbe,
}

/// Remembers which groups were probed when.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ProbePlan {
    /// When each group took part in a probe.
    busy: BTreeMap<u32, Time>,
    asked: BTreeMap<Probe, Time>,
    /// Bandwidths are nobody's question.
    is_of_round_trips: bool,
}

impl ProbePlan {
    /// One that asks for round trips alone.
    pub fn of_round_trips() -> Self {
        Self { is_of_round_trips: true, ..Self::default() }
    }

    /// The probes that are due among `groups`: round trips before bandwidths, and of each those
    /// first of which least is known. Each pair is pinged from its lower number only.
    pub fn due(&mut self, now: Time, groups: &[u32], monitor: &LinkMonitor) -> Vec<Probe> {
        let mut due = Vec::new();
        let pairs = groups.iter().flat_map(|&from| groups.iter().map(move |&to| (from, to)));
        for (from, to) in pairs.filter(|(from, to)| from != to) {
            let estimate = monitor.estimate(now, from, to);
            let mut want = |what, observed: Option<Time>, age| {
                let probe = Probe { from, to, what };
                let last = observed.max(self.asked.get(&probe).copied());
                if last.is_none_or(|last| now.since(last) >= age) {
                    due.push((what, last, probe));
                }
            };
            if from < to {
                // What was longer than before has to be so again to be believed, and the first may
                // have waited.
                let is_open = monitor.is_young(from, to) || monitor.is_doubted(from, to);
                let age = if is_open { PAUSE } else { SILENCE };
                want(WantedProbe::RoundTrip, estimate.map(|estimate| estimate.observed), age);
            }
            if !self.is_of_round_trips {
                let measured = estimate.and_then(|estimate| estimate.bandwidth_observed);
                want(WantedProbe::Bandwidth, measured, STALE);
            }
        }
        due.sort_unstable();
        let mut probes = Vec::new();
        for (_, _, probe) in due {
            let is_free = |group| self.busy.get(&group).is_none_or(|&at| now.since(at) >= PAUSE);
            if is_free(probe.from) && is_free(probe.to) {
                self.busy.extend([(probe.from, now), (probe.to, now)]);
                self.asked.insert(probe, now);
                probes.push(probe);
            }
        }
        probes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::LinkSample;
    use crate::{Bandwidth, NodeId};

    const SECOND: u64 = 1_000_000_000;
    const FLOW: (NodeId, NodeId) = (NodeId(0), NodeId(1));

    #[test]
    fn silent_pairs_are_probed_and_a_group_at_most_once_a_second() {
        let mut plan = ProbePlan::default();
        let monitor = LinkMonitor::new();
        let mut probed = Vec::new();
        for half in 0..240 {
            let probes = plan.due(Time(half * SECOND / 2), &[0, 1, 2, 3], &monitor);
            assert!(probes.len() <= 2);
            probed.extend(probes);
        }
        let count = |what| probed.iter().filter(|probe| probe.what == what).count();
        assert!((60..=78).contains(&count(WantedProbe::RoundTrip)), "six pairs every ten seconds");
        assert_eq!(count(WantedProbe::Bandwidth), 24, "twelve directions every minute");
    }

    #[test]
    fn the_first_round_trips_are_confirmed_soon_and_then_seldom() {
        let mut plan = ProbePlan::of_round_trips();
        let mut monitor = LinkMonitor::new();
        let sample =
            LinkSample { round_trip: Some(Duration::from_millis(9)), ..LinkSample::default() };
        let mut pinged = Vec::new();
        for half in 0..100 {
            let now = Time(half * SECOND / 2);
            for probe in plan.due(now, &[0, 1], &monitor) {
                assert_eq!(probe, Probe { from: 0, to: 1, what: WantedProbe::RoundTrip });
                monitor.observe(now, (0, 1), FLOW, sample);
                pinged.push(half / 2);
            }
            monitor.changes(now);
        }
        let pauses: Vec<u64> = pinged.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(pauses[..3].iter().all(|&pause| pause <= 3), "{pauses:?}");
        assert!(pauses[3..].iter().all(|&pause| pause >= 10), "{pauses:?}");
    }

    #[test]
    fn what_is_heard_of_anyway_is_left_alone() {
        let mut plan = ProbePlan::default();
        let mut monitor = LinkMonitor::new();
        let sample = LinkSample {
            round_trip: Some(Duration::from_millis(9)),
            rate: Some(Bandwidth::from_bits_per_second(1_000)),
            is_full: true,
            ..LinkSample::default()
        };
        for second in 0..120 {
            let now = Time(second * SECOND);
            monitor.observe(now, (4, 7), FLOW, sample);
            monitor.observe(now, (7, 4), FLOW, sample);
            monitor.changes(now);
            assert_eq!(plan.due(now, &[4, 7], &monitor), []);
        }
    }
}
