//! What each part should weigh and may weigh, also where single vertices are too heavy for that.

use super::tie::Problem;

/// The bounds of a cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) targets: Vec<i64>,
    pub(super) limits: Vec<i64>,
    /// The vertex or the fixed load that no tolerance makes room for.
    pub(super) obstacle: Option<Obstacle>,
}

/// Why some part must weigh more than the tolerance allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// One vertex alone weighs more than any part may.
    HeavyVertex {
        /// The heaviest such vertex.
        vertex: u32,
        /// Its load.
        load: i64,
        /// The most that a part may weigh.
        limit: i64,
    },
    /// What is fixed in a part weighs more than it may.
    FixedLoad {
        /// The part.
        part: u32,
        /// The load fixed in it.
        load: i64,
        /// The most that it may weigh.
        limit: i64,
    },
    /// No assignment within the tolerance was found: few heavy vertices, or the tolerance is
    /// tight.
    TooTight {
        /// The load beyond the limits in all.
        excess: i64,
    },
}

/// The bounds for shares that add up to one. A part that its fixed vertices or one heavy vertex fill gets
/// just these; the others share what is left.
///
/// Returns the part of each vertex that is too heavy for any other vertex beside it.
pub(super) fn bounds(
    problem: &Problem,
    shares: &[f64],
    tolerance: f64,
    start: &[u32],
) -> (Bounds, Vec<(u32, u32)>) {
    let graph = &problem.graph;
    let mut fixed = vec![0_i64; shares.len()];
    let mut heavy: Vec<(i64, u32)> = Vec::new();
    for vertex in 0..graph.len() as u32 {
        let tie = problem.tie(vertex);
        if tie.is_fixed() {
            fixed[tie.home as usize] += graph.load(vertex);
        } else if graph.load(vertex) > 0 {
            heavy.push((graph.load(vertex), vertex));
        }
    }
    let count = shares.len().min(heavy.len());
    if count > 0 {
        heavy.select_nth_unstable_by_key(count - 1, |&(load, vertex)| (-load, vertex));
        heavy.truncate(count);
        heavy.sort_by_key(|&(load, vertex)| (-load, vertex));
    }
    let mut filled = Filled { shares, tolerance, closed: vec![None; shares.len()] };
    let (mut obstacle, mut placed) = (None, Vec::new());
    let mut heavy = heavy.into_iter().peekable();
    loop {
        let (targets, limits) = filled.bounds(graph.total_load());
        let open = |part: &usize| filled.closed[*part].is_none();
        if let Some(part) = (0..shares.len()).filter(open).find(|&p| fixed[p] > limits[p]) {
            let (load, limit) = (fixed[part], limits[part]);
            obstacle.get_or_insert(Obstacle::FixedLoad { part: part as u32, load, limit });
            filled.closed[part] = Some(load);
            continue;
        }
        let empty = (0..shares.len()).filter(open).filter(|&part| fixed[part] == 0);
        let roomiest = empty.max_by_key(|&part| (limits[part], usize::MAX - part));
        let (Some(&(load, vertex)), Some(roomiest)) = (heavy.peek(), roomiest) else {
            return (Bounds { targets, limits, obstacle }, placed);
        };
        if load <= limits[roomiest] {
            return (Bounds { targets, limits, obstacle }, placed);
        }
        heavy.next();
        let home = start.get(vertex as usize).map_or(roomiest, |&part| part as usize);
        let is_as_good =
            open(&home) && fixed[home] == 0 && limits[home] >= limits[roomiest] / 100 * 99;
        let part = if is_as_good { home } else { roomiest };
        obstacle.get_or_insert(Obstacle::HeavyVertex { vertex, load, limit: limits[roomiest] });
        filled.closed[part] = Some(load);
        placed.push((vertex, part as u32));
    }
}

struct Filled<'a> {
    shares: &'a [f64],
    tolerance: f64,
    /// The load of each part that takes nothing more.
    closed: Vec<Option<i64>>,
}

impl Filled<'_> {
    /// The targets and limits of all parts. A limit is at least the target rounded up, so that equal
    /// vertices fit.
    fn bounds(&self, total: i64) -> (Vec<i64>, Vec<i64>) {
        let closed: i64 = self.closed.iter().flatten().sum();
        let left = (total - closed).max(0) as f64;
        let parts = self.shares.iter().zip(&self.closed);
        let open: f64 = parts.filter(|(_, closed)| closed.is_none()).map(|(share, _)| share).sum();
        let of = |(&share, closed): (&f64, &Option<i64>)| match closed {
            Some(load) => (*load, *load),
            None => {
                let target = if open > 0.0 { left * (share / open) } else { 0.0 };
                let limit = (target * (1.0 + self.tolerance)).floor().max(target.ceil());
                (target.round() as i64, (limit as i64).min(total))
            }
        };
        self.shares.iter().zip(&self.closed).map(of).unzip()
    }
}

#[cfg(test)]
mod tests {
    use super::super::graph::Graph;
    use super::super::tie::Tie;
    use super::*;

    fn problem(loads: &[u64], ties: Vec<Tie>) -> Problem {
        Problem { graph: Graph::new(loads, &[]).unwrap(), ties }
    }

    #[test]
    fn limits_are_targets_with_tolerance_but_hold_a_share_of_equal_vertices() {
        let (bounds, placed) = bounds(&problem(&[1; 10], vec![]), &[0.5, 0.25, 0.25], 0.03, &[]);

        assert_eq!(bounds.limits, [5, 3, 3]);
        assert_eq!((bounds.obstacle, placed), (None, vec![]));
    }

    #[test]
    fn a_heavy_vertex_gets_a_part_of_its_own_and_the_others_share_the_rest() {
        let (bounds, placed) =
            bounds(&problem(&[10, 1000, 10, 10], vec![]), &[0.5, 0.5], 0.03, &[]);

        assert_eq!(
            bounds.obstacle,
            Some(Obstacle::HeavyVertex { vertex: 1, load: 1000, limit: 530 })
        );
        assert_eq!(placed, [(1, 0)]);
        assert_eq!(bounds.limits, [1000, 30]);
    }

    #[test]
    fn a_part_overfull_with_fixed_vertices_takes_nothing_more() {
        let ties = vec![Tie::fixed(2), Tie::FREE, Tie::FREE];
        let (bounds, _) = bounds(&problem(&[80, 10, 10], ties), &[0.25, 0.25, 0.5], 0.03, &[]);

        assert_eq!(bounds.obstacle, Some(Obstacle::FixedLoad { part: 2, load: 80, limit: 51 }));
        assert_eq!(bounds.limits, [10, 10, 80]);
    }
}
