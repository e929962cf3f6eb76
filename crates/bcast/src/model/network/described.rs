//! The network that a grid file describes.

use super::estimate::{NetworkEstimate, Place, Sharing};
use super::fabric::NodeLink;
use gridspan_topology::{Bandwidth, GridSpec, NodeId};
use std::collections::BTreeMap;

/// Bytes per second of a link described as unlimited: a terabit per second, which slows no message.
/// It is not larger, so that rounding errors of sums over thousands of such links stay far below
/// the bandwidths of slow links.
const UNLIMITED: f64 = 125e9;

impl NetworkEstimate {
    /// Makes an estimate for the nodes of a described grid, in their order. Clusters are numbered
    /// in the order of their first nodes; the nodes of a site outside all clusters form one
    /// cluster.
    ///
    /// A node sends and receives at the bandwidth inside its cluster. If a site has several
    /// clusters, each has an access link with the bandwidth of the site's LAN; the only cluster of
    /// a site has no such limit. `sharing` sets how transfers share the links between sites, which
    /// a grid file does not describe; they also share the uplinks that the file gives. Latency
    /// includes mean jitter. The estimate ignores losses, future changes, and that several nodes
    /// may share one host.
    pub fn from_grid(grid: &GridSpec, initiation_s: f64, sharing: Sharing) -> Self {
        let layout = grid.layout();
        let mut numbers = BTreeMap::new();
        let mut first = Vec::new();
        let mut places = Vec::with_capacity(layout.node_count() as usize);
        for node in layout.nodes() {
            let site = layout.site_of_node(node);
            let cluster = *numbers.entry((site, grid.cluster_of(node))).or_insert_with(|| {
                first.push(node);
                first.len() as u32 - 1
            });
            places.push(Place { site: site.0, cluster });
        }
        // The link of a node to itself is the link inside its cluster.
        let inside = |node: NodeId| bytes_per_second(grid.bandwidth(node, node));
        let nodes = places.iter().zip(layout.nodes()).map(|(place, node)| NodeLink {
            cluster: place.cluster,
            out: inside(node),
            into: inside(node),
            initiation_s,
        });
        let mut estimate = Self::new(&places, nodes.collect(), sharing, |from, to| {
            let (from, to) = (first[from], first[to]);
            let link = grid.link(from, to);
            let latency = link.latency.duration() + link.jitter / 2;
            (latency.as_secs_f64(), bytes_per_second(grid.bandwidth(from, to)))
        });
        for (cluster, &node) in first.iter().enumerate() {
            let site = layout.site_of_node(node);
            let is_only =
                first.iter().filter(|&&one| layout.site_of_node(one) == site).count() == 1;
            let members = places.iter().filter(|place| place.cluster == cluster as u32).count();
            let access = match is_only {
                true => members as f64 * inside(node),
                false => bytes_per_second(grid.link_between(site, site).bandwidth),
            };
            estimate.set_together(cluster, access, access);
        }
        for site in layout.sites() {
            if let Some(rate) = grid.uplink(site) {
                estimate.set_uplink(site.0, bytes_per_second(rate));
            }
        }
        estimate
    }
}

fn bytes_per_second(bandwidth: Bandwidth) -> f64 {
    (bandwidth.bits_per_second() as f64 / 8.0).min(UNLIMITED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_topology::Link;

    const MBIT: f64 = 125_000.0;

    /// The second site of Gupta and Vadhiyar (2006): clusters of 100 Mbit/s behind access links of
    /// 60, and pipes of 30 to another site.
    const GRID: &str = "wan = { latency = \"33ms\", bandwidth = \"30mbit\" }\n\
        [site.anl]\nlan = { latency = \"50us\", bandwidth = \"60mbit\" }\n\
        [site.anl.cluster.one]\nhosts = [\"a[1-2]\"]\n\
        lan = { latency = \"50us\", bandwidth = \"100mbit\" }\n\
        [site.anl.cluster.two]\nhosts = [\"b[1-3]\"]\n\
        lan = { latency = \"50us\", bandwidth = \"100mbit\" }\n\
        [site.psc]\nhosts = [\"p[1-2]\"]\n\
        lan = { latency = \"20us\", bandwidth = \"1gbit\" }\n";

    #[test]
    fn nodes_clusters_and_links_are_as_the_file_says() {
        let grid = GridSpec::from_toml(GRID).unwrap();

        let estimate = NetworkEstimate::from_grid(&grid, 2e-5, Sharing::SitePairs);
        let network = estimate.network();

        let clusters: Vec<usize> = (0..7).map(|node| network.cluster_of(node)).collect();
        assert_eq!(clusters, [0, 0, 1, 1, 1, 2, 2]);
        assert_eq!([0, 1, 2].map(|cluster| estimate.site_of(cluster)), [0, 0, 1]);
        for (from, to, mbit, latency_s) in [
            (0, 1, 100.0, 50e-6),
            (1, 2, 60.0, 50e-6),
            (4, 5, 30.0, 0.033),
            (5, 0, 30.0, 0.033),
            (5, 6, 1000.0, 20e-6),
        ] {
            assert_eq!(network.bandwidth(from, to), mbit * MBIT, "{from} {to}");
            assert_eq!(network.latency_s(from, to), latency_s, "{from} {to}");
        }
    }

    #[test]
    fn clusters_of_one_site_share_a_pipe_and_each_has_an_access() {
        let grid = GridSpec::from_toml(GRID).unwrap();
        let shared = |sharing, one: (usize, usize), other: (usize, usize)| {
            let network = NetworkEstimate::from_grid(&grid, 2e-5, sharing).network();
            let meet = network.route(other.0, other.1).to_vec();
            let met = network.route(one.0, one.1).iter().filter(|shared| meet.contains(shared));
            let least = met.map(|&shared| network.capacities()[shared as usize] / MBIT);
            least.fold(f64::INFINITY, f64::min)
        };

        // Both transfers go into one cluster. They share the pipe between the sites, or only the
        // access link of that cluster, which has two nodes.
        assert_eq!(shared(Sharing::SitePairs, (0, 2), (1, 2)), 30.0);
        assert_eq!(shared(Sharing::ClusterPairs, (0, 2), (1, 2)), 2000.0);
        assert_eq!(shared(Sharing::SitePairs, (0, 2), (0, 1)), 60.0);
    }

    #[test]
    fn transfers_from_one_site_share_its_uplink() {
        let grid = GridSpec::from_emulate("3x2,wan=20ms,rate=1gbit,uplink=500mbit").unwrap();
        let network = NetworkEstimate::from_grid(&grid, 2e-5, Sharing::ClusterPairs).network();
        let shared = |one: (usize, usize), other: (usize, usize)| {
            let meet = network.route(other.0, other.1);
            let met = network.route(one.0, one.1).iter().filter(|shared| meet.contains(shared));
            let least = met.map(|&shared| network.capacities()[shared as usize] / MBIT);
            least.fold(f64::INFINITY, f64::min)
        };

        assert_eq!(shared((0, 1), (0, 2)), 500.0, "both leave one site");
        assert_eq!(shared((1, 0), (2, 0)), 500.0, "both enter one site");
        assert_eq!(shared((0, 1), (1, 0)), f64::INFINITY, "the directions are separate");
        assert_eq!(network.bandwidth(0, 2), 500.0 * MBIT);
    }

    #[test]
    fn an_unlimited_link_counts_as_a_terabit_per_second() {
        let grid = GridSpec::single(1).with_lan(Link::perfect());
        let network = NetworkEstimate::from_grid(&grid, 0.0, Sharing::SitePairs).network();
        assert_eq!(network.node(0).out, 125e9);
    }
}
