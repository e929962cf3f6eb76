//! The contenders of the experiment, and the measurements available to each.

use super::teragrid::TeraGrid;
use gridspan_bcast::gupta_vadhiyar::{CostUnit, PaperAdvisor, clustered_sa, mateescu};
use gridspan_bcast::strategies::{Request, by_name};
use gridspan_bcast::{
    Advisor, AdvisorCommand, AdvisorConfig, Broadcast, Draft, EdgeTiming, Network, NetworkEstimate,
    PlanId, PlannerConfig, ProbeRequest, SearchBudget, Serialisation, TreeCostModel,
    plan_broadcast,
};
use gridspan_topology::dice::Dice;
use gridspan_topology::{NodeId, Time, joint_rate};
use std::collections::BTreeMap;

/// All contenders. The first is the reference for the others.
pub const CONTENDERS: &[Contender] = &[
    Contender::MpichG2,
    Contender::Mateescu,
    Contender::ClusteredStale,
    Contender::ClusteredFresh,
    Contender::WholeFresh,
    Contender::MpichG2Pipelined,
    Contender::OneTreeFresh,
    Contender::OursOnce,
    Contender::OursStale,
    Contender::Ours,
    Contender::OursMidway,
    Contender::OursFresh,
];

/// A way to broadcast. *Fresh* contenders measure all links before each broadcast, *stale* ones
/// every five minutes, as in Gupta and Vadhiyar (2006).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Contender {
    /// MPICH-G2's tree, which uses only the topology.
    MpichG2,
    /// MPICH-G2's tree with segments.
    MpichG2Pipelined,
    /// Mateescu's tree, fresh.
    Mateescu,
    /// The paper's advisor with `clusteredSA`, stale.
    ClusteredStale,
    /// The paper's advisor with `clusteredSA`, fresh.
    ClusteredFresh,
    /// Our planner without segments, fresh.
    WholeFresh,
    /// Our planner with one tree, fresh.
    OneTreeFresh,
    /// Our planner, run once for all sizes within a factor of two, on the network without load.
    OursOnce,
    /// Our planner, stale.
    OursStale,
    /// Our advisor, which observes the edges of its broadcasts and requests probes.
    Ours,
    /// Our advisor, which may choose another plan for the rest after a quarter of a message.
    OursMidway,
    /// Our planner, fresh.
    OursFresh,
}

impl Contender {
    /// Returns the name of the contender.
    pub fn name(self) -> &'static str {
        match self {
            Self::MpichG2 => "MPICH-G2's tree",
            Self::MpichG2Pipelined => "MPICH-G2's tree, pipelined",
            Self::Mateescu => "Mateescu, fresh",
            Self::ClusteredStale => "clusteredSA, stale",
            Self::ClusteredFresh => "clusteredSA, fresh",
            Self::WholeFresh => "ours without segments, fresh",
            Self::OneTreeFresh => "ours with one tree, fresh",
            Self::OursOnce => "ours, planned once",
            Self::OursStale => "ours, stale",
            Self::Ours => "**ours, with feedback**",
            Self::OursMidway => "ours, with feedback, also midway",
            Self::OursFresh => "ours, fresh",
        }
    }

    /// Whether our advisor plans its broadcasts.
    pub fn is_advised(self) -> bool {
        matches!(self, Self::Ours | Self::OursMidway)
    }

    /// Whether a message ahead of each broadcast gives nodes the tree, as in the paper.
    fn ships_tree(self) -> bool {
        matches!(self, Self::Mateescu | Self::ClusteredStale | Self::ClusteredFresh)
    }
}

/// The planning budget of a contender.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spending {
    /// Evaluations of the cost model for each of the paper's plans.
    pub(super) paper: u64,
    /// Evaluations for each of our plans.
    pub(super) ours: u64,
}

/// Maximum relative error of measured rates.
const NOISE: f64 = 0.02;
/// Time from a broadcast to its first probes, in seconds; probes that follow from these start a
/// quarter of that time later.
const PROBE_S: f64 = 2.0;
/// Interval at which the advisor checks for due work, in seconds.
const LOOK_S: f64 = 10.0;
/// Interval at which stale contenders measure, in seconds.
const REFRESH_S: f64 = 300.0;
/// Bytes of the tree for each node, in the message that ships it.
const TREE_BYTES_PER_NODE: u64 = 4;
const SEED: u64 = 1;

/// The state of one contender during the broadcasts.
pub(super) struct Player<'a> {
    grid: &'a TeraGrid,
    contender: Contender,
    spending: Spending,
    dice: Dice,
    /// The result of the last complete measurement.
    estimate: NetworkEstimate,
    measured_s: f64,
    paper: PaperAdvisor,
    ours: Advisor,
    /// The plans of [`Contender::OursOnce`], by the binary logarithm of the size, rounded down.
    once: BTreeMap<u32, Draft>,
    used: PlanId,
    pub(super) probes: u64,
}

