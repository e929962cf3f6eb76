//! Finds the cheapest tree of directed edges from a root.
//!
//! Y. Chu and T. Liu (1965), J. Edmonds (1967): each vertex takes its cheapest incoming edge. A
//! cycle is contracted to one vertex, the cost of an edge into it is reduced by that of the edge it
//! replaces, and the smaller problem is solved again.

/// Returns the parent of each vertex; the root is its own parent. `cost` gives the cost of an edge
/// from one vertex to another, infinite where there is none. `None` if the root does not reach all
/// vertices. Takes time of the order of the cube of the number of vertices.
pub(super) fn cheapest(
    count: usize,
    root: usize,
    cost: &dyn Fn(usize, usize) -> f64,
) -> Option<Vec<usize>> {
    let mut edges = Vec::with_capacity(count * count);
    for from in 0..count {
        for to in (0..count).filter(|&to| to != from && to != root) {
            let cost = cost(from, to);
            if cost.is_finite() {
                edges.push(Edge { from, to, cost });
            }
        }
    }
    let chosen = solve(count, root, &edges)?;
    let mut parents: Vec<usize> = (0..count).collect();
    for place in chosen {
        parents[edges[place].to] = edges[place].from;
    }
    Some(parents)
}

struct Edge {
    from: usize,
    to: usize,
    cost: f64,
}

/// The indices of the chosen edges.
fn solve(count: usize, root: usize, edges: &[Edge]) -> Option<Vec<usize>> {
    let mut cheapest: Vec<Option<usize>> = vec![None; count];
    for (place, edge) in edges.iter().enumerate() {
        let best = &mut cheapest[edge.to];
        if best.is_none_or(|other| edge.cost < edges[other].cost) {
            *best = Some(place);
        }
    }
    if (0..count).any(|vertex| vertex != root && cheapest[vertex].is_none()) {
        return None;
    }
    let above = |vertex: usize| cheapest[vertex].map(|place| edges[place].from);
    let Some(cycle) = find_cycle(count, root, &above) else {
        return Some((0..count).filter(|&v| v != root).filter_map(|v| cheapest[v]).collect());
    };
    // Vertices outside the cycle get their own numbers; those on it share the last number.
    let next = count - cycle.len();
    let mut number = vec![next; count];
    let others = (0..count).filter(|vertex| !cycle.contains(vertex));
    others.enumerate().for_each(|(new, vertex)| number[vertex] = new);
    let mut inner = Vec::with_capacity(edges.len());
    let mut origin = Vec::with_capacity(edges.len());
    for (place, edge) in edges.iter().enumerate() {
        let (from, to) = (number[edge.from], number[edge.to]);
        if from != to {
            let replaced = match cheapest[edge.to] {
                Some(other) if to == next => edges[other].cost,
                _ => 0.0,
            };
            inner.push(Edge { from, to, cost: edge.cost - replaced });
            origin.push(place);
        }
    }
    let chosen = solve(next + 1, number[root], &inner)?;
    let mut chosen: Vec<usize> = chosen.into_iter().map(|place| origin[place]).collect();
    let entered = chosen.iter().find(|&&place| number[edges[place].to] == next);
    let entered = entered.map(|&place| edges[place].to);
    let kept = cycle.iter().filter(|&&vertex| Some(vertex) != entered);
    chosen.extend(kept.filter_map(|&vertex| cheapest[vertex]));
    Some(chosen)
}

fn find_cycle(
    count: usize,
    root: usize,
    above: &dyn Fn(usize) -> Option<usize>,
) -> Option<Vec<usize>> {
    // 0 if not visited, otherwise the number of the walk that visited it.
    let mut walk = vec![0; count];
    walk[root] = usize::MAX;
    for start in 0..count {
        let mut vertex = start;
        while walk[vertex] == 0 {
            walk[vertex] = start + 1;
            vertex = above(vertex)?;
        }
        if walk[vertex] == start + 1 {
            let mut cycle = vec![vertex];
            let mut next = above(vertex)?;
            while next != vertex {
                cycle.push(next);
                next = above(next)?;
            }
            return Some(cycle);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_cycle_of_cheap_edges_is_broken_where_it_costs_least() {
        // The edges between 1 and 2 are cheap; from the root to them they cost 10 and 8.
        let cost = |from, to| match (from, to) {
            (1, 2) | (2, 1) => 1.0,
            (0, 1) => 10.0,
            (0, 2) => 8.0,
            _ => f64::INFINITY,
        };

        assert_eq!(cheapest(3, 0, &cost), Some(vec![0, 2, 0]));
    }

    #[test]
    fn there_is_no_tree_if_the_root_does_not_reach_all_vertices() {
        assert_eq!(
            cheapest(3, 0, &|from, to| if from + to == 1 { 1.0 } else { f64::INFINITY }),
            None
        );
    }

    proptest! {
        #[test]
        fn no_tree_is_cheaper(costs in prop::collection::vec(1..100_u32, 25)) {
            let cost = |from: usize, to: usize| f64::from(costs[5 * from + to]);
            let found = cheapest(5, 0, &cost).unwrap();
            let sum = |parents: &[usize]| (1..5).map(|v| cost(parents[v], v)).sum::<f64>();

            let mut best = f64::INFINITY;
            for code in 0..625_usize {
                let parents = [0, code % 5, code / 5 % 5, code / 25 % 5, code / 125];
                let is_tree = (1..5).all(|mut v| {
                    (0..5).any(|_| { v = parents[v]; v == 0 })
                });
                if is_tree { best = best.min(sum(&parents)); }
            }

            prop_assert!((sum(&found) - best).abs() < 1e-9, "{found:?}: {} not {best}", sum(&found));
        }
    }
}
