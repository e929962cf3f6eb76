//! Samples links from the statistics of their open connections, without additional packets.

use super::event::LinkStats;
use super::observed_controller::Acknowledged;
use gridspan_topology::{Bandwidth, LinkSample, NodeId};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Period of the samples.
const EVERY: Duration = Duration::from_millis(500);
/// Least span of a sample that shows that this node did not run for a part of that time. Then the
/// node, and not the network, may have limited the rate.
const LATE: Duration = Duration::from_secs(1);
/// Bytes per period below which a connection is quiet: heartbeats and acknowledgements alone are
/// less.
const QUIET_BYTES: u64 = 4 << 10;
/// Number of periods from one sample of a quiet connection to the next.
const QUIET_LOOKS: u32 = 8;

/// Statistics of each connection at the last sample.
pub(super) struct Sampler {
    last: BTreeMap<NodeId, LinkStats>,
    looked: Instant,
    looks: u32,
}

impl Sampler {
    pub(super) fn new(now: Instant) -> Self {
        Self { last: BTreeMap::new(), looked: now, looks: 0 }
    }

    /// Returns the time of the next sample.
    pub(super) fn due(&self) -> Instant {
        self.looked + EVERY
    }

    /// Returns a sample of each connection since the last call. A quiet connection is sampled in
    /// one of [`QUIET_LOOKS`] calls only. `stats` also gives what was acknowledged on each
    /// connection since the last call.
    pub(super) fn look(
        &mut self,
        now: Instant,
        stats: impl Iterator<Item = (NodeId, LinkStats, Acknowledged)>,
    ) -> Vec<(NodeId, LinkSample)> {
        let span = now.duration_since(std::mem::replace(&mut self.looked, now));
        self.looks = self.looks.wrapping_add(1);
        let mut samples = Vec::new();
        for (node, stats, acknowledged) in stats {
            if !stats.is_open {
                self.last.remove(&node);
                continue;
            }
            // The first call that finds a new connection only records its statistics.
            let last = self.last.insert(node, stats);
            let Some(last) = last.filter(|last| last.connections == stats.connections) else {
                continue;
            };
            let is_quiet = stats.bytes_sent.saturating_sub(last.bytes_sent) < QUIET_BYTES;
            let is_turn = self.looks.wrapping_add(node.0).is_multiple_of(QUIET_LOOKS);
            if !is_quiet || is_turn {
                samples.push((node, sample(&stats, &last, span, acknowledged)));
            }
        }
        samples
    }
}

fn sample(
    stats: &LinkStats,
    last: &LinkStats,
    span: Duration,
    Acknowledged { round_trip, bytes }: Acknowledged,
) -> LinkSample {
    let rate = bytes as f64 * 8.0 / span.as_secs_f64().max(1e-3);
    // Frames waited at both samples, and only the network limited the rate: neither flow control
    // nor a pause of one of the nodes. A node that answers nothing is stopped or cut off.
    let is_full = stats.is_backed_up
        && last.is_backed_up
        && stats.stops == last.stops
        && bytes > 0
        && span < LATE;
    LinkSample {
        round_trip,
        rate: Some(Bandwidth::from_bits_per_second(rate as u64)),
        is_full,
        sent: stats.packets_sent.saturating_sub(last.packets_sent),
        lost: stats.packets_lost.saturating_sub(last.packets_lost),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId(3);

    fn stats(bytes_sent: u64, stops: u64) -> LinkStats {
        LinkStats {
            is_open: true,
            rtt: Duration::from_millis(20),
            is_backed_up: true,
            bytes_sent,
            stops,
            connections: 1,
            ..LinkStats::default()
        }
    }

    /// Takes a sample after this time, in which these bytes were acknowledged.
    fn look(
        sampler: &mut Sampler,
        after: Duration,
        stats: LinkStats,
        bytes: u64,
    ) -> Option<LinkSample> {
        let acknowledged = Acknowledged { round_trip: None, bytes };
        let now = sampler.looked + after;
        let samples = sampler.look(now, [(NODE, stats, acknowledged)].into_iter());
        assert!(samples.len() < 2);
        samples.first().map(|&(_, sample)| sample)
    }

    #[test]
    fn a_sample_has_the_rate_since_the_last_one_and_whether_frames_waited() {
        let mut sampler = Sampler::new(Instant::now());
        assert_eq!(look(&mut sampler, EVERY, stats(0, 0), 99), None);
        let sample = look(&mut sampler, EVERY, stats(500_000, 0), 125_000).unwrap();
        assert_eq!(sample.rate, Some(Bandwidth::from_bits_per_second(2_000_000)));
        assert!(sample.is_full);
        let sample = look(&mut sampler, EVERY, stats(600_000, 1), 125_000).unwrap();
        assert!(!sample.is_full, "flow control of the receiver limited the rate");
    }

    #[test]
    fn the_rate_of_a_frame_that_takes_several_samples_is_that_of_its_packets() {
        let mut sampler = Sampler::new(Instant::now());
        look(&mut sampler, EVERY, stats(0, 0), 0);
        // The session acknowledges the whole frame in the last period.
        for sent in 1..=3 {
            let bytes_acknowledged = if sent == 3 { 18_000_000 } else { 0 };
            let stats = LinkStats { bytes_acknowledged, ..stats(sent * 6_000_000, 0) };
            let sample = look(&mut sampler, EVERY, stats, 6_000_000).unwrap();
            assert_eq!(sample.rate, Some(Bandwidth::from_bits_per_second(96_000_000)));
        }
    }

    #[test]
    fn a_pause_of_a_node_does_not_make_its_link_slow() {
        let mut sampler = Sampler::new(Instant::now());
        look(&mut sampler, EVERY, stats(0, 0), 0);

        let other = look(&mut sampler, EVERY, stats(50_000, 0), 0).unwrap();
        let own = look(&mut sampler, Duration::from_secs(60), stats(100_000, 0), 50_000).unwrap();

        assert!(!other.is_full, "the other node did not answer");
        assert!(!own.is_full, "this node did not run");
    }

    #[test]
    fn a_quiet_connection_is_sampled_in_every_eighth_period() {
        let mut sampler = Sampler::new(Instant::now());
        let reports = (1..18).filter(|_| look(&mut sampler, EVERY, stats(1, 0), 1).is_some());
        assert_eq!(reports.count(), 2);
    }
}
