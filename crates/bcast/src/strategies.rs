//! Strategies by name: those of Gupta and Vadhiyar (2006), those that the paper compares with, and
//! the planner's.

use crate::anneal::anneal;
use crate::gupta_vadhiyar::{CostUnit, GoodList, basic_sa, clustered_sa, driver_sa, mateescu};
use crate::model::{Draft, NONE, Network, Serialisation, TreeCostModel};
use crate::pipeline::{PlannerConfig, plan_broadcast, plan_static};
use crate::search_budget::SearchBudget;
use crate::trees::{binomial, hierarchical, star};
use thiserror::Error;

/// The names of all strategies. `striped` is the default.
pub const NAMES: &[&str] = &[
    "star",
    "binomial",
    "hierarchical",
    "mateescu",
    "basic-sa",
    "driver-sa",
    "clustered-sa",
    "annealed",
    "static-pipeline",
    "pipelined",
    "striped",
];

/// The default strategy.
pub const DEFAULT: &str = "striped";

/// No strategy has this name. Use one of the names listed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no strategy `{}`; write one of {}", .name.escape_debug(), NAMES.join(", "))]
pub struct UnknownBroadcastStrategy {
    /// The unknown name.
    pub name: String,
}

/// The broadcast to make a draft for.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The network as estimated.
    pub network: &'a Network,
    /// The site of each cluster, for strategies that only use sites.
    pub sites: &'a [u32],
    /// The node that sends.
    pub root: u32,
    /// Size of the message, in bytes.
    pub bytes: u64,
    /// The seed of the search.
    pub seed: u64,
}

impl Request<'_> {
    fn nodes(&self) -> Vec<u32> {
        (0..self.network.len() as u32).collect()
    }

    /// The edges of the tree that follows from sites and clusters.
    fn hierarchical(&self) -> Vec<(u32, u32)> {
        hierarchical(&self.nodes(), self.root, |node| {
            let cluster = self.network.cluster_of(node);
            [self.sites.get(cluster).copied().unwrap_or(cluster as u32), cluster as u32]
        })
    }
}

/// A way to make drafts. Equal requests and budgets in evaluations give equal drafts.
pub trait BroadcastStrategy {
    /// The name of the strategy.
    fn name(&self) -> &'static str;

    /// Makes a draft over all nodes of the network.
    fn draft(&self, request: &Request<'_>, budget: &SearchBudget<'_>) -> Draft;
}

/// Finds the strategy of this name.
///
/// # Errors
///
/// [`UnknownBroadcastStrategy`] for a name that is not in [`NAMES`].
pub fn by_name(name: &str) -> Result<Box<dyn BroadcastStrategy>, UnknownBroadcastStrategy> {
    NAMES
        .iter()
        .find(|&&known| known == name)
        .map(|&name| Box::new(Named { name }) as Box<dyn BroadcastStrategy>)
        .ok_or_else(|| UnknownBroadcastStrategy { name: name.to_owned() })
}

struct Named {
    name: &'static str,
}

impl BroadcastStrategy for Named {
    fn name(&self) -> &'static str {
        self.name
    }

    fn draft(&self, request: &Request<'_>, budget: &SearchBudget<'_>) -> Draft {
        let Request { network, root, bytes, seed, .. } = *request;
        let planned = |trees_max| {
            let config = PlannerConfig { trees_max, seed, ..PlannerConfig::default() };
            plan_broadcast(network, root, bytes, config, budget).0
        };
        match self.name {
            "star" => Draft::whole(star(&request.nodes(), root)),
            "binomial" => Draft::whole(binomial(&request.nodes(), root)),
            "hierarchical" => Draft::whole(request.hierarchical()),
            "static-pipeline" => plan_static(network, root, bytes),
            "pipelined" => planned(1),
            "striped" => planned(PlannerConfig::default().trees_max),
            _ => self.searched(request, budget),
        }
    }
}

impl Named {
    /// The strategies that search by the cost model of Gupta and Vadhiyar (2006).
    fn searched(&self, request: &Request<'_>, budget: &SearchBudget<'_>) -> Draft {
        let &Request { network, root, bytes, seed, .. } = request;
        let links = network.links();
        let model = TreeCostModel::new(&links, bytes, Serialisation::Transfer);
        let unit = CostUnit::default();
        let parents = match self.name {
            "mateescu" => mateescu(&model, root),
            "basic-sa" => {
                let mut parents = vec![NONE; network.len()];
                request
                    .hierarchical()
                    .into_iter()
                    .for_each(|(from, to)| parents[to as usize] = from);
                basic_sa(&model, &parents, unit, &mut GoodList::default(), seed, budget).parents
            }
            "driver-sa" => driver_sa(&model, Some(root), unit, seed, budget).tree.parents,
            "clustered-sa" => clustered_sa(&links, root, bytes, unit, seed, budget).parents,
            _ => anneal(&model, root, seed, budget).parents,
        };
        Draft::whole(model.edges(&parents))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{BroadcastPlan, NetworkEstimate, NodeLink, Place, PlanId, Sharing};
    use gridspan_topology::NodeId;
    use std::time::Duration;

    const SITES: [u32; 8] = [0, 0, 1, 1, 1, 2, 2, 3];

    /// Clusters of eight nodes each.
    fn network() -> Network {
        let places = (0..64).map(|node: u32| {
            let cluster = node / 8;
            Place { site: SITES[cluster as usize], cluster }
        });
        let places: Vec<Place> = places.collect();
        let node = |place: &Place| NodeLink {
            cluster: place.cluster,
            out: 1e7,
            into: 1e7,
            initiation_s: 2e-4,
        };
        let nodes = places.iter().map(node).collect();
        let estimate = NetworkEstimate::new(&places, nodes, Sharing::SitePairs, |from, to| {
            if SITES[from] == SITES[to] { (1e-4, 1e7) } else { (0.03, 4e6) }
        });
        estimate.network()
    }

    #[test]
    fn every_strategy_reaches_every_node_from_any_root_and_is_reproducible() {
        let network = network();
        let members: Vec<NodeId> = (0..64).map(NodeId).collect();
        for &name in NAMES {
            let strategy = by_name(name).unwrap();
            assert_eq!(strategy.name(), name);
            for (root, bytes) in [(0, 100), (13, 200_000)] {
                let request = Request { network: &network, sites: &SITES, root, bytes, seed: 3 };
                let draft = strategy.draft(&request, &SearchBudget::evaluations(300));
                assert_eq!(draft, strategy.draft(&request, &SearchBudget::evaluations(300)));
                let id = PlanId { root: NodeId(root), version: 1 };
                let plan = BroadcastPlan::from_draft(id, &draft, &members, Duration::ZERO).unwrap();
                for stripe in plan.stripes() {
                    assert_eq!(stripe.tree.node_count(), 64, "{name}");
                }
            }
        }
    }

    #[test]
    fn the_error_for_an_unknown_name_lists_the_known_names() {
        let message = by_name("magic").err().unwrap().to_string();

        assert!(message.starts_with("there is no strategy `magic`; write one of star, binomial, "));
    }
}
