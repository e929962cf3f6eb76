//! Other methods that find clusters in a matrix of round-trip times.
//!
//! None of these repairs the matrix beyond taking the lesser of both directions; missing pairs
//! count as far apart.

use gridspan_topology::{NodeId, RttMatrix};

/// A published or obvious method. It finds partitions, each finer than the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// Rank 0 gathers the latency vectors of all processes; row by row, each process not yet in a
    /// cluster forms one with all other such processes that are nearer than a threshold. Koenig and
    /// Kalé (2007), section 4.1, describe it without details; the threshold is the default of their
    /// runtime, 1 ms.
    RowScan,
    /// Nodes linked by pairs below 0.3 ms form a cluster, below 3 ms a site.
    FixedThresholds,
    /// Single linkage, cut at the largest gap between joining distances.
    SingleLinkage,
    /// Average linkage, cut at the largest gap between joining distances.
    AverageLinkage,
}

impl Baseline {
    /// All methods.
    pub const ALL: [Self; 4] =
        [Self::RowScan, Self::FixedThresholds, Self::SingleLinkage, Self::AverageLinkage];

    /// Returns the name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RowScan => "row scan at 1 ms",
            Self::FixedThresholds => "fixed 0.3/3 ms",
            Self::SingleLinkage => "single linkage + gap",
            Self::AverageLinkage => "UPGMA + gap",
        }
    }

    /// Returns the group of each node at each level below the whole, coarsest first.
    pub fn partitions(self, matrix: &RttMatrix) -> Vec<Vec<u32>> {
        let distances = Distances::new(matrix);
        match self {
            Self::RowScan => vec![row_scan(&distances, 1.0)],
            Self::FixedThresholds => {
                let merges = distances.linked(f64::min);
                [3.0, 0.3].into_iter().map(|ms| cut(&merges, matrix.nodes(), ms)).collect()
            }
            Self::SingleLinkage => by_gap(&distances.linked(f64::min), matrix.nodes()),
            Self::AverageLinkage => {
                let merges = distances.linked_by_size();
                by_gap(&merges, matrix.nodes())
            }
        }
    }
}

/// Round-trip times in milliseconds, each the lesser of both directions.
#[derive(Clone)]
struct Distances(Vec<Vec<f64>>);

/// A join of two groups, given by an item of each, and their distance.
type Join = (usize, usize, f64);

impl Distances {
    fn new(matrix: &RttMatrix) -> Self {
        let one_way = |a: usize, b: usize| {
            let rtt = matrix.rtt(NodeId::from(a), NodeId::from(b));
            rtt.map_or(f64::INFINITY, |rtt| (rtt.as_secs_f64() * 1e3).max(1e-4))
        };
        let row = |a| (0..matrix.nodes()).map(|b| one_way(a, b).min(one_way(b, a))).collect();
        Self((0..matrix.nodes()).map(row).collect())
    }

    fn linked(&self, join: impl Fn(f64, f64) -> f64) -> Vec<Join> {
        self.agglomerate(|a, b, _, _| join(a, b))
    }

    fn linked_by_size(&self) -> Vec<Join> {
        self.agglomerate(|a, b, m, n| (a * m + b * n) / (m + n))
    }

    /// Joins the two nearest groups until one is left, in O(n²) memory and about O(n²) time. Each
    /// group stores its nearest group, and searches again only when that group changes.
    fn agglomerate(&self, join: impl Fn(f64, f64, f64, f64) -> f64) -> Vec<Join> {
        let mut d = self.0.clone();
        let mut size = vec![1.0; d.len()];
        let mut alive: Vec<usize> = (0..d.len()).collect();
        let nearest_of = |d: &[Vec<f64>], alive: &[usize], a: usize| {
            let others = alive.iter().filter(|&&b| b != a).map(|&b| (d[a][b], b));
            others.min_by(|x, y| x.0.total_cmp(&y.0)).unwrap_or((f64::INFINITY, a))
        };
        let mut near: Vec<(f64, usize)> = (0..d.len()).map(|a| nearest_of(&d, &alive, a)).collect();
        let mut joins = Vec::new();
        while alive.len() > 1 {
            let best = alive.iter().copied().min_by(|&a, &b| near[a].0.total_cmp(&near[b].0));
            let Some(a) = best else { break };
            let (height, b) = near[a];
            joins.push((a, b, height));
            alive.retain(|&item| item != b);
            for &other in alive.iter().filter(|&&other| other != a) {
                let joined = join(d[a][other], d[b][other], size[a], size[b]);
                (d[a][other], d[other][a]) = (joined, joined);
            }
            size[a] += size[b];
            near[a] = nearest_of(&d, &alive, a);
            for &other in alive.iter().filter(|&&other| other != a) {
                if near[other].1 == a || near[other].1 == b {
                    near[other] = nearest_of(&d, &alive, other);
                }
            }
        }
        joins.sort_by(|x, y| x.2.total_cmp(&y.2));
        joins
    }
}

fn row_scan(distances: &Distances, threshold_ms: f64) -> Vec<u32> {
    let mut clusters = vec![None; distances.0.len()];
    let mut next = 0;
    for (row, distance) in distances.0.iter().enumerate() {
        if clusters[row].is_none() {
            for (other, cluster) in clusters.iter_mut().enumerate() {
                if other == row || (cluster.is_none() && distance[other] < threshold_ms) {
                    *cluster = Some(next);
                }
            }
            next += 1;
        }
    }
    clusters.into_iter().flatten().collect()
}

/// Returns one cut in the middle of the largest gap between the logarithms of joining distances.
fn by_gap(joins: &[Join], items: usize) -> Vec<Vec<u32>> {
    let gaps = joins.windows(2).map(|pair| (pair[1].2 / pair[0].2, (pair[0].2 * pair[1].2).sqrt()));
    let widest = gaps.filter(|gap| gap.0.is_finite()).max_by(|a, b| a.0.total_cmp(&b.0));
    widest.map(|(_, at)| cut(joins, items, at)).into_iter().collect()
}

fn cut(joins: &[Join], items: usize, limit_ms: f64) -> Vec<u32> {
    let mut groups: Vec<u32> = (0..items as u32).collect();
    for &(a, b, _) in joins.iter().take_while(|join| join.2 <= limit_ms) {
        let (from, to) = (groups[b], groups[a]);
        groups.iter_mut().filter(|group| **group == from).for_each(|group| *group = to);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::networks::{NetworkShape, Noise, Synthetic};
    use gridspan_topology::adjusted_rand_index;

    #[test]
    fn each_baseline_finds_the_clusters_of_two_levels_without_noise() {
        let network = Synthetic::new(NetworkShape::TwoLevel, 48, 1).with_noise(Noise::NONE);
        for baseline in Baseline::ALL {
            let partitions = baseline.partitions(&network.matrix());
            let finest = partitions.last().unwrap();
            assert_eq!(adjusted_rand_index(finest, network.clusters()), 1.0, "{baseline:?}");
        }
    }

    #[test]
    fn one_threshold_does_not_find_three_levels() {
        let network = Synthetic::new(NetworkShape::ThreeLevel, 64, 1);
        let partitions = Baseline::RowScan.partitions(&network.matrix());
        assert!(adjusted_rand_index(&partitions[0], network.clusters()) < 0.9);
    }
}
