//! The stored and transmitted form of a grid: only data that cannot be computed from the rest.

use crate::id::{NodeId, SiteId};
use crate::link::Link;
use crate::spec::grid::GridSpec;
use crate::spec::site::{HostSpec, SiteError, SiteSpec};
use crate::spec::timeline::{Change, ForeignLoad, TimelineError};
use crate::units::Latency;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

/// Error of a stored description. Nothing was read; correct the part named.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GridSpecError {
    /// A site is invalid.
    #[error(transparent)]
    Site(#[from] SiteError),
    /// A link or a change names a site that does not exist, or a link joins a site with itself.
    #[error(
        "a link or a change names sites {from} and {to}; write numbers below {sites}, different ones for a link"
    )]
    LinkEnds {
        /// The number of the first site.
        from: u32,
        /// The number of the second site.
        to: u32,
        /// Number of sites.
        sites: u32,
    },
    /// A foreign load is on a node that does not exist.
    #[error("a foreign load is on {node}, but there are only {nodes} nodes; write one of them")]
    LoadNode {
        /// The node.
        node: NodeId,
        /// Number of nodes.
        nodes: u32,
    },
    /// A change is invalid.
    #[error("a change is invalid: {reason}")]
    Change {
        /// The reason.
        reason: String,
    },
}

