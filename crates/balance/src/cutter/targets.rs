//! Targets and limits for the loads of parts, including cases in which single vertices exceed them.

use super::tie::Problem;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) targets: Vec<i64>,
    /// Maximum load of each part: the tolerated load, or more if vertices are too large to fit in
    /// that.
    pub(super) limits: Vec<i64>,
    /// Maximum load that the tolerance allows.
    pub(super) tolerated: Vec<i64>,
    /// The first reason found why some part must exceed the tolerance, if any.
    pub(super) obstacle: Option<Obstacle>,
}

/// Why some part must exceed the tolerance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The load of one vertex exceeds the limit of every part that holds neither fixed load nor a
    /// heavier vertex.
    HeavyVertex {
        /// The heaviest such vertex.
        vertex: u32,
        /// Its load.
        load: i64,
        /// The greatest of these limits.
        limit: i64,
    },
    /// The load fixed in a part exceeds its limit.
    FixedLoad {
        /// The part.
        part: u32,
        /// The load fixed in it.
        load: i64,
        /// Maximum load of the part.
        limit: i64,
    },
    /// No assignment within the tolerance was found: the vertices are few and heavy, or the
    /// tolerance is tight.
    TooTight {
        /// Total load beyond the limits.
        excess: i64,
    },
}

/// Returns the bounds for shares that add up to one. A part that is filled by its fixed vertices or
/// by one heavy vertex gets only these; the other parts share the rest.
///
/// Also returns the part of each vertex that is too heavy to share a part.
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
        let next = heavy.peek().copied().zip(roomiest);
        let Some(((load, vertex), roomiest)) = next.filter(|next| next.0.0 > limits[next.1]) else {
            let limits = reachable(problem, &filled, &targets, &limits, &placed);
            let tolerated = filled.bounds(graph.total_load()).1;
            return (Bounds { targets, limits, tolerated, obstacle }, placed);
        };
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

/// Returns the limits, raised in proportion to the targets if the vertices are too large to fit;
/// for example, nine vertices of load 1 do not fit into four parts of 2.3. The raised limits allow
/// this packing: each vertex, heaviest first, goes into the part that is then filled least in
/// proportion to its target (R. L. Graham, "Bounds on multiprocessing timing anomalies", 1969).
fn reachable(
    problem: &Problem,
    filled: &Filled<'_>,
    targets: &[i64],
    limits: &[i64],
    placed: &[(u32, u32)],
) -> Vec<i64> {
    let graph = &problem.graph;
    let open: Vec<usize> = (0..limits.len())
        .filter(|&part| filled.closed[part].is_none() && targets[part] > 0)
        .collect();
    let mut loads = vec![0_i64; limits.len()];
    let mut free = Vec::new();
    for vertex in (0..graph.len() as u32).filter(|&vertex| graph.load(vertex) > 0) {
        let tie = problem.tie(vertex);
        match placed.iter().find(|placed| placed.0 == vertex) {
            Some(_) => {}
            None if tie.is_fixed() => loads[tie.home as usize] += graph.load(vertex),
            None => free.push((graph.load(vertex), vertex)),
        }
    }
    let heaviest = free.iter().map(|&(load, _)| load).max().unwrap_or(0);
    let room: i64 = open.iter().map(|&part| limits[part] - loads[part]).sum();
    let slack = room - free.iter().map(|&(load, _)| load).sum::<i64>();
    // At any time, the room in all open parts is the load of the remaining vertices plus the
    // slack. So the part with the most room has room for at least `slack / open.len()`, and all
    // vertices fit if the heaviest one is not larger than that.
    if open.is_empty() || heaviest <= slack / open.len() as i64 {
        return limits.to_vec();
    }
    free.sort_by_key(|&(load, vertex)| (-load, vertex));
    let fullness = |part: usize, load: i64| load as f64 / targets[part] as f64;
    for (load, _) in free {
        let emptiest = open.iter().copied().min_by(|&one, &other| {
            fullness(one, loads[one] + load).total_cmp(&fullness(other, loads[other] + load))
        });
        if let Some(part) = emptiest {
            loads[part] += load;
        }
    }
    if open.iter().all(|&part| loads[part] <= limits[part]) {
        return limits.to_vec();
    }
    let fullest = open.iter().map(|&part| fullness(part, loads[part])).fold(0.0, f64::max);
    let mut raised = limits.to_vec();
    for part in open {
        let least = (targets[part] as f64 * fullest).round() as i64;
        raised[part] = limits[part].max(least).max(loads[part]).min(graph.total_load());
    }
    raised
}