fn at(seconds: f64) -> Time {
    Time((seconds * 1e9) as u64)
}

impl<'a> Player<'a> {
    pub(super) fn new(grid: &'a TeraGrid, contender: Contender, spending: Spending) -> Self {
        let mut dice = Dice::new(SEED);
        let estimate = measure(grid, grid.unloaded(), Time::ZERO, &mut dice);
        let members = (0..grid.unloaded().len() as u32).map(NodeId).collect();
        let ours = Advisor::new(members, estimate.clone(), AdvisorConfig::default());
        let paper = PaperAdvisor::new(grid.root(), CostUnit::default(), SEED);
        let (once, used) = (BTreeMap::new(), PlanId::default());
        Self {
            grid,
            contender,
            spending,
            dice,
            estimate,
            measured_s: 0.0,
            paper,
            ours,
            once,
            used,
            probes: 0,
        }
    }

    /// Returns the plan of the broadcast at this time.
    pub(super) fn draft(&mut self, now_s: f64, bytes: u64) -> Draft {
        use Contender as C;
        let refreshed_s = match self.contender {
            C::ClusteredStale | C::OursStale => (now_s / REFRESH_S).floor() * REFRESH_S,
            C::Mateescu | C::ClusteredFresh | C::WholeFresh | C::OneTreeFresh | C::OursFresh => {
                now_s
            }
            C::MpichG2 | C::MpichG2Pipelined | C::OursOnce | C::Ours | C::OursMidway => 0.0,
        };
        if refreshed_s > self.measured_s {
            let network = self.grid.at(refreshed_s);
            self.estimate = measure(self.grid, &network, at(refreshed_s), &mut self.dice);
            self.measured_s = refreshed_s;
        }
        match self.contender {
            C::MpichG2 => self.mpich(),
            C::MpichG2Pipelined => self.mpich().segmented((bytes / 64).max(4096)),
            C::Mateescu => {
                let model = self.model(bytes);
                Draft::whole(model.edges(&mateescu(&model, self.grid.root())))
            }
            C::ClusteredStale | C::ClusteredFresh => self.clustered(bytes),
            C::WholeFresh => self.planned(bytes, false, 1),
            C::OneTreeFresh => self.planned(bytes, true, 1),
            C::OursStale | C::OursFresh => {
                self.planned(bytes, true, PlannerConfig::default().trees_max)
            }
            C::OursOnce => {
                let size = bytes.max(1).ilog2();
                if let Some(draft) = self.once.get(&size) {
                    return draft.clone();
                }
                let draft = self.planned(bytes, true, PlannerConfig::default().trees_max);
                self.once.insert(size, draft.clone());
                draft
            }
            C::Ours | C::OursMidway => self.advised(now_s, bytes),
        }
    }

    /// Records a finished broadcast. For a contender with our advisor, runs the requested probes
    /// and the planning until the next broadcast, which starts at `next_s`.
    pub(super) fn observe(&mut self, now_s: f64, next_s: f64, bytes: u64, edges: &[EdgeTiming]) {
        self.paper.observe(now_s, bytes);
        if !self.contender.is_advised() {
            return;
        }
        let root = NodeId(self.grid.root());
        let broadcast =
            Broadcast { root, bytes, began: at(now_s), took: None, plan: self.used, edges };
        self.ours.observe(at(now_s), &broadcast);
        // Requested probes run while there is time, and the planning at the end uses them.
        let mut look_s = now_s + PROBE_S;
        while look_s < next_s {
            let nothing = SearchBudget::evaluations(0);
            let commands = self.ours.tick(at(look_s), &nothing);
            let had_wishes = !commands.is_empty();
            for command in commands {
                if let AdvisorCommand::Probe(request) = command {
                    self.probe(look_s, request);
                }
            }
            // The results may lead to more probe requests at once.
            look_s += if had_wishes { PROBE_S / 4.0 } else { LOOK_S };
        }
        for _ in 0..3 {
            self.ours.tick(at(next_s), &SearchBudget::evaluations(self.spending.ours));
        }
    }

    /// Returns a new plan for the rest of a broadcast if the times of the edges in its first part
    /// suggest one.
    pub(super) fn midway(
        &mut self,
        now_s: f64,
        part: u64,
        rest: u64,
        edges: &[EdgeTiming],
    ) -> Option<Draft> {
        let (root, began) = (NodeId(self.grid.root()), at(now_s));
        let part = Broadcast { root, bytes: part, began, took: None, plan: self.used, edges };
        let budget = SearchBudget::evaluations(self.spending.ours);
        let plan = self.ours.midway(at(now_s), &part, rest, &budget).ok().flatten()?;
        Some(Draft::from(&plan))
    }

