//! Finds the clusters that coarsening contracts: each vertex joins neighbours to which it has heavy
//! edges.
//!
//! Size-constrained label propagation (Raghavan et al., 2007; Meyerhenke, Sanders and Schulz,
//! 2014): among the clusters with room for its load, a vertex joins the one to which its edges
//! weigh most. Vertices that remain single, such as those around a hub in a full cluster, then join
//! other single vertices whose strongest neighbour is in the same cluster.

use super::order::random_order;
use super::tie::Problem;
use gridspan_topology::dice::Dice;

/// Up to this degree, labels are compared in a short list instead of a table of all labels.
const SHORT: usize = 12;
/// Rounds end when fewer than one vertex in `FEW` moved.
const FEW: usize = 50;

/// Which vertices may share a cluster, and how large a cluster may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClusterRule<'a> {
    /// Maximum load of a cluster of several vertices.
    pub(super) load_max: i64,
    /// Maximum number of visits of each vertex.
    pub(super) rounds: usize,
    /// The part of each vertex: only vertices of one part may share a cluster. Empty if all may.
    pub(super) part: &'a [u32],
}

/// Returns the cluster of each vertex. A cluster has the number of the vertex that it started from.
pub(super) fn cluster(problem: &Problem, rule: ClusterRule<'_>, dice: &mut Dice) -> Vec<u32> {
    let vertices = problem.len();
    let mut clusters = Clusters {
        problem,
        rule,
        label: (0..vertices as u32).collect(),
        loads: problem.graph.loads().to_vec(),
        table: vec![0; vertices],
        touched: Vec::new(),
    };
    for _ in 0..rule.rounds {
        let moved =
            random_order(dice, vertices).into_iter().filter(|&v| clusters.visit(v, dice)).count();
        if moved * FEW < vertices {
            break;
        }
    }
    clusters.join_single_vertices(dice);
    clusters.label
}

struct Clusters<'a> {
    problem: &'a Problem,
    rule: ClusterRule<'a>,
    label: Vec<u32>,
    /// Load of each cluster.
    loads: Vec<i64>,
    /// Weight of the edges to each label; zero between visits.
    table: Vec<i64>,
    touched: Vec<u32>,
}

impl Clusters<'_> {
    /// Returns whether two vertices may share a cluster.
    #[inline]
    fn may_join(&self, one: u32, other: u32) -> bool {
        let part = self.rule.part;
        if !part.is_empty() && part[one as usize] != part[other as usize] {
            return false;
        }
        if self.problem.ties.is_empty() {
            return true;
        }
        let (one, other) = (self.problem.tie(one), self.problem.tie(other));
        one.is_fixed() == other.is_fixed() && (!one.is_fixed() || one.home == other.home)
    }

    /// Moves a vertex to the best cluster; returns whether it moved.
    fn visit(&mut self, vertex: u32, dice: &mut Dice) -> bool {
        let from = self.label[vertex as usize];
        let best = if self.problem.graph.degree(vertex) <= SHORT {
            self.best_of_few(vertex, from, dice)
        } else {
            self.best_of_many(vertex, from, dice)
        };
        match best {
            Some(to) if to != from => {
                let load = self.problem.graph.load(vertex);
                self.loads[from as usize] -= load;
                self.loads[to as usize] += load;
                self.label[vertex as usize] = to;
                true
            }
            _ => false,
        }
    }

    fn best_of_few(&self, vertex: u32, from: u32, dice: &mut Dice) -> Option<u32> {
        let mut list = [(0_u32, 0_i64); SHORT];
        let mut length = 0;
        for (end, weight) in self.problem.graph.neighbours(vertex) {
            let label = self.label[end as usize];
            match list[..length].iter_mut().find(|entry| entry.0 == label) {
                Some(entry) => entry.1 += weight,
                None => {
                    list[length] = (label, weight);
                    length += 1;
                }
            }
        }
        self.best(vertex, from, list[..length].iter().copied(), dice)
    }

    fn best_of_many(&mut self, vertex: u32, from: u32, dice: &mut Dice) -> Option<u32> {
        let mut touched = std::mem::take(&mut self.touched);
        for (end, weight) in self.problem.graph.neighbours(vertex) {
            let label = self.label[end as usize];
            if self.table[label as usize] == 0 {
                touched.push(label);
            }
            self.table[label as usize] += weight;
        }
        let weights = touched.iter().map(|&label| (label, self.table[label as usize]));
        let best = self.best(vertex, from, weights, dice);
        touched.drain(..).for_each(|label| self.table[label as usize] = 0);
        self.touched = touched;
        best
    }

    /// Returns the label with most weight among those with room; ties are broken by dice.
    #[inline]
    fn best(
        &self,
        vertex: u32,
        from: u32,
        weights: impl Iterator<Item = (u32, i64)>,
        dice: &mut Dice,
    ) -> Option<u32> {
        let load = self.problem.graph.load(vertex);
        let (mut best, mut most, mut equals) = (None, 0, 1_u32);
        for (label, weight) in weights {
            if weight < most {
                continue;
            }
            let has_room = label == from
                || (self.loads[label as usize] <= self.rule.load_max - load
                    && self.may_join(vertex, label));
            if !has_room {
                continue;
            }
            if weight > most {
                (best, most, equals) = (Some(label), weight, 1);
            } else {
                equals += 1;
                if dice.below(equals) == 0 {
                    best = Some(label);
                }
            }
        }
        best
    }

    /// Joins vertices that are alone in their cluster if their strongest neighbours are in one
    /// cluster, or if they have no neighbours.
    fn join_single_vertices(&mut self, dice: &mut Dice) {
        let vertices = self.problem.len();
        let mut size = vec![0_u32; vertices];
        self.label.iter().for_each(|&label| size[label as usize] += 1);
        let no_hub = vertices;
        // The open cluster of single vertices around each hub; the last entry is for vertices
        // without neighbours.
        let mut open = vec![u32::MAX; vertices + 1];
        for vertex in random_order(dice, vertices) {
            let label = self.label[vertex as usize];
            if label != vertex || size[label as usize] != 1 {
                continue;
            }
            let strongest = self.problem.graph.neighbours(vertex).max_by_key(|edge| edge.1);
            let hub = strongest.map_or(no_hub, |(end, _)| self.label[end as usize] as usize);
            let load = self.problem.graph.load(vertex);
            let host = open[hub];
            let fits = host != u32::MAX
                && self.loads[host as usize] <= self.rule.load_max - load
                && self.may_join(vertex, host);
            if fits {
                self.label[vertex as usize] = host;
                self.loads[host as usize] += load;
                self.loads[vertex as usize] = 0;
                size[host as usize] += 1;
            } else {
                open[hub] = vertex;
            }
        }
    }
}
