//! The graphs that are cut.

use gridspan_studies::graphs::{
    ObjectGraph, circuit, geometric, grid_2d, grid_3d, leanmd, path, planted, power_law, random,
    skewed, tree, triangulation, weighted,
};

/// A graph, and the numbers of parts into which it is cut.
pub(crate) struct Case {
    pub(crate) kind: &'static str,
    pub(crate) name: &'static str,
    pub(crate) objects: fn() -> ObjectGraph,
    pub(crate) parts: &'static [u32],
    pub(crate) seeds: u64,
    /// Number of runs with each seed; the shortest time counts.
    pub(crate) rounds: u32,
}

const PARTS: &[u32] = &[2, 8, 32, 128];
const FEW: &[u32] = &[2, 3, 4, 8];

const fn case(
    kind: &'static str,
    name: &'static str,
    objects: fn() -> ObjectGraph,
    parts: &'static [u32],
) -> Case {
    Case { kind, name, objects, parts, seeds: 3, rounds: 1 }
}

const fn tiny(name: &'static str, objects: fn() -> ObjectGraph) -> Case {
    Case { kind: "tiny", name, objects, parts: FEW, seeds: 10, rounds: 3 }
}

pub(crate) fn all() -> Vec<Case> {
    vec![
        tiny("path 16", || path(&[1; 15])),
        tiny("path 50", || path(&[1; 49])),
        tiny("path 24 weighted", || weighted(&path(&[1; 23]), 100, 1)),
        tiny("grid 5x6", || grid_2d(5, 6)),
        tiny("grid 7x7", || grid_2d(7, 7)),
        tiny("random 16", || random(16, 4.0, 1)),
        tiny("random 30", || random(30, 4.0, 1)),
        tiny("random 50", || random(50, 5.0, 1)),
        tiny("random 40 weighted", || weighted(&random(40, 5.0, 2), 100, 1)),
        tiny("planted 48", || planted(48, 4, 6.0, 1.0, 1)),
        tiny("power law 50", || power_law(50, 4.0, 2.5, 1)),
        tiny("tree 50", || tree(50, 1)),
        tiny("tree 50 weighted", || weighted(&tree(50, 2), 100, 2)),
        case("mesh", "grid 50x60", || grid_2d(50, 60), PARTS),
        case("mesh", "grid 200x240", || grid_2d(200, 240), PARTS),
        case("mesh", "cube 12", || grid_3d(12), PARTS),
        case("mesh", "cube 32", || grid_3d(32), PARTS),
        case("mesh", "triangulation 60", || triangulation(60, 1), PARTS),
        case("mesh", "triangulation 200", || triangulation(200, 1), PARTS),
        case("mesh", "geometric 2500", || geometric(2500, 10.0, 1), PARTS),
        case("mesh", "geometric 10k d30", || geometric(10_000, 30.0, 1), PARTS),
        case("mesh", "geometric 40k", || geometric(40_000, 10.0, 1), PARTS),
        case("leanmd", "leanmd 6", || leanmd(6, 1), PARTS),
        case("leanmd", "leanmd 19", || leanmd(19, 1), PARTS),
        case("circuit", "circuit 2k", || circuit(2000, 1), PARTS),
        case("circuit", "circuit 5k", || circuit(4960, 2), PARTS),
        case("circuit", "circuit 20k", || circuit(20_000, 3), PARTS),
        case("tree", "tree 5k", || tree(5000, 1), PARTS),
        case("tree", "tree 50k", || tree(50_000, 1), PARTS),
        case("random", "random 3k", || random(3000, 6.0, 1), PARTS),
        case("random", "planted 3k", || planted(3000, 16, 8.0, 2.0, 1), PARTS),
        case("random", "planted 20k", || planted(20_000, 32, 8.0, 2.0, 1), PARTS),
        case("weighted", "grid 60x60", || weighted(&grid_2d(60, 60), 100, 1), PARTS),
        case("weighted", "triangulation 100", || weighted(&triangulation(100, 2), 30, 1), PARTS),
        case("weighted", "geometric 5k", || weighted(&geometric(5000, 8.0, 2), 100, 1), PARTS),
        case("weighted", "random 2k", || weighted(&random(2000, 6.0, 2), 100, 1), PARTS),
        case("power", "exponent 2.1, 20k", || power_law(20_000, 8.0, 2.1, 1), PARTS),
        case("power", "exponent 2.5, 20k", || power_law(20_000, 8.0, 2.5, 1), PARTS),
        case("power", "exponent 2.1, 100k", || power_law(100_000, 8.0, 2.1, 1), PARTS),
        case("power", "exponent 2.5, 100k", || power_law(100_000, 8.0, 2.5, 1), PARTS),
        case("power", "exponent 3, 100k", || power_law(100_000, 6.0, 3.0, 1), PARTS),
        case("power", "preferential 100k", || skewed(100_000, 4, 1), PARTS),
    ]
}
