//! The network and the load of Gupta and Vadhiyar (2006), section 3: four sites, eight clusters, 64
//! nodes, and other traffic around cluster C3.
//!
//! The paper's text gives the shape, 100 Mbit/s inside clusters, and the loads. It does not give
//! the bandwidths and latencies of figure 6, which are assumed: 60 Mbit/s from a cluster to the
//! outside, 30 Mbit/s in the wide area, and latencies as between these places. [`Sharing`] selects
//! the structure of the wide-area links.

use gridspan_bcast::{Network, NodeLink, Place, Sharing};
use gridspan_topology::dice::Dice;

/// One Mbit/s in bytes per second, the unit of all bandwidths here.
const MBIT: f64 = 125_000.0;
/// Bandwidth of a node.
const NODE: f64 = 100.0 * MBIT;
/// Bandwidth from a cluster to the outside.
const ACCESS: f64 = 60.0 * MBIT;
/// Bandwidth of a wide-area link.
const WIDE_AREA: f64 = 30.0 * MBIT;
const INITIATION_S: f64 = 2e-4;
/// Number of nodes of each cluster.
const NODES_EACH: u32 = 8;
/// Latency inside a cluster, one way, in seconds.
const INSIDE_CLUSTER_S: f64 = 5e-5;
/// Latency between clusters of a site, one way, in seconds.
const INSIDE_SITE_S: f64 = 2e-4;
/// Latencies between sites, one way, in seconds.
const BETWEEN_SITES_S: [[f64; 4]; 4] = [
    [0.0, 0.028, 0.029, 0.033],
    [0.028, 0.0, 0.003, 0.011],
    [0.029, 0.003, 0.0, 0.012],
    [0.033, 0.011, 0.012, 0.0],
];
/// The cluster, C3, whose links to others carry other traffic.
const LOADED: usize = 2;
/// The cluster from which broadcasts come.
const ROOT_CLUSTER: u32 = 1;
/// Minimum fraction of a link that other traffic leaves.
const LEFT_MIN: f64 = 0.1;

/// Other traffic for a while.
#[derive(Clone, Debug, PartialEq)]
struct Load {
    from_s: f64,
    to_s: f64,
    /// Two clusters, and the fraction of the bandwidth from the first to the second that the load
    /// takes.
    pairs: Vec<(usize, usize, f64)>,
}

/// The network over time.
#[derive(Clone, Debug, PartialEq)]
pub struct TeraGrid {
    unloaded: Network,
    sharing: Sharing,
    loads: Vec<Load>,
}

impl TeraGrid {
    /// Site of each cluster: SDSC has C1 and C2, ANL C3 to C5, NCSA C6 and C7, PSC C8.
    pub const SITES: &[u32] = &[0, 0, 1, 1, 1, 2, 2, 3];

    /// Creates the network with random loads for `duration_s` seconds: each takes 50 to 90 % of the
    /// bandwidth between C3 and one to three other clusters, in both directions, for 6 to 8
    /// minutes, with pauses of 4 to 7 minutes.
    pub fn new(sharing: Sharing, seed: u64, duration_s: f64) -> Self {
        let mut dice = Dice::new(seed);
        let mut loads = Vec::new();
        let mut at_s = dice.between(0.0, 420.0);
        while at_s < duration_s {
            let to_s = at_s + dice.between(360.0, 480.0);
            let mut others: Vec<usize> =
                (0..TeraGrid::SITES.len()).filter(|&one| one != LOADED).collect();
            dice.shuffle(&mut others);
            others.truncate(1 + dice.below(3));
            let mut pairs = Vec::new();
            for other in others {
                pairs.push((LOADED, other, dice.between(0.5, 0.9)));
                pairs.push((other, LOADED, dice.between(0.5, 0.9)));
            }
            loads.push(Load { from_s: at_s, to_s, pairs });
            at_s = to_s + dice.between(240.0, 420.0);
        }
        Self { unloaded: unloaded(sharing), sharing, loads }
    }

    /// Returns the capacities that transfers between sites share.
    pub fn sharing(&self) -> Sharing {
        self.sharing
    }

    /// Returns the node that broadcasts.
    pub fn root(&self) -> u32 {
        ROOT_CLUSTER * NODES_EACH
    }

    /// Returns the place of each node.
    pub fn places(&self) -> Vec<Place> {
        let place = |node: u32| {
            let cluster = node / NODES_EACH;
            Place { site: TeraGrid::SITES[cluster as usize], cluster }
        };
        (0..self.unloaded.len() as u32).map(place).collect()
    }

