//! What the edges of a broadcast say of the network, and what to look at more closely.

use crate::fluid::EdgeTiming;
use crate::network::Belief;
use gridspan_topology::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A transfer that took longer or shorter by less than this says nothing.
const DEVIATION: f64 = 0.2;
/// Edges that carried less are over before they show what a link can do.
const BYTES_MIN: f64 = 30_000.0;
/// Pairs believed to be worse than they were once are looked at this often, since recovery is not seen otherwise:
/// one into and one out of each cluster, and the others if that one has changed.
const BAD_AGE: Duration = Duration::from_secs(10);
/// A pair is bad below this part of the best that was known of it.
const BAD: f64 = 0.8;
/// Everything is measured anew after so long.
const REFRESH: Duration = Duration::from_secs(300);
/// A probe is not wished for again before this time.
const PATIENCE: Duration = Duration::from_secs(5);

/// Something to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wish {
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
    asked: BTreeMap<Wish, Time>,
    suspects: BTreeSet<usize>,
}

impl Feedback {
    /// Compares the edges of a broadcast with what was expected of them; whether the belief changed.
    pub(super) fn compare(
        &mut self,
        now: Time,
        belief: &mut Belief,
        expected: &[EdgeTiming],
        seen: &[EdgeTiming],
    ) -> bool {
        let mut has_changed = false;
        let expected = by_pair(belief, expected);
        for ((from, to), (bytes, seen_s)) in by_pair(belief, seen) {
            let Some(&(_, expected_s)) = expected.get(&(from, to)) else { continue };
            if bytes < BYTES_MIN || seen_s <= 0.0 {
                continue;
            }
            let ratio = expected_s / seen_s;
            if (1.0 - DEVIATION..=1.0 / (1.0 - DEVIATION)).contains(&ratio) {
                continue;
            }
            // The transfers had at most what the pair can do, and shared that as expected.
            let rate = (belief.bandwidth(from, to) * ratio).max(bytes / seen_s);
            belief.set_bandwidth(now, from, to, rate);
            self.suspects.extend([from, to]);
            has_changed = true;
        }
        has_changed
    }

    /// Links whose measure came by another way, or differs: all of these clusters' links are in doubt.
    pub(super) fn suspect(&mut self, clusters: [usize; 2]) {
        self.suspects.extend(clusters);
    }

    /// A probe was answered. What is not as it was may not be alone.
    pub(super) fn probed(&mut self, (from, to): (usize, usize), before: f64, now: f64) {
        if (now / before - 1.0).abs() > DEVIATION {
            self.suspect([from, to]);
        }
    }

    /// What should be measured now. Suspects come first; what was asked for lately is not asked again.
    pub(super) fn wishes(&mut self, now: Time, belief: &Belief) -> Vec<Wish> {
        let clusters = belief.clusters();
        let suspects = std::mem::take(&mut self.suspects);
        let mut wanted: BTreeSet<(bool, Wish)> = BTreeSet::new();
        let mut bad_out: BTreeMap<usize, Option<(Time, usize, usize)>> = BTreeMap::new();
        let mut bad_in = bad_out.clone();
        for from in 0..clusters {
            for to in (0..clusters).filter(|&to| to != from) {
                let bandwidth = belief.bandwidth(from, to);
                let best = self.best.entry((from, to)).or_insert(bandwidth);
                *best = best.max(bandwidth);
                let age = now.since(belief.measured(from, to));
                let is_suspect = suspects.contains(&from) || suspects.contains(&to);
                if is_suspect || age >= REFRESH {
                    let rank = !is_suspect;
                    wanted.insert((rank, Wish::Pair { from, to }));
                    let ends = [from, to].map(|cluster| Wish::Together { cluster });
                    wanted.extend(ends.map(|wish| (rank, wish)));
                } else if age >= BAD_AGE && bandwidth < BAD * *best {
                    let oldest = |chosen: &mut Option<(Time, usize, usize)>| {
                        let candidate = (belief.measured(from, to), from, to);
                        *chosen = Some(chosen.map_or(candidate, |other| other.min(candidate)));
                    };
                    oldest(bad_out.entry(from).or_default());
                    oldest(bad_in.entry(to).or_default());
                }
            }
        }
        let bad = bad_out.into_values().chain(bad_in.into_values()).flatten();
        wanted.extend(bad.map(|(_, from, to)| (true, Wish::Pair { from, to })));
        let asked = &mut self.asked;
        asked.retain(|_, at| now.since(*at) < PATIENCE);
        let mut wishes = Vec::new();
        for (_, wish) in wanted {
            if let std::collections::btree_map::Entry::Vacant(place) = asked.entry(wish) {
                place.insert(now);
                wishes.push(wish);
            }
        }
        wishes
    }
}

/// Bytes and flowing time between each pair of different clusters, of all edges together.
fn by_pair(belief: &Belief, edges: &[EdgeTiming]) -> BTreeMap<(usize, usize), (f64, f64)> {
    let mut pairs: BTreeMap<(usize, usize), (f64, f64)> = BTreeMap::new();
    for edge in edges {
        let (from, to) = (belief.cluster_of(edge.from), belief.cluster_of(edge.to));
        if from != to {
            let pair = pairs.entry((from, to)).or_default();
            *pair = (pair.0 + edge.bytes, pair.1 + edge.flowing_s);
        }
    }
    pairs
}
