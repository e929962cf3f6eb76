//! Coarsening: clusters become vertices, until few vertices are left.

use super::cluster::{ClusterRule, cluster};
use super::graph::{Graph, Rows};
use super::tie::{Problem, Tie};
use gridspan_topology::dice::Dice;

/// A graph made of the clusters of the next finer graph.
#[derive(Clone, Debug)]
pub(super) struct Coarse {
    pub(super) problem: Problem,
    /// The coarse vertex of each finer vertex.
    pub(super) map: Vec<u32>,
}

/// How far to coarsen.
#[derive(Clone, Copy, Debug)]
pub(super) struct CoarsenRule {
    /// Number of vertices at which coarsening stops.
    pub(super) vertices: usize,
    /// Maximum number of visits of each vertex on each level.
    pub(super) rounds: usize,
}

/// Maximum load of a cluster, as a multiple of the average load of a vertex of the finer graph. A
/// small multiple gives refinement more levels.
const SHRINK_MAX: i64 = 6;
/// Coarsening stops if the next graph would keep more than this part of the vertices.
const SHRINK_MIN: f64 = 0.93;
/// Maximum load of a cluster, as a multiple of the average load in the coarsest graph.
const SLACK: f64 = 1.5;
/// Maximum number of visits of each vertex on each level in [`clusters`].
const CLUSTER_ROUNDS: usize = 3;
/// Maximum number of levels, for graphs that shrink ever more slowly.
const LEVELS_MAX: usize = 40;

/// Returns the coarser graphs, finest first. Vertices of different `part`s stay apart; an empty
/// `part` sets no such limit.
pub(super) fn coarsen(
    finest: &Problem,
    part: &[u32],
    rule: CoarsenRule,
    dice: &mut Dice,
) -> Vec<Coarse> {
    let total = finest.graph.total_load();
    let heaviest = (total as f64 / rule.vertices.max(1) as f64 * SLACK) as i64;
    let mut levels: Vec<Coarse> = Vec::new();
    let mut part = part.to_vec();
    while levels.len() < LEVELS_MAX {
        let problem = levels.last().map_or(finest, |level| &level.problem);
        let vertices = problem.len();
        if vertices <= rule.vertices {
            break;
        }
        let share = (total / vertices as i64).saturating_mul(SHRINK_MAX);
        let load_max = heaviest.min(share).max(1);
        let cluster_rule = ClusterRule { load_max, rounds: rule.rounds, part: &part };
        let labels = cluster(problem, cluster_rule, dice);
        let coarse = contract(problem, labels);
        if coarse.problem.len() as f64 > vertices as f64 * SHRINK_MIN {
            break;
        }
        part = project_up(&part, &coarse);
        levels.push(coarse);
    }
    levels
}

/// Returns the cluster of each vertex. The first `counted` vertices are in at most `most` clusters
/// where that is possible. Two vertices stay apart if they are in different `part`s (unless `part`
/// is empty), if only one of them is fixed, or if they are fixed in different homes.
pub(crate) fn clusters(
    graph: Graph,
    ties: Vec<Tie>,
    part: &[u32],
    (counted, most): (usize, usize),
    seed: u64,
) -> Vec<u32> {
    let finest = Problem { graph, ties };
    let rule = CoarsenRule { vertices: most, rounds: CLUSTER_ROUNDS };
    let mut label: Vec<u32> = (0..finest.len() as u32).collect();
    for level in coarsen(&finest, part, rule, &mut Dice::new(seed)) {
        label.iter_mut().for_each(|label| *label = level.map[*label as usize]);
        let mut is_used = vec![false; level.problem.len()];
        label.iter().take(counted).for_each(|&label| is_used[label as usize] = true);
        if is_used.iter().filter(|is_used| **is_used).count() <= most {
            break;
        }
    }
    label
}

/// Returns the part of each coarse vertex. All finer vertices of a coarse one have the same part.
fn project_up(part: &[u32], coarse: &Coarse) -> Vec<u32> {
    if part.is_empty() {
        return Vec::new();
    }
    let mut up = vec![0; coarse.problem.len()];
    for (&part, &cluster) in part.iter().zip(&coarse.map) {
        up[cluster as usize] = part;
    }
    up
}

/// Returns the part of each finer vertex.
pub(super) fn project_down(part: &[u32], map: &[u32]) -> Vec<u32> {
    map.iter().map(|&cluster| part[cluster as usize]).collect()
}

