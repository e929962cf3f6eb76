//! The known links between the servers of a registry, and the choice of those to measure next. The
//! module performs no I/O; time is an argument.

use gridspan_topology::{LinkEstimate, LinkMonitor, LinkSample, NodeId, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// Largest number of links that a server measures at once.
const DUE_MAX: usize = 8;
/// Time after which a link is measured again if there are up to [`SERVERS_PER_AGE`] servers. With
/// more servers the time is a multiple, so that no server measures more often.
const AGE: Duration = Duration::from_secs(20);
/// Number of servers that add one [`AGE`] to the time between two measurements of a link.
const SERVERS_PER_AGE: u32 = 8;
/// Largest number of links in one answer. They take some hundred kilobytes, and arrive before the
/// client stops waiting even over a slow link.
pub(crate) const LINKS_MAX: usize = 512;
/// Largest round trip that is accepted from a server.
const ROUND_TRIP_MAX: Duration = Duration::from_secs(3600);
/// Number of measurement intervals after which the bandwidth of a link is measured again, unless a
/// transfer has shown it meanwhile.
const RATE_AGES: u32 = 10;

/// A link and its estimate.
pub(crate) type Estimated = ((u32, u32), LinkEstimate);

/// Links by the numbers of their sending and receiving servers.
#[derive(Debug, Default)]
pub(crate) struct LinkTable {
    monitor: LinkMonitor,
    /// Time when each link was last due.
    asked: BTreeMap<(u32, u32), Time>,
    /// Time when the bandwidth of each link was last measured.
    rated: BTreeMap<(u32, u32), Time>,
    /// Number of changes of all links.
    version: u64,
    /// Number of the last change of each link.
    seen: BTreeMap<(u32, u32), u64>,
    /// The links of `seen`, by the numbers of their last changes.
    by_version: BTreeMap<u64, (u32, u32)>,
}

impl LinkTable {
    /// Records a server's observation of the link from another server to it.
    pub(crate) fn observe(&mut self, now: Time, link: (u32, u32), sample: LinkSample) {
        let round_trip = sample.round_trip.filter(|round_trip| *round_trip <= ROUND_TRIP_MAX);
        let sample = LinkSample { round_trip, ..sample };
        self.monitor.observe(now, link, (NodeId(link.0), NodeId(link.1)), sample);
        if sample.rate.is_some() {
            self.rated.insert(link, now);
        }
        self.monitor.remember(now, link.0, link.1);
        self.changed(link);
        // A round trip measures the other direction as well.
        self.changed((link.1, link.0));
    }

    fn changed(&mut self, link: (u32, u32)) {
        self.version += 1;
        if let Some(before) = self.seen.insert(link, self.version) {
            self.by_version.remove(&before);
        }
        self.by_version.insert(self.version, link);
    }

    /// Returns which of the `others` have a link to the server `to` that it should measure now, and
    /// whether to measure its bandwidth too. Links measured least recently come first.
    pub(crate) fn due(&mut self, now: Time, to: u32, others: &[u32]) -> Vec<(u32, bool)> {
        let servers = others.len() as u32 + 1;
        let age = AGE * servers.div_ceil(SERVERS_PER_AGE);
        let last = |from: u32| self.asked.get(&(from, to)).copied();
        let is_due = |from: &u32| last(*from).is_none_or(|asked| now.since(asked) >= age);
        let mut due: Vec<u32> = others.iter().copied().filter(is_due).collect();
        due.sort_by_key(|&from| (last(from), from));
        due.truncate(DUE_MAX);
        self.asked.extend(due.iter().map(|&from| ((from, to), now)));
        let is_rated = |from| {
            let rated = self.rated.get(&(from, to));
            rated.is_some_and(|&rated| now.since(rated) < age * RATE_AGES)
        };
        due.into_iter().map(|from| (from, !is_rated(from))).collect()
    }

    /// Returns all estimates.
    pub(crate) fn estimates(&self, now: Time) -> Vec<Estimated> {
        self.monitor.estimates(now).collect()
    }

    /// Returns the version of the answer, and the estimates of links that changed after `version`:
    /// the first [`LINKS_MAX`] if there are more. The cost is proportional to the answer.
    pub(crate) fn since(&self, version: u64, now: Time) -> (u64, Vec<Estimated>) {
        let seen = self.by_version.range(version.saturating_add(1)..);
        let known = |(version, link): (&u64, &(u32, u32))| {
            let estimate = self.monitor.estimate(now, link.0, link.1)?;
            Some((*version, (*link, estimate)))
        };
        let (versions, links): (Vec<u64>, Vec<Estimated>) =
            seen.filter_map(known).take(LINKS_MAX).unzip();
        let last = versions.last().filter(|_| versions.len() == LINKS_MAX);
        (last.copied().unwrap_or(self.version), links)
    }

    /// Removes all links of a server.
    pub(crate) fn leave(&mut self, number: u32) {
        self.monitor.forget(number);
        let is_other = |link: &(u32, u32)| link.0 != number && link.1 != number;
        self.asked.retain(|link, _| is_other(link));
        self.rated.retain(|link, _| is_other(link));
        self.seen.retain(|link, _| is_other(link));
        self.by_version.retain(|_, link| is_other(link));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_topology::Bandwidth;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    fn sample(millis: u64, mbit: Option<u64>) -> LinkSample {
        let rate = mbit.map(|mbit| Bandwidth::from_bits_per_second(mbit * 1_000_000));
        let round_trip = Some(Duration::from_millis(millis));
        LinkSample { round_trip, rate, is_full: true, ..LinkSample::default() }
    }

    #[test]
    fn estimates_are_kept_and_hold_in_both_directions() {
        let mut link_table = LinkTable::default();
        link_table.observe(at(1), (0, 1), sample(40, Some(50)));

        let known: BTreeMap<_, _> = link_table.estimates(at(100)).into_iter().collect();

        let there = known[&(0, 1)];
        assert_eq!(there.latency.duration(), Duration::from_millis(20));
        assert_eq!(there.bandwidth, Some(Bandwidth::from_bits_per_second(50_000_000)));
        assert_eq!(known[&(1, 0)].latency, there.latency);
        link_table.leave(0);
        assert!(link_table.estimates(at(100)).is_empty());
    }

    #[test]
    fn impossible_round_trips_are_ignored() {
        let mut link_table = LinkTable::default();
        let longest = LinkSample { round_trip: Some(Duration::MAX), ..sample(0, None) };
        link_table.observe(at(1), (0, 1), longest);
        link_table.observe(at(2), (0, 1), sample(40, None));

        link_table.observe(at(3), (0, 1), longest);

        let known: BTreeMap<_, _> = link_table.estimates(at(4)).into_iter().collect();
        assert_eq!(known[&(0, 1)].latency.duration(), Duration::from_millis(20));
    }

    #[test]
    fn only_links_that_changed_after_a_version_are_returned() {
        let mut link_table = LinkTable::default();
        for to in 1..10 {
            link_table.observe(at(1), (0, to), sample(40, None));
        }
        let (version, all) = link_table.since(0, at(2));
        assert_eq!((all.len(), link_table.since(version, at(2))), (18, (version, vec![])));

        link_table.observe(at(3), (0, 1), sample(20, None));
        link_table.leave(2);

        let (newer, changed) = link_table.since(version, at(3));
        let links: Vec<(u32, u32)> = changed.iter().map(|(link, _)| *link).collect();
        assert_eq!((newer > version, links), (true, vec![(0, 1), (1, 0)]));
        assert_eq!(changed[0].1.latency.duration(), Duration::from_millis(10));
        assert_eq!(link_table.since(0, at(3)).1.len(), 16);
        assert_eq!(link_table.since(u64::MAX, at(3)).1, vec![]);
    }

    #[test]
    fn many_changed_links_are_returned_in_parts() {
        let (mut link_table, mut told) = (LinkTable::default(), Vec::new());
        let others = LINKS_MAX as u32;
        (1..=others).for_each(|to| link_table.observe(at(1), (0, to), sample(40, None)));

        let mut version = 0;
        for count in [LINKS_MAX, LINKS_MAX, 0] {
            let (newer, links) = link_table.since(version, at(2));
            assert_eq!((links.len(), newer > version), (count, count > 0));
            version = newer;
            told.extend(links.into_iter().map(|(link, _)| link));
        }

        let all: Vec<_> = (1..=others).flat_map(|to| [(0, to), (to, 0)]).collect();
        assert_eq!(told, all);
    }

    #[test]
    fn links_are_measured_in_turn_and_then_not_for_a_while() {
        let mut link_table = LinkTable::default();
        let others: Vec<u32> = (1..=10).collect();

        let first = link_table.due(at(0), 0, &others);
        let second = link_table.due(at(1), 0, &others);

        assert_eq!(first.len(), DUE_MAX);
        assert_eq!(second, [(9, true), (10, true)]);
        assert!(link_table.due(at(2), 0, &others).is_empty());
        link_table.observe(at(2), (1, 0), sample(1, Some(10)));
        let again = link_table.due(at(60), 0, &others);
        assert_eq!(again[0], (1, false), "its bandwidth is known");
    }
}
