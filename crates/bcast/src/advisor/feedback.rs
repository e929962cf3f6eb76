//! Corrects the estimate by the timings of the edges of broadcasts, and chooses the clusters and
//! the pairs of clusters to probe.

use crate::model::{EdgeTiming, NetworkEstimate};
use gridspan_topology::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Smallest relative deviation from the expected time that counts.
const DEVIATION: f64 = 0.2;
/// Pairs with fewer bytes are ignored: their transfers end before they show the bandwidth of a
/// link.
const BYTES_MIN: f64 = 30_000.0;
/// Age at which a pair whose estimate has become worse is probed, since no traffic would show its
/// recovery.
const BAD_AGE: Duration = Duration::from_secs(3);
/// Maximum number of such pairs that are probed at once: those with the oldest measurements. If
/// these have changed, their neighbours follow.
const BAD_PROBES: usize = 3;
/// Bound on [`Feedback::usual`], which is at most this and at least its inverse.
const USUAL_MAX: f64 = 3.0;
/// A pair is bad below this part of its best known bandwidth.
const BAD: f64 = 0.8;
/// Age from which every pair is measured again.
const REFRESH: Duration = Duration::from_secs(300);
/// Time until a probe is requested again.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time until a probe of a pair in doubt is requested again.
const PATIENCE_IN_DOUBT: Duration = Duration::from_secs(1);

/// Something to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbeRequest {
    /// The bandwidth of one transfer from a cluster to another.
    Pair {
        /// The cluster that sends.
        from: usize,
        /// The cluster that receives.
        to: usize,
    },
    /// The bandwidths at which all nodes of a cluster together send to and receive from others.
    Together {
        /// The cluster.
        cluster: usize,
    },
}

/// Keeps the suspicious pairs and clusters, and the times of probe requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Feedback {
    best: BTreeMap<(usize, usize), f64>,
    asked: BTreeMap<ProbeRequest, Time>,
    /// Factor by which transfers usually are faster than expected although the estimate is right.
    /// Its causes are short segments, and effects that the simulation leaves out.
    usual: BTreeMap<(usize, usize), f64>,
    /// The estimated bandwidth before an unexpected transfer, and the ratio of expected to measured
    /// time.
    doubted: BTreeMap<(usize, usize), (f64, f64)>,
    /// Clusters whose outgoing transfers may differ from the estimate, and clusters whose incoming
    /// transfers may.
    suspects: (BTreeSet<usize>, BTreeSet<usize>),
}

impl Feedback {
    /// Compares the edges of a broadcast with the expected ones. Returns whether the estimate
    /// changed.
    pub(super) fn compare(
        &mut self,
        now: Time,
        estimate: &mut NetworkEstimate,
        expected: &[EdgeTiming],
        seen: &[EdgeTiming],
    ) -> bool {
        let mut has_changed = false;
        // Receivers see arrivals, including all pauses; simulations also know the time in which
        // data flowed.
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
            // Edges may have reported only a part of their bytes.
            let expected_s = expected_s * bytes / due;
            let usual = self.usual.get(&(from, to)).copied().unwrap_or(1.0);
            let ratio = expected_s / seen_s / usual;
            if (1.0 - DEVIATION..=1.0 / (1.0 - DEVIATION)).contains(&ratio) {
                continue;
            }
            // The pair has at least the measured rate. The transfers are assumed to have shared
            // its bandwidth as expected.
            let believed = estimate.bandwidth(from, to);
            let rate = (believed * ratio).max(bytes / seen_s);
            self.doubted.entry((from, to)).or_insert((believed, ratio * usual));
            estimate.set_bandwidth(now, from, to, rate);
            self.suspect(from, to);
            has_changed = true;
        }
        has_changed
    }

    /// Marks a changed pair: other transfers out of `from` and into `to` become suspect.
    pub(super) fn suspect(&mut self, from: usize, to: usize) {
        self.suspects.0.insert(from);
        self.suspects.1.insert(to);
    }

    /// Records the answer to a probe. If the bandwidth has changed, other pairs may have changed
    /// too. If a doubted pair has not changed, the expectation was wrong, and this corrects the
    /// pair's usual ratio.
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

    /// Returns the measurements that are due. Suspects come first; recent requests are not
    /// repeated.
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

/// Bytes and seconds between each pair of different clusters, summed over all edges. With
/// `is_arrivals`, they count from the arrival of the first segment; otherwise, all bytes and the
/// times in which they flowed count.
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