/// Makes one vertex of each cluster.
fn contract(problem: &Problem, mut map: Vec<u32>) -> Coarse {
    let graph = &problem.graph;
    let vertices = graph.len();
    // Clusters are numbered by their first members, so that neighbours in memory stay neighbours.
    let mut number = vec![u32::MAX; vertices];
    let mut count = 0_u32;
    for label in &mut map {
        let number = &mut number[*label as usize];
        if *number == u32::MAX {
            *number = count;
            count += 1;
        }
        *label = *number;
    }
    drop(number);
    let clusters = count as usize;
    let mut first = vec![0_u32; clusters + 1];
    map.iter().for_each(|&cluster| first[cluster as usize + 1] += 1);
    for cluster in 0..clusters {
        first[cluster + 1] += first[cluster];
    }
    let mut next = first.clone();
    let mut members = vec![0_u32; vertices];
    for (vertex, &cluster) in map.iter().enumerate() {
        members[next[cluster as usize] as usize] = vertex as u32;
        next[cluster as usize] += 1;
    }
    let mut rows = Rows::new(clusters, graph.edge_count());
    let mut loads = vec![0_i64; clusters];
    let mut ties = vec![Tie::FREE; if problem.ties.is_empty() { 0 } else { clusters }];
    for cluster in 0..clusters {
        for &member in &members[first[cluster] as usize..first[cluster + 1] as usize] {
            loads[cluster] += graph.load(member);
            if let Some(tie) = ties.get_mut(cluster) {
                *tie = tie.merged(problem.tie(member));
            }
            for (end, weight) in graph.neighbours(member) {
                let end = map[end as usize];
                if end as usize != cluster {
                    rows.add(end, weight);
                }
            }
        }
        rows.close();
    }
    let graph = rows.into_graph(loads, graph.total_load());
    Coarse { problem: Problem { graph, ties }, map }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(vertices: u32) -> Problem {
        let edges: Vec<_> = (0..vertices).map(|v| (v, (v + 1) % vertices, 1)).collect();
        let graph = Graph::new(&vec![1; vertices as usize], &edges).unwrap();
        Problem { graph, ties: Vec::new() }
    }

    #[test]
    fn coarse_graphs_keep_the_load_and_the_weight_between_clusters() {
        let ring = ring(1000);

        let levels =
            coarsen(&ring, &[], CoarsenRule { vertices: 50, rounds: 3 }, &mut Dice::new(1));

        let coarsest = &levels.last().unwrap().problem;
        assert!((30..=70).contains(&coarsest.len()), "{} vertices", coarsest.len());
        assert_eq!(coarsest.graph.loads().iter().sum::<i64>(), 1000);
        let all: Vec<u32> = (0..coarsest.len() as u32).collect();
        let mut fine = all.clone();
        for level in levels.iter().rev() {
            fine = project_down(&fine, &level.map);
        }
        assert_eq!(coarsest.graph.cut(&all), ring.graph.cut(&fine));
    }

    #[test]
    fn parts_and_fixed_vertices_stay_apart() {
        let mut ring = ring(400);
        ring.ties = (0..400).map(|v| if v < 40 { Tie::fixed(v % 2) } else { Tie::FREE }).collect();
        let part: Vec<u32> = (0..400).map(|v| u32::from(v >= 200)).collect();

        let levels =
            coarsen(&ring, &part, CoarsenRule { vertices: 10, rounds: 3 }, &mut Dice::new(2));

        let map = &levels[0].map;
        for (one, other) in (0..400).flat_map(|one| (0..400).map(move |other| (one, other))) {
            if map[one] == map[other] {
                assert_eq!(part[one], part[other]);
                assert_eq!(ring.ties[one].is_fixed(), ring.ties[other].is_fixed());
                assert!(!ring.ties[one].is_fixed() || ring.ties[one].home == ring.ties[other].home);
            }
        }
    }

    #[test]
    fn stars_and_vertices_without_edges_are_coarsened() {
        let star: Vec<_> = (1..500).map(|v| (0, v, 1)).collect();
        let graph = Graph::new(&[1; 1000], &star).unwrap();
        let problem = Problem { graph, ties: Vec::new() };

        let levels =
            coarsen(&problem, &[], CoarsenRule { vertices: 100, rounds: 3 }, &mut Dice::new(3));

        assert!(levels.last().unwrap().problem.len() < 200);
    }
}
