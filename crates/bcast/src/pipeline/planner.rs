//! The planner: simulates candidates of several kinds and takes the best.
//!
//! Trees come from the searches, which model contention only roughly. Each is laid out over the
//! nodes in a few ways and simulated with coarse segments; the best is then simulated with finer
//! ones. Messages too small for segments are sent whole over a tree found by annealing.

use super::cost::ClusterCosts;
use super::expand::{Inner, Layout, expand};
use super::packing::{Packing, pack};
use super::search::{ClusterTree, search};
use crate::anneal::anneal;
use crate::model::{Draft, DraftStripe, Network, Sending, Serialisation, TreeCostModel};
use crate::search_budget::SearchBudget;

/// Limits of the planner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannerConfig {
    /// Maximum number of trees of a plan; 1 disables striping, and more than 6 are never tried.
    /// Default 6.
    pub trees_max: usize,
    /// Whether messages are divided into segments. Default true.
    pub is_segmented: bool,
    /// Seed of the searches. Default 1.
    pub seed: u64,
}

impl Default for PlannerConfig {
    fn default() -> Self {
        Self { trees_max: 6, is_segmented: true, seed: 1 }
    }
}

/// Minimum size of a segment: with smaller ones, packet headers and acknowledgements cost too much.
const SEGMENT_MIN: u64 = 1200;
/// Size up to which messages are sent whole.
const WHOLE_MAX: u64 = 4096;
/// Size below which several trees do not repay their initiations.
const STRIPED_MIN: u64 = 32 * 1024;
/// Striping is tried if its rate is at least this multiple of the rate of one tree.
const STRIPED_GAIN: f64 = 1.1;
/// No more trees are tried once a further tree makes the time longer by this factor.
const STRIPES_WORSE: f64 = 1.05;
/// Number of segments in the simulation of candidates.
const COARSE: u64 = 14;
/// Number of segments in the simulation of the best candidate: more segments take too long to
/// simulate and gain only a few percent.
const FINE: u64 = 128;
/// Number of segments of each of several trees in a simulation: with fewer, the time to fill the
/// pipelines would dominate.
const STRIPE_SEGMENTS: u64 = 6;
/// Number of nodes beyond which annealing over single nodes is left out.
const ANNEALED_NODES_MAX: usize = 2048;
/// Size up to which trees that send the message whole are simulated; for larger messages they never
/// win where pipelining is possible.
const WHOLE_TRIED_MAX: u64 = 1 << 16;

/// Returns the best draft found for this network, and its simulated time in seconds.
pub fn plan_broadcast(
    network: &Network,
    root: u32,
    bytes: u64,
    config: PlannerConfig,
    budget: &SearchBudget<'_>,
) -> (Draft, f64) {
    let mut planner = Planner { network, root, bytes, best: None };
    let home = network.cluster_of(root) as u32;
    // With two nodes, no node could pass segments on meanwhile.
    let is_pipelined = config.is_segmented && bytes > WHOLE_MAX && network.len() > 2;
    let segment = if is_pipelined { segment_guess(network, root, bytes) } else { bytes.max(1) };
    let coarse = segment.max(bytes.div_ceil(COARSE));
    let costs = ClusterCosts::new(network, bytes, segment);
    let part = budget.fraction(0.4);
    if let Some(tree) = search(network, &costs, home, config.seed, &part) {
        planner.one_tree(&tree, is_pipelined, coarse);
        if is_pipelined && config.trees_max > 1 && bytes >= STRIPED_MIN {
            planner.striped(home, config.trees_max, coarse, budget);
        }
    }
    if (!is_pipelined || bytes <= WHOLE_TRIED_MAX) && network.len() <= ANNEALED_NODES_MAX {
        let model = TreeCostModel::new(&network.links(), bytes, Serialisation::Transfer);
        let tree = anneal(&model, root, config.seed, &budget.fraction(0.6));
        planner.consider(Draft::whole(model.edges(&tree.parents)).at_once());
    }
    if is_pipelined {
        planner.refine_segments(segment);
    }
    planner.best.unwrap_or_else(|| (plan_static(network, root, bytes), f64::NAN))
}

/// Returns a plan without any search: from the root's cluster directly to all others, and from node
/// to node inside.
pub fn plan_static(network: &Network, root: u32, bytes: u64) -> Draft {
    let home = network.cluster_of(root) as u32;
    let others = (0..network.clusters() as u32)
        .filter(|&cluster| cluster != home && !network.members(cluster as usize).is_empty());
    let order: Vec<u32> = [home].into_iter().chain(others).collect();
    let parents = (0..network.clusters() as u32)
        .map(|cluster| if cluster == home { u32::MAX } else { home })
        .collect();
    let tree = ClusterTree { parents, order, cost_s: f64::NAN };
    let is_small = bytes <= WHOLE_MAX;
    let inner = if is_small { Inner::Binomial } else { Inner::Chain };
    let edges = expand(network, &tree, root, Layout { inner, offset: 0, turn: (0, 1) });
    let draft = Draft::whole(edges).at_once();
    if is_small { draft } else { draft.segmented(segment_guess(network, root, bytes)) }
}

