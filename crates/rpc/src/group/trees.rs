//! Trees for large data that several servers need. They are planned like those of broadcasts, for
//! the links between the servers.
//!
//! The links of the platform become a network of [`gridspan_bcast`], whose planner searches for
//! trees that cross each shared link only as often as that saves time. A tree is used if, in a
//! simulation with the segments in which data travels, it ends at least 5 % earlier than one copy
//! to each site with a relay inside. Servers pass data on segment by segment.

use super::order::{Hop, Route};
use crate::block::DATA_SEGMENT_BYTES;
use gridspan_bcast::{Draft, Network, NodeLink, PlannerConfig, SearchBudget, plan_broadcast};
use gridspan_workflow::Platform;
use gridspan_workflow::{Endpoint, ServerId};
use std::collections::{BTreeMap, BTreeSet};

/// Number of trees that the planner may evaluate: enough for some dozens of servers, in
/// milliseconds.
const EVALUATIONS: u64 = 2_000;
/// Number of plans for one window. Further large data takes the routes without a plan.
const PLANS_MAX: usize = 64;
/// A tree is used only if it ends within this fraction of the time of the routes without a plan.
const CLEARLY_EARLIER: f64 = 0.95;
/// Approximate time in seconds that a server needs to start sending a segment, which is a message
/// to an actor.
const INITIATION_S: f64 = 5e-5;
const SEED: u64 = 1;

/// Planned trees, by sender and receivers.
#[derive(Debug, Default)]
pub(super) struct Trees {
    planned: BTreeMap<(Endpoint, Vec<ServerId>), Option<Vec<Route>>>,
}

impl Trees {
    /// Plans the routes of data of `bytes` bytes from its holder to servers. `otherwise` are the
    /// routes without a plan; all their servers must be able to send data to other servers. Returns
    /// `None` if the data takes these routes: it is small, goes to one server only, or comes after
    /// `PLANS_MAX` plans, or no tree is clearly faster.
    pub(super) fn plan(
        &mut self,
        platform: &Platform,
        from: Endpoint,
        bytes: u64,
        otherwise: &[Route],
    ) -> Option<Vec<Route>> {
        let mut servers: Vec<ServerId> =
            otherwise.iter().flat_map(Route::servers).map(ServerId).collect();
        if servers.len() < 2 || bytes <= DATA_SEGMENT_BYTES as u64 {
            return None;
        }
        servers.sort_unstable();
        let key = (from, servers);
        if let Some(known) = self.planned.get(&key) {
            return known.clone();
        }
        if self.planned.len() >= PLANS_MAX {
            return None;
        }
        let planned = plan(platform, from, &key.1, bytes, otherwise);
        self.planned.insert(key, planned.clone());
        planned
    }
}

fn plan(
    platform: &Platform,
    from: Endpoint,
    servers: &[ServerId],
    bytes: u64,
    otherwise: &[Route],
) -> Option<Vec<Route>> {
    // The sender is node 0, and the servers follow.
    let ends: Vec<Endpoint> =
        [from].into_iter().chain(servers.iter().map(|&server| Endpoint::Server(server))).collect();
    let network = network(platform, &ends);
    let config = PlannerConfig { trees_max: 1, seed: SEED, ..PlannerConfig::default() };
    let effort = SearchBudget::evaluations(EVALUATIONS);
    let (draft, _) = plan_broadcast(&network, 0, bytes, config, &effort);
    let edges = draft.stripes.into_iter().next()?.edges;
    let time_s = |edges: Vec<(u32, u32)>| {
        let draft = Draft::whole(edges).segmented(DATA_SEGMENT_BYTES as u64);
        draft.simulate(&network, bytes).completion_s
    };
    let number = |server: u32| {
        let place = servers.binary_search(&ServerId(server));
        place.map_or(0, |place| place as u32 + 1)
    };
    let mut before = Vec::new();
    for route in otherwise {
        before.push((0, number(route.to)));
        flatten(number(route.to), &route.then, &number, &mut before);
    }
    if time_s(edges.clone()) > time_s(before) * CLEARLY_EARLIER {
        return None;
    }
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (parent, child) in edges {
        children.entry(parent).or_default().push(child);
    }
    let first = children.get(&0)?.clone();
    let mut hops = Vec::new();
    first.into_iter().for_each(|child| descend(child, &children, servers, &mut hops));
    Some(Route::of_hops(&hops))
}

