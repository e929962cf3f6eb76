//! Inputs of a plan: the network that a grid describes, its names, and the root.

use crate::args::{BcastArgs, SharingName};
use crate::error::{BcastCommandError, CliError};
use crate::grid::described;
use crate::names::Names;
use gridspan_bcast::{Network, NetworkEstimate, Sharing, bound_s};
use gridspan_topology::{GridSpec, Hierarchy, NodeId, SiteId};
use std::collections::BTreeSet;
use std::time::Duration;

/// Limit on nodes; the next constant limits clusters. Above these limits, the strategies that
/// compare all pairs would take minutes.
const NODES_MAX: usize = 4096;
const CLUSTERS_MAX: usize = 128;

/// A grid as the strategies see it. Nodes are numbered as in the grid.
pub(super) struct Inputs {
    pub(super) spec: GridSpec,
    /// Path or short form that describes the grid.
    pub(super) source: String,
    pub(super) names: Names,
    /// The network that the grid describes.
    pub(super) network: Network,
    /// The site of each cluster.
    pub(super) sites: Vec<u32>,
    /// The node that broadcasts.
    pub(super) root: NodeId,
    /// Links that transfers between sites share.
    pub(super) sharing: Sharing,
    /// Time that a node takes to start a message or a segment.
    pub(super) initiation: Duration,
}

impl Inputs {
    /// Reads the grid and the root that the flags name.
    pub(super) fn new(args: &BcastArgs) -> Result<Self, CliError> {
        let (file, short) = (args.grid.as_deref(), args.emulate.as_deref());
        let described = described(file, short)?.ok_or(BcastCommandError::NoGrid)?;
        let spec = described.spec;
        let names = Names::of_grid(&Hierarchy::from_grid(&spec), &spec);
        let root = root(args.root.as_deref(), &spec, &names)?;
        let sharing = match args.sharing {
            SharingName::ClusterPairs => Sharing::ClusterPairs,
            SharingName::SitePairs => Sharing::SitePairs,
            SharingName::SiteUplinks => Sharing::SiteUplinks,
        };
        let nodes = spec.layout().node_count() as usize;
        if nodes < 2 {
            return Err(BcastCommandError::Alone.into());
        }
        let clusters = cluster_count(&spec);
        if nodes > NODES_MAX || clusters > CLUSTERS_MAX {
            let limits = [NODES_MAX, CLUSTERS_MAX];
            return Err(BcastCommandError::TooLarge { nodes, clusters, limits }.into());
        }
        let estimate = NetworkEstimate::from_grid(&spec, args.initiation.as_secs_f64(), sharing);
        Ok(Self {
            source: described.variable.1.to_string_lossy().into_owned(),
            names,
            network: estimate.network(),
            sites: (0..estimate.clusters()).map(|cluster| estimate.site_of(cluster)).collect(),
            root,
            sharing,
            initiation: args.initiation,
            spec,
        })
    }

    pub(super) fn nodes(&self) -> usize {
        self.network.len()
    }

    pub(super) fn name(&self, node: u32) -> &str {
        self.names.node(NodeId(node))
    }

    /// Name of a cluster: the site's, followed by the cluster's own name if it has one.
    pub(super) fn cluster_name(&self, cluster: usize) -> String {
        let first = NodeId(self.network.members(cluster).first().copied().unwrap_or(0));
        let site = self.site_name(self.sites[cluster]);
        match self.spec.cluster_of(first) {
            Some(cluster) => format!("{site}.{}", self.spec.cluster_name(cluster)),
            None => site.to_owned(),
        }
    }

    pub(super) fn site_name(&self, site: u32) -> &str {
        self.spec.layout().site_name(SiteId(site))
    }

    /// Whether the two nodes are at different sites.
    pub(super) fn is_wide_area(&self, from: u32, to: u32) -> bool {
        self.spec.is_wide_area(NodeId(from), NodeId(to))
    }

    /// Lower bound on the time of a broadcast, in seconds.
    pub(super) fn bound_s(&self, bytes: u64) -> f64 {
        bound_s(&self.network, self.root.0, bytes)
    }
}

fn cluster_count(spec: &GridSpec) -> usize {
    let layout = spec.layout();
    let place = |node| (layout.site_of_node(node), spec.cluster_of(node));
    let clusters: BTreeSet<_> = layout.nodes().map(place).collect();
    clusters.len()
}

/// Returns the only node with this name, host or number; node 0 if `wanted` is `None`.
fn root(wanted: Option<&str>, spec: &GridSpec, names: &Names) -> Result<NodeId, CliError> {
    let Some(wanted) = wanted else { return Ok(NodeId(0)) };
    let nodes: Vec<NodeId> = spec.layout().nodes().collect();
    let is_called = |node: &&NodeId| names.node(**node) == wanted || spec.host(**node) == wanted;
    let mut called = nodes.iter().filter(is_called);
    let found = match (called.next(), called.next()) {
        (Some(&only), None) => Some(only),
        (None, _) => wanted.parse().ok().map(NodeId).filter(|node| nodes.contains(node)),
        // The name of a host that runs several nodes is ambiguous.
        (Some(_), Some(_)) => None,
    };
    found.ok_or_else(|| {
        CliError::Bcast(BcastCommandError::NoRoot {
            name: wanted.to_owned(),
            nodes: names.list(&nodes),
        })
    })
}