/// Guesses the best segment size. With initiation time `o` and rate `r`, a message of `m` bytes in
/// segments of `s` bytes takes `(h + m/s) (o + s/r)` over `h` hops, which is least for
/// `s = sqrt(m o r / h)`. The root begins every segment, so `o` is the root's.
fn segment_guess(network: &Network, root: u32, bytes: u64) -> u64 {
    let clusters = (0..network.clusters()).filter(|&one| !network.members(one).is_empty());
    let clusters: Vec<usize> = clusters.collect();
    let mut rates: Vec<f64> = Vec::new();
    for &from in &clusters {
        let others = clusters.iter().filter(|&&to| to != from);
        rates.extend(others.map(|&to| network.route_bandwidth(from, to)));
    }
    let own = network.node(root).out;
    rates.retain(|rate| rate.is_finite());
    rates.sort_by(f64::total_cmp);
    let rate = rates.get(rates.len() / 2).copied().unwrap_or(own).min(own);
    let initiation_s = network.node(root).initiation_s.max(1e-6);
    let hops = (network.len() / clusters.len().max(1) + 2) as f64;
    let guess = (bytes as f64 * initiation_s * rate / hops).sqrt();
    (guess as u64).clamp(SEGMENT_MIN, bytes.max(SEGMENT_MIN))
}

struct Planner<'a> {
    network: &'a Network,
    root: u32,
    bytes: u64,
    best: Option<(Draft, f64)>,
}

impl Planner<'_> {
    /// Simulates a candidate and keeps it if it is the best. Returns its time.
    fn consider(&mut self, draft: Draft) -> f64 {
        let time_s = draft.simulate(self.network, self.bytes).completion_s;
        if self.best.as_ref().is_none_or(|best| time_s < best.1) {
            self.best = Some((draft, time_s));
        }
        time_s
    }

    fn one_tree(&mut self, tree: &ClusterTree, is_pipelined: bool, segment: u64) {
        let whole = Layout { inner: Inner::Binomial, offset: 0, turn: (0, 1) };
        if !is_pipelined || self.bytes <= WHOLE_TRIED_MAX {
            self.consider(Draft::whole(expand(self.network, tree, self.root, whole)).at_once());
        }
        if !is_pipelined {
            return;
        }
        for (inner, offset) in [(Inner::Chain, 0), (Inner::Chain, 1), (Inner::Binary, 1)] {
            let layout = Layout { inner, offset, ..whole };
            let edges = expand(self.network, tree, self.root, layout);
            self.consider(Draft::whole(edges).segmented(segment));
        }
    }

    fn striped(&mut self, home: u32, trees_max: usize, segment: u64, budget: &SearchBudget<'_>) {
        let Some(all) = pack(self.network, home) else { return };
        let single = all.restricted(self.network, home, 1).rate;
        let one_s = self.best.as_ref().map_or(f64::INFINITY, |best| best.1);
        if all.rate < STRIPED_GAIN * single.min(self.bytes as f64 / one_s) {
            return;
        }
        let mut last_s = f64::INFINITY;
        for count in [2, 3, 4, 6].into_iter().filter(|&count| count <= trees_max) {
            if count > all.trees.len() || budget.is_over() {
                break;
            }
            // The root is busy with beginning all trees, so other nodes of its cluster send to
            // other clusters.
            let packing = all.restricted(self.network, home, count);
            let each = self.bytes / (STRIPE_SEGMENTS * packing.trees.len() as u64);
            let segment = segment.min(each.max(SEGMENT_MIN));
            let [chains, pairs] =
                [Inner::Chain, Inner::Binary].map(|inner| self.stripes(&packing, inner, segment));
            let time_s = self.consider(chains).min(self.consider(pairs));
            if time_s > STRIPES_WORSE * last_s {
                break;
            }
            last_s = time_s;
        }
    }

    fn stripes(&self, packing: &Packing, inner: Inner, segment: u64) -> Draft {
        let turns = packing.trees.len();
        let stripe = |(turn, (tree, share)): (usize, &(ClusterTree, f64))| {
            let layout = Layout { inner, offset: 1, turn: (turn, turns) };
            DraftStripe { edges: expand(self.network, tree, self.root, layout), share: *share }
        };
        let stripes = packing.trees.iter().enumerate().map(stripe).collect();
        Draft { stripes, segment_bytes: segment, sending: Sending::Concurrent }
    }

    /// Tries the best draft with finer segments as long as they improve it.
    fn refine_segments(&mut self, guess: u64) {
        let Some((draft, _)) = &self.best else { return };
        if draft.sending == Sending::Serial {
            return;
        }
        let draft = draft.clone();
        let mut last_s = f64::INFINITY;
        // From coarse to fine, since fine segments take longest to simulate.
        let finest = guess.max(self.bytes.div_ceil(FINE));
        for size in [4 * finest, 2 * finest, finest] {
            let size = size.clamp(SEGMENT_MIN, self.bytes.max(SEGMENT_MIN));
            let time_s = self.consider(draft.clone().segmented(size));
            if time_s > last_s {
                return;
            }
            last_s = time_s;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::NodeLink;

    #[test]
    fn the_size_of_segments_depends_on_the_costs_of_the_root() {
        // The first of six nodes takes a hundred times as long as the others to begin a message.
        let node = |n: u32| {
            let initiation_s = if n == 0 { 1e-2 } else { 1e-4 };
            NodeLink { cluster: n / 3, out: 1e8, into: 1e8, initiation_s }
        };
        let network = Network::new((0..6).map(node).collect());
        let segment = |root| plan_static(&network, root, 1_000_000).segment_bytes;

        // The square root of 1 MB * 0.1 ms * 100 MB/s / 5 hops, and ten times as much.
        assert_eq!([segment(1), segment(0)], [44_721, 447_213]);
    }
}
