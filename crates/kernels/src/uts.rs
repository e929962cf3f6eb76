//! The trees of Unbalanced Tree Search: each node's SHA-1 state determines the number of its
//! children and their states.
//!
//! Source: Olivier and others, "UTS: An Unbalanced Tree Search Benchmark", LCPC 2006. The trees are
//! the published samples.

use serde::{Deserialize, Serialize};
use sha1::{Digest, Sha1};
use std::f64::consts::PI;

/// Maximum number of children of a node with a geometric distribution.
const MAX_CHILDREN: f64 = 100.0;

/// Dependence of the mean number of children on the depth, in a geometric tree.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Profile {
    /// Falls linearly to zero at the full depth.
    Linear,
    /// Oscillates five times, with the full depth as period, and is zero below.
    Cyclic,
    /// Constant above the full depth, and zero from there on.
    Fixed,
}

/// The distribution of the number of children.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum TreeShape {
    /// Geometric distribution whose mean depends on the depth.
    Geometric {
        /// Dependence of the mean on the depth.
        profile: Profile,
        /// The full depth.
        depth: u32,
    },
    /// `children` with probability `q`, otherwise none; the root has as many children as the
    /// branching factor.
    Binomial {
        /// Probability of children.
        q: f64,
        /// Number of children, if any.
        children: u32,
    },
    /// Geometric above half of the full depth, binomial below.
    Hybrid {
        /// Dependence of the geometric part's mean on the depth.
        profile: Profile,
        /// The full depth.
        depth: u32,
        /// Probability of children in the binomial part.
        q: f64,
        /// Number of children there, if any.
        children: u32,
    },
}

/// The parameters of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct UtsTree {
    /// Distribution of the number of children.
    pub shape: TreeShape,
    /// Mean number of children near the root.
    pub branching: f64,
    /// Seed of the root.
    pub seed: u32,
}

/// A node of a tree.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Node {
    state: [u8; 20],
    depth: u32,
}

impl UtsTree {
    /// Returns the root.
    pub fn root(&self) -> Node {
        let hash = Sha1::new_with_prefix([0; 16]).chain_update(self.seed.to_be_bytes());
        Node { state: hash.finalize().into(), depth: 0 }
    }

    /// Returns the number of children of a node.
    pub fn children(&self, node: &Node) -> u32 {
        match self.shape {
            TreeShape::Geometric { profile, depth } => self.geometric(node, profile, depth),
            TreeShape::Binomial { q, children } => self.binomial(node, q, children),
            TreeShape::Hybrid { profile, depth, .. } if node.depth < depth / 2 => {
                self.geometric(node, profile, depth)
            }
            TreeShape::Hybrid { q, children, .. } => self.binomial(node, q, children),
        }
    }

    fn geometric(&self, node: &Node, profile: Profile, full: u32) -> u32 {
        let (depth, full) = (f64::from(node.depth), f64::from(full));
        let mean = match profile {
            _ if node.depth == 0 => self.branching,
            Profile::Linear => self.branching * (1.0 - depth / full),
            Profile::Cyclic if depth > 5.0 * full => 0.0,
            Profile::Cyclic => self.branching.powf((2.0 * PI * depth / full).sin()),
            Profile::Fixed if depth < full => self.branching,
            Profile::Fixed => 0.0,
        };
        let p = 1.0 / (1.0 + mean);
        let children = ((1.0 - node.uniform()).ln() / (1.0 - p).ln()).floor();
        children.min(MAX_CHILDREN) as u32
    }

    fn binomial(&self, node: &Node, q: f64, children: u32) -> u32 {
        match node.depth {
            0 => self.branching as u32,
            _ if node.uniform() < q => children,
            _ => 0,
        }
    }

    /// Counts all nodes in one loop, without tasks.
    pub fn census(&self) -> TreeCounts {
        let mut census = TreeCounts::default();
        let mut open = vec![self.root()];
        while let Some(node) = open.pop() {
            let children = self.children(&node);
            census.count(&node, children);
            open.extend((0..children).map(|child| node.child(child)));
        }
        census
    }
}

impl Node {
    /// Returns the child with this number, from 0.
    // Not inlined: inlined into the visit of a node, it would store the parts of the hashed block
    // in small pieces and load them in large ones, which costs a third of the time of the hash.
    #[inline(never)]
    pub fn child(&self, number: u32) -> Self {
        let hash = Sha1::new_with_prefix(self.state).chain_update(number.to_be_bytes());
        Self { state: hash.finalize().into(), depth: self.depth + 1 }
    }

