//! Object graphs without a geometry: random, with hubs, power-law, planted, trees and circuits,
//! with weights.

use super::ObjectGraph;
use gridspan_topology::dice::Dice;
use std::collections::BTreeSet;

/// Load of every object in these graphs.
const LOAD: u64 = 1000;

fn unweighted(objects: u32, edges: BTreeSet<(u32, u32)>) -> ObjectGraph {
    let edges = edges.into_iter().map(|(from, to)| (from, to, 1)).collect();
    ObjectGraph { loads: vec![LOAD; objects as usize], edges }
}

/// Adds an edge unless it is a loop or exists already.
fn connect(edges: &mut BTreeSet<(u32, u32)>, one: u32, other: u32) {
    if one != other {
        edges.insert((one.min(other), one.max(other)));
    }
}

/// Returns a chain of objects; edge `i` has the weight `weights[i]`.
pub fn path(weights: &[u64]) -> ObjectGraph {
    let edges = weights.iter().zip(0..).map(|(&weight, at)| (at, at + 1, weight)).collect();
    ObjectGraph { loads: vec![LOAD; weights.len() + 1], edges }
}

/// Returns a graph of edges between uniformly drawn ends, `degree` at each object on average (Erdős
/// and Rényi, 1959).
pub fn random(objects: u32, degree: f64, seed: u64) -> ObjectGraph {
    let mut dice = Dice::new(seed);
    let mut edges = BTreeSet::new();
    for _ in 0..(f64::from(objects) * degree / 2.0) as u64 {
        let (one, other) = (dice.below(objects), dice.below(objects));
        connect(&mut edges, one, other);
    }
    unweighted(objects, edges)
}

/// Returns a graph with hubs: each new object gets edges to `degree` others, or to all if there are
/// fewer, drawn in proportion to their degrees (Barabási and Albert, 1999). `degree` is at least 1.
pub fn skewed(objects: u32, degree: u32, seed: u64) -> ObjectGraph {
    let mut dice = Dice::new(seed);
    let mut ends: Vec<u32> = vec![0];
    let mut edges = Vec::new();
    for object in 1..objects {
        let mut others = BTreeSet::new();
        while others.len() < degree.min(object) as usize {
            others.insert(dice.one_of(&ends));
        }
        edges.extend(others.iter().map(|&other| (object, other, 1)));
        ends.extend(&others);
        ends.extend((0..degree).map(|_| object));
    }
    ObjectGraph { loads: vec![LOAD; objects as usize], edges }
}

/// Returns a graph of edges whose ends are drawn in proportion to the weights `(i + 1)^(-1 /
/// (exponent - 1))`, so that degrees follow a power law of this exponent, above 2 (Chung and Lu,
/// "The average distances in random graphs with given expected degrees", 2002). Objects are
/// numbered in a random order.
pub fn power_law(objects: u32, degree: f64, exponent: f64, seed: u64) -> ObjectGraph {
    let mut dice = Dice::new(seed);
    let mut sums = Vec::with_capacity(objects as usize);
    let mut sum = 0.0;
    for rank in 0..objects {
        sum += f64::from(rank + 1).powf(-1.0 / (exponent - 1.0));
        sums.push(sum);
    }
    let mut name: Vec<u32> = (0..objects).collect();
    dice.shuffle(&mut name);
    let mut edges = BTreeSet::new();
    for _ in 0..(f64::from(objects) * degree / 2.0) as u64 {
        let [one, other] = [(); 2].map(|()| {
            let drawn = dice.unit() * sum;
            name[sums.partition_point(|&sum| sum < drawn).min(name.len() - 1)]
        });
        connect(&mut edges, one, other);
    }
    unweighted(objects, edges)
}