/// Adds the edges of the tree below a server.
fn flatten(parent: u32, then: &[Hop], number: &dyn Fn(u32) -> u32, edges: &mut Vec<(u32, u32)>) {
    for Route { to, then } in Route::of_hops(then) {
        edges.push((parent, number(to)));
        flatten(number(to), &then, number, edges);
    }
}

/// Adds a node of a tree, and the nodes below it.
fn descend(
    node: u32,
    children: &BTreeMap<u32, Vec<u32>>,
    servers: &[ServerId],
    hops: &mut Vec<Hop>,
) {
    let at = hops.len();
    hops.push(Hop { to: servers[node as usize - 1].0, below: 0 });
    for &child in children.get(&node).into_iter().flatten() {
        descend(child, children, servers, hops);
    }
    hops[at].below = (hops.len() - at - 1) as u32;
}

/// The network between endpoints, whose clusters are their sites.
fn network(platform: &Platform, ends: &[Endpoint]) -> Network {
    let sites: BTreeSet<Option<usize>> = ends.iter().map(|&end| platform.site_of(end)).collect();
    let sites: Vec<Option<usize>> = sites.into_iter().collect();
    let cluster = |end: Endpoint| sites.binary_search(&platform.site_of(end)).unwrap_or_default();
    let capacities = platform.capacities();
    let node = |&end: &Endpoint| {
        let own = 2 * platform.position(end);
        NodeLink {
            cluster: cluster(end) as u32,
            out: capacities[own],
            into: capacities[own + 1],
            initiation_s: INITIATION_S,
        }
    };
    let mut network = Network::new(ends.iter().map(node).collect());
    let mut shared: BTreeMap<usize, u32> = BTreeMap::new();
    for &from in ends {
        for &to in ends.iter().filter(|&&to| to != from) {
            // The shared links beyond the interfaces of the two endpoints.
            let beyond = platform.path(from, to).filter(|&one| one >= 2 * platform.endpoints());
            let route = beyond
                .map(|one| *shared.entry(one).or_insert_with(|| network.share(capacities[one])));
            let route: Vec<u32> = route.collect();
            network.connect(cluster(from), cluster(to), platform.latency_s(from, to), route);
        }
    }
    network
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_topology::{Bandwidth, Latency, Link};
    use gridspan_workflow::{ClientSpec, ServerSpec, Site};

    /// Two servers in each of two sites, and a client in a third.
    fn platform(client_mbit: u64) -> Platform {
        let link = |mbit: u64| {
            Link::new(Latency::from_millis(1), Bandwidth::from_bits_per_second(mbit * 1_000_000))
        };
        let server = |number: usize| ServerSpec::new(number.to_string(), 1 + number / 2, 1.0);
        let site = |mbit: u64| Site::new(mbit.to_string(), link(10_000), link(mbit));
        let sites = vec![site(client_mbit), site(1_000), site(1_000)];
        let client = ClientSpec::at_site(0, link(10_000));
        Platform::new((0..4).map(server).collect(), sites, client)
    }

    fn relays() -> Vec<Route> {
        [0, 2].map(|head| Route { to: head, then: vec![Hop { to: head + 1, below: 0 }] }).into()
    }

    const BYTES: u64 = 100_000_000;

    #[test]
    fn large_data_crosses_the_clients_slow_link_once() {
        let platform = platform(100);

        let planned = Trees::default().plan(&platform, Endpoint::Client, BYTES, &relays()).unwrap();

        assert_eq!(planned.len(), 1, "{planned:?}");
        let mut reached: Vec<u32> = planned[0].servers().collect();
        reached.sort_unstable();
        assert_eq!(reached, [0, 1, 2, 3]);
    }

    #[test]
    fn small_data_and_data_that_no_tree_speeds_up_get_no_plan() {
        let mut trees = Trees::default();
        let small = trees.plan(&platform(100), Endpoint::Client, 1_000, &relays());
        assert_eq!(small, None);
        // In one site with one link to it, no tree is better than a relay.
        let near = [Route { to: 0, then: vec![Hop { to: 1, below: 0 }] }];
        assert_eq!(trees.plan(&platform(100), Endpoint::Client, BYTES, &near), None);
    }
}