impl Serialize for GridSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Parts::from(self.clone()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for GridSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::try_from(Parts::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// The stored parts.
#[derive(Serialize, Deserialize)]
pub(super) struct Parts {
    pub(super) sites: Vec<SiteSpec>,
    wan: Link,
    links: Vec<DirectedLink>,
    loopback: Latency,
    timeline: Vec<Change>,
    pub(super) foreign_loads: Vec<ForeignLoad>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct DirectedLink {
    from: SiteId,
    to: SiteId,
    link: Link,
}

impl TryFrom<Parts> for GridSpec {
    type Error = GridSpecError;

    fn try_from(parts: Parts) -> Result<Self, GridSpecError> {
        let mut spec = Self::new(parts.sites)?.with_wan(parts.wan).with_loopback(parts.loopback);
        let sites = spec.layout().site_count();
        for DirectedLink { from, to, link } in parts.links {
            if from == to || from.0.max(to.0) >= sites {
                return Err(GridSpecError::LinkEnds { from: from.0, to: to.0, sites });
            }
            spec.set_link(from, to, link);
        }
        let refuse = |error: TimelineError| GridSpecError::Change { reason: error.to_string() };
        for change in parts.timeline {
            let (from, to) = (change.from.0, change.to.0);
            if from.max(to) >= sites {
                return Err(GridSpecError::LinkEnds { from, to, sites });
            }
            spec.insert_change(change).map_err(refuse)?;
        }
        let nodes = spec.layout().node_count();
        for load in parts.foreign_loads {
            if load.node.0 >= nodes {
                return Err(GridSpecError::LoadNode { node: load.node, nodes });
            }
            spec.insert_load(load).map_err(refuse)?;
        }
        Ok(spec)
    }
}

impl From<GridSpec> for Parts {
    fn from(spec: GridSpec) -> Self {
        let layout = &spec.layout;
        let first_cluster =
            |site| spec.clusters.iter().take_while(|cluster| cluster.site < site).count() as u32;
        let host_of = |node: NodeId| HostSpec {
            name: spec.hosts[node.index()].clone(),
            pes: layout.place(node).pes.len() as u32,
            cluster: spec.cluster_of(node).map(|at| at - first_cluster(layout.site_of_node(node))),
            speed: spec.speed(node),
        };
        let clusters_of = |site| spec.clusters.iter().filter(move |cluster| cluster.site == site);
        let site_of = |site: SiteId| SiteSpec {
            name: layout.site_name(site).to_owned(),
            hosts: layout.nodes_in(site).map(host_of).collect(),
            lan: spec.lans[site.index()],
            clusters: clusters_of(site).map(|cluster| cluster.spec.clone()).collect(),
            port: spec.ports[site.index()],
            gateway: spec.gateways[site.index()].clone(),
            uplink: spec.uplinks[site.index()],
        };
        let sites = layout.sites().map(site_of).collect();
        let link_of = |((from, to), link)| DirectedLink { from, to, link };
        let GridSpec { links, wan, loopback, timeline, foreign_loads, .. } = spec;
        let links = links.into_iter().map(link_of).collect();
        Self { sites, wan, links, loopback, timeline, foreign_loads }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;

    fn two_sites() -> GridSpec {
        let sites = vec![("a".to_owned(), vec![2, 1]), ("b".to_owned(), vec![3])];
        GridSpec::from_layout(&Layout::new(sites)).unwrap()
    }

    #[test]
    fn a_stored_description_is_read_back_unchanged() {
        let spec = two_sites()
            .with_lan(Link::perfect())
            .with_link(SiteId(0), SiteId(1), Link::wan().with_loss(0.01).with_queue_bytes(9))
            .with_loopback(Latency::from_micros(2));

        let stored = postcard::to_stdvec(&spec).unwrap();

        assert_eq!(postcard::from_bytes::<GridSpec>(&stored).unwrap(), spec);
    }

    #[test]
    fn a_stored_link_with_invalid_ends_is_refused() {
        for (from, to) in [(0, 2), (2, 0), (1, 1)] {
            let mut parts = Parts::from(two_sites());
            let (a, b) = (SiteId(from), SiteId(to));
            parts.links.push(DirectedLink { from: a, to: b, link: Link::wan() });

            let refused = GridSpec::try_from(parts);

            assert_eq!(refused, Err(GridSpecError::LinkEnds { from, to, sites: 2 }));
        }
    }

    #[test]
    fn all_parts_of_a_stored_grid_file_are_read_back() {
        let spec = GridSpec::from_toml(
            r#"
            timeline = ["at 1min link b>a rate=10mbit", "at 1s link a-b loss=1%", "at 1s node x1 load=1"]
            [site.a]
            hosts = ["a1", "a1"]
            speed = "1/3"
            port = 7000
            gateway = "head"
            uplink = "2gbit"
            cluster.x = { hosts = ["x1"] }
            cluster.y = { hosts = ["y[1-2]"], pes = 3, lan = { latency = "5us" } }
            [site.b.cluster.z]
            hosts = ["z1"]
            "#,
        )
        .unwrap();

        let stored = postcard::to_stdvec(&spec).unwrap();

        assert_eq!(postcard::from_bytes::<GridSpec>(&stored).unwrap(), spec);
    }

    #[test]
    fn a_grid_without_one_of_its_sites_is_read_back_unchanged() {
        // Both sites have a cluster `x`.
        let spec = GridSpec::from_toml(
            r#"
            [site.a.cluster.x]
            hosts = ["a1"]
            [site.b.cluster.x]
            hosts = ["b1"]
            lan = { latency = "5us" }
            [site.b.cluster.y]
            hosts = ["b2"]
            "#,
        )
        .unwrap();

        for lost in [vec![NodeId(0)], vec![NodeId(1), NodeId(2)]] {
            let left = spec.without(&lost).unwrap();

            let stored = postcard::to_stdvec(&left).unwrap();
            assert_eq!(postcard::from_bytes::<GridSpec>(&stored).unwrap(), left);
        }
        let left = spec.without(&[NodeId(0)]).unwrap();
        let names = [0, 1].map(|node| left.cluster_name(left.cluster_of(NodeId(node)).unwrap()));
        assert_eq!(names, ["x", "y"]);
        assert_eq!(left.link(NodeId(0), NodeId(0)).latency, Latency::from_micros(5));
    }

    #[test]
    fn a_stored_load_of_a_node_that_does_not_exist_is_refused() {
        let mut parts = Parts::from(two_sites().with_change("at 1s node a1 load=1").unwrap());
        parts.foreign_loads[0].node = NodeId(3);

        let refused = GridSpec::try_from(parts);

        assert_eq!(refused, Err(GridSpecError::LoadNode { node: NodeId(3), nodes: 3 }));
    }

    #[test]
    fn a_stored_change_of_an_unknown_link_is_refused() {
        let mut parts = Parts::from(two_sites().with_change("at 1s link a-b loss=1%").unwrap());
        parts.timeline[0].to = SiteId(2);

        let refused = GridSpec::try_from(parts);

        assert_eq!(refused, Err(GridSpecError::LinkEnds { from: 0, to: 2, sites: 2 }));
    }
}