/// Returns groups of equal size, each a random graph of degree `inside`. Each object also has
/// `outside` drawn edges on average, of which only those to other groups are kept. Object `i` is in
/// group `i % groups`.
pub fn planted(objects: u32, groups: u32, inside: f64, outside: f64, seed: u64) -> ObjectGraph {
    let mut dice = Dice::new(seed);
    let mut edges = BTreeSet::new();
    for _ in 0..(f64::from(objects) * inside / 2.0) as u64 {
        let one = dice.below(objects);
        let members = (objects - one % groups).div_ceil(groups);
        let other = one % groups + dice.below(members) * groups;
        connect(&mut edges, one, other);
    }
    for _ in 0..(f64::from(objects) * outside / 2.0) as u64 {
        let (one, other) = (dice.below(objects), dice.below(objects));
        if one % groups != other % groups {
            connect(&mut edges, one, other);
        }
    }
    unweighted(objects, edges)
}

/// Returns a tree in which the parent of each object is drawn from all previous objects.
pub fn tree(objects: u32, seed: u64) -> ObjectGraph {
    let mut dice = Dice::new(seed);
    let edges = (1..objects).map(|object| (dice.below(object), object)).collect();
    unweighted(objects, edges)
}

/// Returns a netlist: rows of equal cells of 31 gates each, most of them in chains and small fans,
/// a carry from each cell to the next and one control net for each eight cells. It is nearly a
/// tree, as arithmetic circuits are.
pub fn circuit(objects: u32, seed: u64) -> ObjectGraph {
    const GATES: u32 = 31;
    let mut dice = Dice::new(seed);
    let mut edges = BTreeSet::new();
    for gate in 1..objects {
        let (cell, place) = (gate / GATES, gate % GATES);
        let first = cell * GATES;
        if place == 0 {
            // The carry, and the control net of the cell.
            connect(&mut edges, gate, gate - 1 - dice.below(4_u32));
            connect(&mut edges, gate, cell / 8 * 8 * GATES);
            continue;
        }
        let near = place.min(5);
        connect(&mut edges, gate, gate - 1 - dice.below(near));
        if dice.unit() < 0.8 {
            connect(&mut edges, gate, first + dice.below(place));
        }
    }
    unweighted(objects, edges)
}

/// Returns the graph with weights of edges and loads of objects drawn from 1 to `most` each, small
/// ones more often.
pub fn weighted(graph: &ObjectGraph, most: u64, seed: u64) -> ObjectGraph {
    let mut dice = Dice::new(seed);
    let mut draw = || ((most as f64).powf(dice.unit()) as u64).clamp(1, most);
    ObjectGraph {
        loads: graph.loads.iter().map(|_| draw()).collect(),
        edges: graph.edges.iter().map(|&(from, to, _)| (from, to, draw())).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn degrees(graph: &ObjectGraph) -> Vec<usize> {
        let mut degrees = vec![0; graph.loads.len()];
        for &(from, to, _) in &graph.edges {
            degrees[from as usize] += 1;
            degrees[to as usize] += 1;
        }
        degrees
    }

    #[test]
    fn degrees_of_a_power_law_have_its_exponent() {
        let mut degrees = degrees(&power_law(50_000, 8.0, 2.5, 1));
        degrees.sort_unstable_by(|a, b| b.cmp(a));

        // The degree at rank r falls as r^(-1 / 1.5): by 10^(2/3) = 4.64 from rank 100 to 1,000.
        let fall = degrees[100] as f64 / degrees[1000] as f64;
        assert!((4.0..5.4).contains(&fall), "{fall}");
    }

    #[test]
    fn generated_graphs_have_the_expected_edges() {
        let graph = planted(1000, 4, 10.0, 1.0, 1);
        let inside = graph.edges.iter().filter(|edge| edge.0 % 4 == edge.1 % 4).count();
        let outside = graph.edges.len() - inside;
        assert!(inside > 4500 && (250..500).contains(&outside), "{inside} and {outside}");

        assert_eq!(tree(100, 1).edges.len(), 99);
        assert!(tree(100, 1).edges.iter().all(|edge| edge.0 < edge.1));
        let hubs = skewed(100, 2, 1).edges;
        assert_eq!(hubs.len(), 1 + 2 * 98);
        assert_eq!(hubs.iter().collect::<BTreeSet<_>>().len(), hubs.len(), "none is there twice");
        assert_eq!(path(&[2, 1, 1]).edges, [(0, 1, 2), (1, 2, 1), (2, 3, 1)]);
    }
}
