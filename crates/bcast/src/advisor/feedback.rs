//! What the edges of a broadcast say of the network, and what to look at more closely.

use crate::model::{EdgeTiming, NetworkEstimate};
use gridspan_topology::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A transfer that took longer or shorter by less than this says nothing.
const DEVIATION: f64 = 0.2;
/// Edges that carried less are over before they show what a link can do.
const BYTES_MIN: f64 = 30_000.0;
/// Pairs believed to be worse than they were once are looked at after this time, since recovery is
/// not seen otherwise: the few that were not for longest, and others if those have changed.
const BAD_AGE: Duration = Duration::from_secs(3);
const BAD_PROBES: usize = 3;
/// Transfers are not taken to be usually faster or slower than expected by more than this factor.
const USUAL_MAX: f64 = 3.0;
/// A pair is bad below this part of the best that was known of it.
const BAD: f64 = 0.8;
/// Everything is measured anew after so long.
const REFRESH: Duration = Duration::from_secs(300);
/// A probe is not wished for again before this time; one of a pair that is doubted, before that.
const PATIENCE: Duration = Duration::from_secs(5);
const PATIENCE_IN_DOUBT: Duration = Duration::from_secs(1);

/// Something to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbeRequest {
    /// What one transfer from a cluster to another gets.
    Pair {
        /// The cluster that sends.
        from: usize,
        /// The cluster that receives.
        to: usize,
    },
    /// What all nodes of a cluster together can send to and receive from others.
    Together {
        /// The cluster.
        cluster: usize,
    },
}

/// Remembers what is suspicious, and when what was asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Feedback {
    best: BTreeMap<(usize, usize), f64>,
    asked: BTreeMap<ProbeRequest, Time>,
    /// How much faster transfers usually are than expected though the estimate is right: short
    /// segments, and whatever the simulation leaves out.
    usual: BTreeMap<(usize, usize), f64>,
    /// What was believed before a transfer was not as expected, and its ratio.
    doubted: BTreeMap<(usize, usize), (f64, f64)>,
    /// Clusters that may send and receive otherwise than believed.
    suspects: (BTreeSet<usize>, BTreeSet<usize>),
}

impl Feedback {
    /// Compares the edges of a broadcast with what was expected of them; whether the estimate
    /// changed.
    pub(super) fn compare(
        &mut self,
        now: Time,
        estimate: &mut NetworkEstimate,
        expected: &[EdgeTiming],
        seen: &[EdgeTiming],
    ) -> bool {
        let mut has_changed = false;
        // Receivers see arrivals, with all pauses between; simulations also know what flowed.
        let is_arrivals = seen.iter().all(|edge| edge.later.1 > 0.0);
        let looked_at: BTreeSet<(u32, u32)> =
            seen.iter().map(|edge| (edge.from, edge.to)).collect();
        let expected: Vec<EdgeTiming> = expected
            .iter()
            .filter(|edge| looked_at.contains(&(edge.from, edge.to)))
            .copied()
            .collect();
        let expected = by_pair(estimate, &expected, is_arrivals);
        for ((from, to), (bytes, seen_s)) in by_pair(estimate, seen, is_arrivals) {
            let Some(&(due, expected_s)) = expected.get(&(from, to)) else { continue };
            if bytes < BYTES_MIN || seen_s <= 0.0 || due <= 0.0 {
                continue;
            }
            // Edges may have reported in part only.
            let expected_s = expected_s * bytes / due;
            let usual = self.usual.get(&(from, to)).copied().unwrap_or(1.0);
            let ratio = expected_s / seen_s / usual;
            if (1.0 - DEVIATION..=1.0 / (1.0 - DEVIATION)).contains(&ratio) {
                continue;
            }
            // The transfers had at most what the pair can do, and shared that as expected.
            let believed = estimate.bandwidth(from, to);
            let rate = (believed * ratio).max(bytes / seen_s);
            self.doubted.entry((from, to)).or_insert((believed, ratio * usual));
            estimate.set_bandwidth(now, from, to, rate);
            self.suspect(from, to);
            has_changed = true;
        }
        has_changed
    }