/// Number of units in a share of 1. Shares add up to 1, so that the product of a load and a share
/// in these units has less than 128 bits.
const SHARE_UNIT: f64 = (1_u64 << 60) as f64;

struct Filled<'a> {
    shares: &'a [f64],
    tolerance: f64,
    /// The load of each part that takes no more vertices.
    closed: Vec<Option<i64>>,
}

impl Filled<'_> {
    /// Returns the targets and limits of all parts. A limit is at least the target rounded up, so
    /// that equal vertices fit.
    fn bounds(&self, total: i64) -> (Vec<i64>, Vec<i64>) {
        let closed: i64 = self.closed.iter().flatten().sum();
        let left = (total - closed).max(0);
        // In whole numbers, equal shares give exactly equal targets, even for sums beyond 2^53.
        let whole = |share: f64| (share * SHARE_UNIT) as u128;
        let parts = self.shares.iter().zip(&self.closed);
        let open: u128 =
            parts.filter(|(_, closed)| closed.is_none()).map(|(&share, _)| whole(share)).sum();
        let of = |(&share, closed): (&f64, &Option<i64>)| match closed {
            Some(load) => (*load, *load),
            None => {
                let product = left as u128 * whole(share);
                let (low, high) = match open {
                    0 => (0, 0),
                    _ => ((product / open) as i64, product.div_ceil(open) as i64),
                };
                let tolerated = (product as f64 / open.max(1) as f64) * (1.0 + self.tolerance);
                let is_high = product % open.max(1) >= open.div_ceil(2);
                let target = if is_high { high } else { low };
                (target, (tolerated as i64).max(high).min(total))
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
    fn limits_include_the_tolerance_and_hold_a_share_of_equal_vertices() {
        let (bounds, placed) = bounds(&problem(&[1; 10], vec![]), &[0.5, 0.25, 0.25], 0.03, &[]);

        assert_eq!(bounds.limits, [5, 3, 3]);
        assert_eq!((bounds.obstacle, placed), (None, vec![]));
    }

    #[test]
    fn limits_are_raised_if_large_vertices_do_not_fit() {
        let limits = |problem: &Problem| bounds(problem, &[0.25; 4], 0.03, &[]).0.limits;

        assert_eq!(limits(&problem(&[1000; 9], vec![])), [3000; 4]);
        assert_eq!(limits(&problem(&[1000; 8], vec![])), [2060; 4]);
        // The parts get 7 and 4, 6 and 5, 6 and 5, and 5 and 5: 43 in total, 10.75 on average.
        assert_eq!(limits(&problem(&[7, 6, 6, 5, 5, 5, 5, 4], vec![])), [11; 4]);
    }

    #[test]
    fn equal_shares_of_great_loads_are_equal_to_the_last_unit() {
        // As a double, the sum is 2^61: half of it would be less than one of the vertices.
        let load = (1_u64 << 60) + 1;
        let (bounds, placed) = bounds(&problem(&[load; 2], vec![]), &[0.5; 2], 0.0, &[]);

        assert_eq!(bounds.targets, [load as i64; 2]);
        assert_eq!((bounds.obstacle, placed), (None, vec![]));
    }

    #[test]
    fn a_heavy_vertex_gets_a_separate_part_and_the_others_share_the_rest() {
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
    fn a_part_overfull_with_fixed_vertices_takes_no_free_vertices() {
        let ties = vec![Tie::fixed(2), Tie::FREE, Tie::FREE];
        let (bounds, _) = bounds(&problem(&[80, 10, 10], ties), &[0.25, 0.25, 0.5], 0.03, &[]);

        assert_eq!(bounds.obstacle, Some(Obstacle::FixedLoad { part: 2, load: 80, limit: 51 }));
        assert_eq!(bounds.limits, [10, 10, 80]);
    }
}
