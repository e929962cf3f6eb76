//! What open connections show of their links, without a packet of its own.

use super::event::LinkStats;
use gridspan_topology::{Bandwidth, LinkSample, NodeId};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How often.
const EVERY: Duration = Duration::from_millis(500);

/// The figures of each connection when they were last looked at.
pub(super) struct Sampler {
    last: BTreeMap<NodeId, LinkStats>,
    looked: Instant,
}

impl Sampler {
    pub(super) fn new(now: Instant) -> Self {
        Self { last: BTreeMap::new(), looked: now }
    }

    /// When to look next.
    pub(super) fn due(&self) -> Instant {
        self.looked + EVERY
    }

    /// What each connection shows since the last look; nothing for those on which nothing was sent.
    pub(super) fn look(
        &mut self,
        now: Instant,
        stats: impl Iterator<Item = (NodeId, LinkStats)>,
    ) -> Vec<(NodeId, LinkSample)> {
        let span = now.duration_since(std::mem::replace(&mut self.looked, now));
        let mut samples = Vec::new();
        for (node, stats) in stats {
            if !stats.is_open {
                self.last.remove(&node);
                continue;
            }
            // A new connection counts from its first look on.
            let last = self.last.insert(node, stats);
            let Some(last) = last.filter(|last| last.connections == stats.connections) else {
                continue;
            };
            let sent = stats.packets_sent - last.packets_sent.min(stats.packets_sent);
            if sent > 0 {
                samples.push((node, sample(&stats, &last, sent, span)));
            }
        }
        samples
    }
}

fn sample(stats: &LinkStats, last: &LinkStats, sent: u64, span: Duration) -> LinkSample {
    let bytes = stats.bytes_sent.saturating_sub(last.bytes_sent);
    let rate = bytes as f64 * 8.0 / span.as_secs_f64().max(1e-3);
    LinkSample {
        round_trip: Some(stats.rtt),
        rate: Some(Bandwidth::from_bits_per_second(rate as u64)),
        // More was waiting than the connection lets under way, at both looks.
        is_full: [stats, last].iter().all(|at| at.bytes_unacknowledged >= at.congestion_window),
        sent,
        lost: stats.packets_lost.saturating_sub(last.packets_lost),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(packets_sent: u64, bytes_sent: u64, bytes_unacknowledged: u64) -> LinkStats {
        LinkStats {
            is_open: true,
            rtt: Duration::from_millis(20),
            congestion_window: 10_000,
            packets_sent,
            bytes_sent,
            bytes_unacknowledged,
            connections: 1,
            ..LinkStats::default()
        }
    }

    #[test]
    fn a_connection_shows_its_rate_since_the_last_look_and_whether_it_was_full() {
        let begin = Instant::now();
        let mut sampler = Sampler::new(begin);
        let node = NodeId(3);
        let at = |half: u32| begin + EVERY * half;
        assert_eq!(sampler.look(at(1), [(node, stats(1, 0, 20_000))].into_iter()), []);
        let samples = sampler.look(at(2), [(node, stats(101, 125_000, 20_000))].into_iter());
        let (_, sample) = samples[0];
        assert_eq!(sample.rate, Some(Bandwidth::from_bits_per_second(2_000_000)));
        assert_eq!((sample.sent, sample.is_full), (100, true));
        let samples = sampler.look(at(3), [(node, stats(102, 125_100, 0))].into_iter());
        assert!(!samples[0].1.is_full);
        assert_eq!(sampler.look(at(4), [(node, stats(102, 125_100, 0))].into_iter()), []);
    }
}