    /// Returns the random number of the node, at least 0 and below 1.
    fn uniform(&self) -> f64 {
        let [.., a, b, c, d] = self.state;
        f64::from(u32::from_be_bytes([a, b, c, d]) & 0x7fff_ffff) / 2_147_483_648.0
    }
}

/// The size of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeCounts {
    /// Number of nodes.
    pub nodes: u64,
    /// Number of nodes without children.
    pub leaves: u64,
    /// Depth of the deepest node.
    pub depth: u32,
}

impl TreeCounts {
    /// Counts a node that has `children` children.
    pub fn count(&mut self, node: &Node, children: u32) {
        self.nodes += 1;
        self.leaves += u64::from(children == 0);
        self.depth = self.depth.max(node.depth);
    }

    /// Adds the counts of other nodes.
    pub fn add(&mut self, other: Self) {
        self.nodes += other.nodes;
        self.leaves += other.leaves;
        self.depth = self.depth.max(other.depth);
    }
}

/// A sample tree with its published size.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Name of the sample.
    pub name: &'static str,
    /// The tree.
    pub tree: UtsTree,
    /// Published size.
    pub census: TreeCounts,
}

const fn sample(name: &'static str, tree: UtsTree, nodes: u64, leaves: u64, depth: u32) -> Sample {
    Sample { name, tree, census: TreeCounts { nodes, leaves, depth } }
}

const fn geometric(profile: Profile, depth: u32, branching: f64, seed: u32) -> UtsTree {
    UtsTree { shape: TreeShape::Geometric { profile, depth }, branching, seed }
}

const fn binomial(q: f64, children: u32, branching: f64, seed: u32) -> UtsTree {
    UtsTree { shape: TreeShape::Binomial { q, children }, branching, seed }
}

const HYBRID: TreeShape =
    TreeShape::Hybrid { profile: Profile::Linear, depth: 16, q: 0.234_375, children: 4 };

/// The published sample trees, of about 4, 100 and 1,600 million nodes (`sample_trees.sh` of UTS).
pub const SAMPLES: &[Sample] = &[
    sample("T1", geometric(Profile::Fixed, 10, 4.0, 19), 4_130_071, 3_305_118, 10),
    sample("T2", geometric(Profile::Cyclic, 16, 6.0, 502), 4_117_769, 2_342_762, 81),
    sample("T3", binomial(0.124_875, 8, 2000.0, 42), 4_112_897, 3_599_034, 1572),
    sample("T4", UtsTree { shape: HYBRID, branching: 6.0, seed: 1 }, 4_132_453, 3_108_986, 134),
    sample("T5", geometric(Profile::Linear, 20, 4.0, 34), 4_147_582, 2_181_318, 20),
    sample("T1L", geometric(Profile::Fixed, 13, 4.0, 29), 102_181_082, 81_746_377, 13),
    sample("T2L", geometric(Profile::Cyclic, 23, 7.0, 220), 96_793_510, 53_791_152, 67),
    sample("T3L", binomial(0.200_014, 5, 2000.0, 7), 111_345_631, 89_076_904, 17_844),
    sample("T1XL", geometric(Profile::Fixed, 15, 4.0, 29), 1_635_119_272, 1_308_100_063, 15),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_trees_have_the_sizes_that_another_program_found() {
        let census = |tree: UtsTree| {
            let TreeCounts { nodes, leaves, depth } = tree.census();
            (nodes, leaves, depth)
        };
        assert_eq!(census(geometric(Profile::Fixed, 4, 4.0, 19)), (944, 744, 4));
        assert_eq!(census(geometric(Profile::Fixed, 6, 4.0, 19)), (16_000, 12_839, 6));
        assert_eq!(census(geometric(Profile::Linear, 10, 4.0, 34)), (5577, 3111, 10));
        assert_eq!(census(geometric(Profile::Cyclic, 8, 4.0, 502)), (6244, 3652, 41));
        assert_eq!(census(binomial(0.124_875, 8, 100.0, 42)), (6797, 5959, 67));
    }

    #[test]
    fn the_sample_trees_have_their_published_sizes() {
        for sample in &SAMPLES[..5] {
            assert_eq!(sample.tree.census(), sample.census, "{}", sample.name);
        }
    }
}