    /// Returns the network without other traffic.
    pub fn unloaded(&self) -> &Network {
        &self.unloaded
    }

    /// Returns the index of the load at this time in seconds, if there is one.
    pub fn load_at(&self, at_s: f64) -> Option<usize> {
        self.loads.iter().position(|load| (load.from_s..load.to_s).contains(&at_s))
    }

    /// Returns the network with the bandwidth that other traffic does not use at this time.
    pub fn at(&self, at_s: f64) -> Network {
        let mut network = self.unloaded.clone();
        let Some(load) = self.load_at(at_s) else { return network };
        let mut taken = vec![0.0; network.capacities().len()];
        for &(from, to, share) in &self.loads[load].pairs {
            let rate = share * network.route_bandwidth(from, to).min(NODE);
            for &shared in network.route(from, to) {
                taken[shared as usize] += rate;
            }
        }
        for (capacity, taken) in (0u32..).zip(taken) {
            let all = self.unloaded.capacities()[capacity as usize];
            network.set_capacity(capacity, (all - taken).max(LEFT_MIN * all));
        }
        network
    }
}

fn unloaded(sharing: Sharing) -> Network {
    let node = |node: u32| NodeLink {
        cluster: node / NODES_EACH,
        out: NODE,
        into: NODE,
        initiation_s: INITIATION_S,
    };
    let clusters = TeraGrid::SITES.len();
    let mut network = Network::new((0..clusters as u32 * NODES_EACH).map(node).collect());
    let access: Vec<(u32, u32)> =
        (0..clusters).map(|_| (network.share(ACCESS), network.share(ACCESS))).collect();
    let sites = BETWEEN_SITES_S.len();
    let site_links: Vec<u32> = (0..sites * sites).map(|_| network.share(WIDE_AREA)).collect();
    let uplinks: Vec<(u32, u32)> =
        (0..sites).map(|_| (network.share(WIDE_AREA), network.share(WIDE_AREA))).collect();
    for from in 0..clusters {
        network.connect(from, from, INSIDE_CLUSTER_S, Vec::new());
        for to in (0..clusters).filter(|&to| to != from) {
            let (one, other) = (TeraGrid::SITES[from] as usize, TeraGrid::SITES[to] as usize);
            let mut route = vec![access[from].0];
            match sharing {
                _ if one == other => {}
                Sharing::ClusterPairs => route.push(network.share(WIDE_AREA)),
                Sharing::SitePairs => route.push(site_links[one * sites + other]),
                Sharing::SiteUplinks => route.extend([uplinks[one].0, uplinks[other].1]),
            }
            route.push(access[to].1);
            let between_s = BETWEEN_SITES_S[one][other];
            let latency_s = if one == other { INSIDE_SITE_S } else { between_s };
            network.connect(from, to, latency_s, route);
        }
    }
    network
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_affect_only_paths_of_c3_and_leave_a_tenth() {
        let grid = TeraGrid::new(Sharing::SitePairs, 1, 1800.0);
        let during: Vec<f64> = (0..1800).map(f64::from).collect();
        let loaded = during.iter().filter(|&&at_s| grid.load_at(at_s).is_some()).count();
        assert!((600..1500).contains(&loaded), "{loaded} of 1800 s");

        let at_s = during.into_iter().find(|&at_s| grid.load_at(at_s).is_some()).unwrap();
        let (before, now) = (grid.unloaded(), grid.at(at_s));
        let slower = |from, to| now.bandwidth(from, to) < 0.9 * before.bandwidth(from, to);
        assert!((0..8).any(|cluster| cluster != 2 && slower(16, 8 * cluster)));
        assert!(!slower(0, 56), "C1 to C8 has nothing to do with C3 here");
        assert!(
            now.capacities()
                .iter()
                .zip(before.capacities())
                .all(|(now, all)| now >= &(0.0999 * all))
        );
    }

    #[test]
    fn unloaded_transfers_get_the_assumed_bandwidths() {
        for sharing in [Sharing::ClusterPairs, Sharing::SitePairs, Sharing::SiteUplinks] {
            let grid = TeraGrid::new(sharing, 1, 0.0);
            let network = grid.unloaded();
            assert_eq!(network.len(), 64);
            assert_eq!(network.bandwidth(8, 9), 100.0 * MBIT);
            assert_eq!(network.bandwidth(8, 0), 60.0 * MBIT);
            assert_eq!(network.bandwidth(8, 63), 30.0 * MBIT);
            assert_eq!(network.latency_s(8, 63), 0.033);
        }
    }
}
