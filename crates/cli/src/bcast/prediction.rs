//! One strategy's trees for one message, with their simulated times.

use super::inputs::Inputs;
use crate::args::BcastArgs;
use gridspan_bcast::strategies::{BroadcastStrategy, Request};
use gridspan_bcast::{Draft, EdgeTiming, SearchBudget};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Predictions of all strategies for one size.
pub(super) struct Predictions {
    pub(super) bytes: u64,
    /// Lower bound on the time of a broadcast, in seconds.
    pub(super) bound_s: f64,
    /// The strategies' predictions, in the order of the flags.
    pub(super) all: Vec<Prediction>,
}

/// Rounding error by which a time may be below the bound, as a share of the bound.
const ROUNDING: f64 = 1e-9;

/// Prediction of one strategy for one size.
pub(super) struct Prediction {
    pub(super) strategy: &'static str,
    /// The strategy's plan.
    pub(super) draft: Draft,
    /// Time until the last node has the whole message, in seconds.
    pub(super) time_s: f64,
    pub(super) planning: Duration,
    /// The trees, with simulated times.
    pub(super) trees: Vec<TreeView>,
    pub(super) segments: u64,
}

/// One simulated tree.
pub(super) struct TreeView {
    /// Its part of the message, `0.0..=1.0`.
    pub(super) share: f64,
    /// Its edges with their times, in the order of sending. Each edge follows the edge that reaches
    /// its sender.
    pub(super) edges: Vec<EdgeTiming>,
    /// For each sending node, the positions of its edges in `edges`, in the order of sending.
    children: BTreeMap<u32, Vec<usize>>,
    /// Largest number of edges from the root to a node.
    pub(super) depth: u32,
    /// Number of edges that lead from one site to another.
    pub(super) crossings: usize,
}

impl Predictions {
    /// Returns the prediction with the shortest time, the first of equal ones.
    pub(super) fn fastest(&self) -> Option<&Prediction> {
        self.all.iter().min_by(|one, other| one.time_s.total_cmp(&other.time_s))
    }
}

impl Prediction {
    /// Plans with the strategy, and simulates its plan.
    pub(super) fn new(
        inputs: &Inputs,
        strategy: &dyn BroadcastStrategy,
        bytes: u64,
        args: &BcastArgs,
    ) -> Self {
        let Inputs { network, sites, root, .. } = inputs;
        let request = Request { network, sites, root: root.0, bytes, seed: args.seed };
        let begin = Instant::now();
        let clock = || begin.elapsed();
        let draft = strategy.draft(&request, &SearchBudget::time(args.effort, &clock));
        let planning = begin.elapsed();
        let outcome = draft.simulate(network, bytes);
        debug_assert!(
            outcome.completion_s >= inputs.bound_s(bytes) * (1.0 - ROUNDING),
            "{} is predicted to take {} s, less than any broadcast can",
            strategy.name(),
            outcome.completion_s
        );
        let mut edges = outcome.edges.into_iter();
        let trees = draft.stripes.iter().map(|stripe| {
            let edges = edges.by_ref().take(stripe.edges.len()).collect();
            TreeView::new(inputs, stripe.share, edges)
        });
        Self {
            strategy: strategy.name(),
            time_s: outcome.completion_s,
            planning,
            trees: trees.collect(),
            segments: bytes.div_ceil(draft.segment_bytes).max(1),
            draft,
        }
    }

    /// Returns the number of edges between sites, each weighted by its tree's share of the message.
    pub(super) fn crossings(&self) -> f64 {
        self.trees.iter().map(|tree| tree.share * tree.crossings as f64).sum()
    }

    /// Returns the largest number of edges from the root to a node.
    pub(super) fn depth(&self) -> u32 {
        self.trees.iter().map(|tree| tree.depth).max().unwrap_or(0)
    }
}

impl TreeView {
    fn new(inputs: &Inputs, share: f64, edges: Vec<EdgeTiming>) -> Self {
        let mut depths = vec![0_u32; inputs.nodes()];
        let mut children: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (place, edge) in edges.iter().enumerate() {
            depths[edge.to as usize] = depths[edge.from as usize] + 1;
            children.entry(edge.from).or_default().push(place);
        }
        let depth = depths.into_iter().max().unwrap_or(0);
        let crossings = edges.iter().filter(|edge| inputs.is_wide_area(edge.from, edge.to)).count();
        Self { share, edges, children, depth, crossings }
    }

    /// Returns the edges that leave a node, in the order of sending.
    pub(super) fn from(&self, node: u32) -> impl ExactSizeIterator<Item = &EdgeTiming> {
        let places = self.children.get(&node).map_or(&[][..], Vec::as_slice);
        places.iter().map(|&place| &self.edges[place])
    }
}
