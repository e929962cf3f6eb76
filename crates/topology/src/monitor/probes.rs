//! Selects the pairs of groups to probe: those without recent observations, and not many at once.

use super::table::LinkMonitor;
use crate::units::Time;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

/// Time without an observation after which a pair is pinged.
const SILENCE: Duration = Duration::from_secs(10);
/// Time without an observation after which the bandwidth of a direction is measured. A train of
/// packets costs more than a ping, and bandwidths change less.
const STALE: Duration = Duration::from_secs(60);
/// Minimum time between two probes of a group.
const PAUSE: Duration = Duration::from_secs(1);

/// The quantity that a probe measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum WantedProbe {
    /// The round trip, which counts for both directions.
    RoundTrip,
    /// The bandwidth of this direction.
    Bandwidth,
}

impl WantedProbe {
    /// Time without an observation after which the quantity is measured.
    const fn period(self) -> Duration {
        match self {
            Self::RoundTrip => SILENCE,
            Self::Bandwidth => STALE,
        }
    }
}

/// A pair of groups to probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Probe {
    /// The group that sends.
    pub from: u32,
    /// The group that answers.
    pub to: u32,
    /// The quantity to measure.
    pub what: WantedProbe,
}

/// The schedule of probes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ProbePlan {
    /// Time of the last probe of each group.
    busy: BTreeMap<u32, Time>,
    asked: BTreeMap<Probe, Time>,
    /// Time at which probes were first selected.
    begun: Option<Time>,
    /// Whether the plan contains round trips only.
    is_of_round_trips: bool,
}

impl ProbePlan {
    /// Creates a plan of round trips only.
    pub fn of_round_trips() -> Self {
        Self { is_of_round_trips: true, ..Self::default() }
    }

    /// Returns the probes that are due among `groups`. If more are due than a group may have, those
    /// come first whose observations are oldest, in relation to the time without an observation
    /// after which they are due. So with many groups, all probes are later, and none is left out. A
    /// quantity that was never observed counts as observed when the first probes were selected.
    /// Each pair is pinged only from the group with the lower number.
    pub fn due(&mut self, now: Time, groups: &[u32], monitor: &LinkMonitor) -> Vec<Probe> {
        let begun = *self.begun.get_or_insert(now);
        let mut due = Vec::new();
        let pairs = groups.iter().flat_map(|&from| groups.iter().map(move |&to| (from, to)));
        for (from, to) in pairs.filter(|(from, to)| from != to) {
            let estimate = monitor.estimate(now, from, to);
            let mut want = |what, observed: Option<Time>, age| {
                let probe = Probe { from, to, what };
                let last = observed.max(self.asked.get(&probe).copied());
                if last.is_none_or(|last| now.since(last) >= age) {
                    let since = now.since(last.unwrap_or(begun)).as_nanos();
                    let lateness = since / u128::from(what.period().as_secs());
                    due.push((Reverse(lateness), what, last, probe));
                }
            };
            if from < to {
                // An increase needs confirmation by more round trips, and the first round trips may
                // have been queued behind a message. Such a probe comes early only if no other is
                // late.
                let is_open = monitor.is_young(from, to) || monitor.is_doubted(from, to);
                let age = if is_open { PAUSE } else { WantedProbe::RoundTrip.period() };
                want(WantedProbe::RoundTrip, estimate.map(|estimate| estimate.observed), age);
            }
            if !self.is_of_round_trips {
                let measured = estimate.and_then(|estimate| estimate.bandwidth_observed);
                want(WantedProbe::Bandwidth, measured, WantedProbe::Bandwidth.period());
            }
        }
        due.sort_unstable();
        let mut probes = Vec::new();
        for (.., probe) in due {
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
    fn among_many_groups_neither_round_trips_nor_bandwidths_are_left_out() {
        let groups: Vec<u32> = (0..12).collect();
        let mut plan = ProbePlan::default();
        let monitor = LinkMonitor::new();
        let mut counts: BTreeMap<Probe, u32> = BTreeMap::new();

        for half in 0..1200 {
            for probe in plan.due(Time(half * SECOND / 2), &groups, &monitor) {
                *counts.entry(probe).or_default() += 1;
            }
        }

        // Each group would need about 1.5 probes a second, and gets one.
        assert_eq!(counts.len(), 66 + 132, "all pairs and all directions");
        let fewest = |what| {
            let of_kind = counts.iter().filter(|(probe, _)| probe.what == what);
            of_kind.map(|(_, &count)| count).min()
        };
        assert!(fewest(WantedProbe::RoundTrip) >= Some(30), "{counts:?}");
        assert!(fewest(WantedProbe::Bandwidth) >= Some(4), "{counts:?}");
    }

    #[test]
    fn a_new_link_is_pinged_often_at_first_and_then_seldom() {
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
    fn pairs_with_recent_observations_are_not_probed() {
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
