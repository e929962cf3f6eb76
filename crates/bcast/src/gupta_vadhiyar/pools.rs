//! Pools: nodes that reach each other at a share of the greatest bandwidth (Gupta and Vadhiyar,
//! 2006, section 2.4).

use crate::model::LinkMatrix;

/// Divides `nodes` into pools. A node joins the first pool in which its bandwidth to and from each
/// node is at least `percent` of the greatest bandwidth among `nodes`, including that inside a
/// class (the diagonal of the matrix).
///
/// The text requires the *average* of a pool to reach the share, but the pools that the paper
/// derives from its Table 1 only follow if *every* pair does, so that is implemented here.
pub fn form_pools(links: &LinkMatrix, nodes: &[u32], percent: f64) -> Vec<Vec<u32>> {
    let bandwidth = |from: u32, to: u32| links.bandwidth(from as usize, to as usize);
    let pairs = nodes.iter().flat_map(|&from| nodes.iter().map(move |&to| (from, to)));
    let most = pairs.map(|(from, to)| bandwidth(from, to)).fold(0.0, f64::max);
    // The matrix stores inverse bandwidths, so that equal ones may differ in the last bit.
    let least = most * percent / 100.0 * (1.0 - 1e-9);
    let mut pools: Vec<Vec<u32>> = Vec::new();
    for &node in nodes {
        let fits = |pool: &&mut Vec<u32>| {
            let near = |&other: &u32| bandwidth(node, other).min(bandwidth(other, node)) >= least;
            pool.iter().all(near)
        };
        match pools.iter_mut().find(fits) {
            Some(pool) => pool.push(node),
            None => pools.push(vec![node]),
        }
    }
    pools
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Table 1 of the paper, Mbit/s. Its last column covers h7 and h8.
    fn table_1() -> LinkMatrix {
        let rows: [[f64; 8]; 8] = [
            [100.0, 80.0, 80.0, 60.0, 60.0, 20.0, 10.0, 10.0],
            [80.0, 100.0, 80.0, 60.0, 60.0, 20.0, 10.0, 10.0],
            [80.0, 80.0, 100.0, 60.0, 60.0, 20.0, 10.0, 10.0],
            [60.0, 60.0, 60.0, 100.0, 80.0, 40.0, 50.0, 50.0],
            [60.0, 60.0, 60.0, 80.0, 100.0, 40.0, 50.0, 50.0],
            [20.0, 20.0, 20.0, 40.0, 40.0, 100.0, 30.0, 30.0],
            [10.0, 10.0, 10.0, 50.0, 50.0, 30.0, 100.0, 80.0],
            [10.0, 10.0, 10.0, 50.0, 50.0, 30.0, 80.0, 100.0],
        ];
        LinkMatrix::new((0..8).collect(), vec![0.0; 8], |from, to| (0.0, rows[from][to] * 125e3))
    }

    #[test]
    fn the_pools_of_table_1_are_those_of_the_paper() {
        let nodes: Vec<u32> = (0..8).collect();

        let twenty = form_pools(&table_1(), &nodes, 20.0);
        let seventy = form_pools(&table_1(), &nodes, 70.0);

        assert_eq!(twenty, [vec![0, 1, 2, 3, 4, 5], vec![6, 7]]);
        assert_eq!(seventy, [vec![0, 1, 2], vec![3, 4], vec![5], vec![6, 7]]);
    }
}