    /// This way is not as it was: what else leaves the one cluster or enters the other is in doubt.
    pub(super) fn suspect(&mut self, from: usize, to: usize) {
        self.suspects.0.insert(from);
        self.suspects.1.insert(to);
    }

    /// A probe was answered. What is not as it was may not be alone; if it is, then it was wrong to
    /// expect transfers to be faster or slower than they are.
    pub(super) fn probed(&mut self, (from, to): (usize, usize), before: f64, now: f64) {
        let is_near = |one: f64| (now / one - 1.0).abs() <= DEVIATION;
        match self.doubted.remove(&(from, to)) {
            Some((believed, ratio)) if is_near(believed) => {
                let usual = ratio.clamp(1.0 / USUAL_MAX, USUAL_MAX);
                self.usual.insert((from, to), usual);
            }
            _ if !is_near(before) => self.suspect(from, to),
            _ => {}
        }
    }

    /// What should be measured now. Suspects come first; what was asked for lately is not asked
    /// again.
    pub(super) fn probe_requests(
        &mut self,
        now: Time,
        estimate: &NetworkEstimate,
    ) -> Vec<ProbeRequest> {
        let clusters = estimate.clusters();
        let suspects = std::mem::take(&mut self.suspects);
        let mut wanted: BTreeSet<(bool, ProbeRequest)> = BTreeSet::new();
        let mut bad: Vec<(Time, usize, usize)> = Vec::new();
        for from in 0..clusters {
            for to in (0..clusters).filter(|&to| to != from) {
                let bandwidth = estimate.bandwidth(from, to);
                let best = self.best.entry((from, to)).or_insert(bandwidth);
                *best = best.max(bandwidth);
                let age = now.since(estimate.measured(from, to));
                let is_suspect = suspects.0.contains(&from) || suspects.1.contains(&to);
                if is_suspect || age >= REFRESH {
                    let rank = !is_suspect;
                    wanted.insert((rank, ProbeRequest::Pair { from, to }));
                    let is_doubted = |cluster: &usize| {
                        !is_suspect || suspects.0.contains(cluster) || suspects.1.contains(cluster)
                    };
                    let ends = [from, to].into_iter().filter(is_doubted);
                    wanted.extend(ends.map(|cluster| (rank, ProbeRequest::Together { cluster })));
                } else if age >= BAD_AGE && bandwidth < BAD * *best {
                    bad.push((estimate.measured(from, to), from, to));
                }
            }
        }
        bad.sort_unstable();
        bad.truncate(BAD_PROBES);
        wanted.extend(bad.into_iter().map(|(_, from, to)| (true, ProbeRequest::Pair { from, to })));
        let doubted = |request: &ProbeRequest| match *request {
            ProbeRequest::Pair { from, to } => self.doubted.contains_key(&(from, to)),
            ProbeRequest::Together { .. } => false,
        };
        wanted.extend(
            self.doubted.keys().map(|&(from, to)| (false, ProbeRequest::Pair { from, to })),
        );
        let asked = &mut self.asked;
        asked.retain(|request, at| {
            now.since(*at) < if doubted(request) { PATIENCE_IN_DOUBT } else { PATIENCE }
        });
        let mut probe_requests = Vec::new();
        for (_, request) in wanted {
            if let std::collections::btree_map::Entry::Vacant(place) = asked.entry(request) {
                place.insert(now);
                probe_requests.push(request);
            }
        }
        probe_requests
    }
}

/// Bytes and the time they took between each pair of different clusters, of all edges together: by
/// arrivals behind the first segment, or by flowing times.
fn by_pair(
    estimate: &NetworkEstimate,
    edges: &[EdgeTiming],
    is_arrivals: bool,
) -> BTreeMap<(usize, usize), (f64, f64)> {
    let mut pairs: BTreeMap<(usize, usize), (f64, f64)> = BTreeMap::new();
    for edge in edges {
        let (from, to) = (estimate.cluster_of(edge.from), estimate.cluster_of(edge.to));
        if from != to {
            let pair = pairs.entry((from, to)).or_default();
            let (bytes, took_s) =
                if is_arrivals { edge.later } else { (edge.bytes, edge.flowing_s) };
            *pair = (pair.0 + bytes, pair.1 + took_s);
        }
    }
    pairs
}