    fn probe(&mut self, now_s: f64, request: ProbeRequest) {
        let network = self.grid.at(now_s);
        self.probes += 1;
        match request {
            ProbeRequest::Pair { from, to } => {
                let rate = pair_rate(&network, from, to) * noise(&mut self.dice);
                self.ours.probed(at(now_s), from, to, rate);
            }
            ProbeRequest::Together { cluster } => {
                let (out, into) = together_rates(&network, cluster);
                self.ours.probed_together(cluster, out, into);
            }
        }
    }

    /// Returns the network and the message size in bytes, with the cost of shipping trees for
    /// contenders that ship them.
    pub(super) fn burden(&self, mut network: Network, bytes: u64) -> (Network, u64) {
        if !self.contender.ships_tree() {
            return (network, bytes);
        }
        let tree = TREE_BYTES_PER_NODE * network.len() as u64;
        network.scale_initiation(2.0);
        (network, bytes + tree)
    }

    fn mpich(&self) -> Draft {
        let (network, sites) = (self.grid.unloaded(), TeraGrid::SITES);
        let request = Request { network, sites, root: self.grid.root(), bytes: 1, seed: SEED };
        let strategy = by_name("hierarchical").expect("it is a strategy");
        strategy.draft(&request, &SearchBudget::unlimited())
    }

    fn model(&self, bytes: u64) -> TreeCostModel {
        TreeCostModel::new(&self.estimate.network().links(), bytes, Serialisation::Transfer)
    }

    fn clustered(&mut self, bytes: u64) -> Draft {
        let links = self.estimate.network().links();
        let root = self.grid.root();
        let parents = match self.paper.predict() {
            None => {
                let budget = SearchBudget::evaluations(self.spending.paper);
                clustered_sa(&links, root, bytes, CostUnit::default(), SEED, &budget).parents
            }
            Some(_) => {
                self.paper.drop_trees();
                let budget = SearchBudget::evaluations(3 * self.spending.paper);
                (0..3).for_each(|_| {
                    self.paper.step(&links, &budget);
                });
                self.paper.tree(bytes).map(|tree| tree.parents.clone()).unwrap_or_default()
            }
        };
        Draft::whole(self.model(bytes).edges(&parents))
    }

    fn planned(&self, bytes: u64, is_segmented: bool, trees_max: usize) -> Draft {
        let config = PlannerConfig { trees_max, is_segmented, seed: SEED };
        let budget = SearchBudget::evaluations(self.spending.ours);
        plan_broadcast(&self.estimate.network(), self.grid.root(), bytes, config, &budget).0
    }

    fn advised(&mut self, now_s: f64, bytes: u64) -> Draft {
        let root = NodeId(self.grid.root());
        if let Ok(plan) = self.ours.plan(at(now_s), root, bytes) {
            self.used = plan.id();
            return Draft::from(plan);
        }
        self.mpich()
    }
}

fn noise(dice: &mut Dice) -> f64 {
    1.0 + dice.between(-NOISE, NOISE)
}

fn ends(network: &Network, from: usize, to: usize) -> (u32, u32) {
    // A measurement within a cluster needs two different nodes.
    let last = network.members(to).len() - 1;
    (network.members(from)[0], network.members(to)[last])
}

fn pair_rate(network: &Network, from: usize, to: usize) -> f64 {
    let (one, other) = ends(network, from, to);
    network.bandwidth(one, other)
}

/// Returns the rates, in bytes per second, at which the nodes of a cluster together send to other
/// clusters and receive from them.
fn together_rates(network: &Network, cluster: usize) -> (f64, f64) {
    let others = (0..network.clusters()).filter(|&other| other != cluster);
    let members = network.members(cluster);
    let pairs: Vec<(u32, u32)> = members
        .iter()
        .copied()
        .zip(others.flat_map(|other| network.members(other).iter().copied().take(1)))
        .collect();
    let out = pairs.iter().map(|&(own, other)| network.path(own, other).collect());
    let into = pairs.iter().map(|&(own, other)| network.path(other, own).collect());
    (
        joint_rate(network.capacities(), out.collect()),
        joint_rate(network.capacities(), into.collect()),
    )
}

/// Measures all rates.
fn measure(grid: &TeraGrid, network: &Network, now: Time, dice: &mut Dice) -> NetworkEstimate {
    let nodes = (0..network.len() as u32).map(|node| *network.node(node)).collect();
    let mut estimate = NetworkEstimate::new(&grid.places(), nodes, grid.sharing(), |from, to| {
        let rate = pair_rate(network, from, to);
        (network.latency_between_s(from, to), rate * noise(dice))
    });
    for cluster in 0..network.clusters() {
        let (out, into) = together_rates(network, cluster);
        estimate.set_together(cluster, out, into);
        for other in 0..network.clusters() {
            let rate = estimate.bandwidth(cluster, other);
            estimate.set_bandwidth(now, cluster, other, rate);
        }
    }
    estimate
}
