//! A topology to show: places, links between them, and the source of this information.

use crate::names::Names;
use gridspan::links::LinkReport;
use gridspan_topology::{
    Bandwidth, GridSpec, GroupId, Hierarchy, LinkEstimate, NodeId, Pipes, RttMatrix, Uplink,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// Source of a topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A grid file describes the topology.
    GridFile(String),
    /// The topology is inferred from a file of round trips.
    MatrixFile(String),
    /// Nodes of this grid were started to measure the topology.
    Measured(String),
    /// The nodes of a running job have measured the topology.
    Job(String),
}

/// Places and the links between them.
pub(crate) struct Topology {
    pub(crate) source: Source,
    /// The hierarchy of nodes by distance.
    pub(crate) hierarchy: Hierarchy,
    /// Names of the nodes and groups.
    pub(crate) names: Names,
    /// Irregularities, as text for the user.
    pub(crate) warnings: Vec<String>,
    spec: Option<GridSpec>,
    numbers: Numbers,
}

/// Where the numbers of links come from.
enum Numbers {
    Described,
    Matrix(RttMatrix),
    Measured {
        estimates: BTreeMap<(GroupId, GroupId), LinkEstimate>,
        ages: BTreeMap<(GroupId, GroupId), Duration>,
        uplinks: BTreeMap<GroupId, Uplink>,
    },
}

/// Known numbers of the link from one group to another, or of the links inside one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct LinkView {
    /// Latency in one direction.
    pub(crate) latency: Option<Duration>,
    pub(crate) bandwidth: Option<Bandwidth>,
    /// Share of packets lost, from 0 to 1.
    pub(crate) loss: Option<f64>,
    /// Time since the link was last observed.
    pub(crate) age: Option<Duration>,
    /// Confidence, from 0 to 1.
    pub(crate) confidence: Option<f64>,
}

impl Topology {
    /// Creates the topology that a grid file describes.
    pub(crate) fn described(path: String, spec: GridSpec) -> Self {
        let hierarchy = Hierarchy::from_grid(&spec);
        Self {
            source: Source::GridFile(path),
            names: Names::of_grid(&hierarchy, &spec),
            hierarchy,
            warnings: vec![],
            spec: Some(spec),
            numbers: Numbers::Described,
        }
    }

    /// Infers the topology from round trips, which takes some time for large matrices.
    pub(crate) fn inferred(path: String, matrix: RttMatrix, names: Option<Vec<String>>) -> Self {
        let hierarchy = gridspan_topology::infer(&matrix);
        let numbers = || (0..matrix.nodes()).map(|node| format!("node{node}")).collect();
        Self {
            source: Source::MatrixFile(path),
            names: Names::of_nodes(&hierarchy, names.unwrap_or_else(numbers)),
            hierarchy,
            warnings: vec![],
            spec: None,
            numbers: Numbers::Matrix(matrix),
        }
    }

    /// Creates the topology that the nodes of a job have measured, `waited` ago.
    pub(crate) fn measured(
        source: Source,
        spec: GridSpec,
        report: LinkReport,
        waited: Duration,
    ) -> Self {
        let LinkReport { at, hierarchy, estimates, uplinks, warnings, .. } = report;
        let age = |estimate: &LinkEstimate| at.since(estimate.observed) + waited;
        let ages = estimates.iter().map(|(pair, estimate)| (*pair, age(estimate))).collect();
        let numbers = Numbers::Measured {
            estimates: estimates.into_iter().collect(),
            ages,
            uplinks: uplinks.into_iter().collect(),
        };
        let names = Names::of_grid(&hierarchy, &spec);
        Self { source, names, hierarchy, warnings, spec: Some(spec), numbers }
    }

    /// Returns the grid, if it is known.
    pub(crate) fn spec(&self) -> Option<&GridSpec> {
        self.spec.as_ref()
    }

    /// Returns the groups of the coarsest level below the root; empty if there is no such level.
    pub(crate) fn coarsest(&self) -> Vec<GroupId> {
        self.hierarchy.groups_at(1).collect()
    }

    /// Returns how a group reaches the outside, and at which rate, if that was measured, or if the
    /// group is a site whose uplink a grid file gives.
    pub(crate) fn uplink(&self, group: GroupId) -> Option<(Pipes, Bandwidth)> {
        match (&self.numbers, &self.spec) {
            (Numbers::Measured { uplinks, .. }, _) => {
                uplinks.get(&group).map(|uplink| (uplink.pipes, uplink.bandwidth))
            }
            (Numbers::Described, Some(spec)) => {
                let group = self.hierarchy.group(group);
                let site = spec.layout().site_of_node(group.leader());
                let is_site = group.level() == 1
                    && spec.layout().nodes_in(site).eq(group.members().iter().copied());
                spec.uplink(site).filter(|_| is_site).map(|rate| (Pipes::Shared, rate))
            }
            (Numbers::Described | Numbers::Matrix(_), _) => None,
        }
    }

    /// Returns the known numbers of the link from one group to another, or of the links inside one.
    pub(crate) fn link(&self, from: GroupId, to: GroupId) -> LinkView {
        let group = |group| self.hierarchy.group(group);
        match (&self.numbers, &self.spec) {
            (Numbers::Described, Some(spec)) if from != to => {
                let [from, to] = [from, to].map(|it| group(it).leader());
                let link = spec.link(from, to);
                LinkView {
                    latency: Some(link.latency.duration() + link.jitter / 2),
                    bandwidth: Some(spec.bandwidth(from, to)),
                    loss: Some(link.loss),
                    ..LinkView::default()
                }
            }
            (Numbers::Measured { estimates, ages, .. }, _) => match estimates.get(&(from, to)) {
                Some(estimate) => LinkView {
                    latency: self.measured_latency(from, to, estimate),
                    bandwidth: estimate.bandwidth,
                    loss: Some(estimate.loss),
                    age: ages.get(&(from, to)).copied(),
                    confidence: Some(estimate.confidence),
                },
                None => self.usual_link(from, to),
            },
            _ => self.usual_link(from, to),
        }
    }

    /// Whether a running job measured the topology. The latencies that a running job observes are
    /// newer than the round trips from which the hierarchy was inferred. In other cases these round
    /// trips, each the least of several, are better than a momentary observation.
    pub(crate) fn is_live(&self) -> bool {
        matches!(self.source, Source::Job(_))
    }

    fn measured_latency(
        &self,
        from: GroupId,
        to: GroupId,
        estimate: &LinkEstimate,
    ) -> Option<Duration> {
        let usual = self.usual_link(from, to).latency.filter(|_| !self.is_live());
        usual.or(Some(estimate.latency.duration()))
    }

    /// Returns the numbers of a link as the hierarchy has them: half of the round trip as the
    /// latency and, for links inside one group, the bandwidth.
    fn usual_link(&self, from: GroupId, to: GroupId) -> LinkView {
        let hierarchy = &self.hierarchy;
        let mut group = hierarchy.group(from);
        // A level that does not divide a group has no numbers of the links inside it.
        while let [only] = group.children() {
            group = hierarchy.group(*only);
        }
        let (rtt, bandwidth) = match from == to {
            true => (group.rtt().map(|range| range.median), group.bandwidth()),
            false => (hierarchy.rtt_between(from, to), None),
        };
        let bandwidth = bandwidth.map(|range| range.median);
        LinkView { latency: rtt.map(|rtt| rtt / 2), bandwidth, ..LinkView::default() }
    }

    /// Returns the round trip from one node to another; `None` from a node to itself.
    pub(crate) fn rtt(&self, from: NodeId, to: NodeId) -> Option<Duration> {
        if from == to {
            return None;
        }
        let inferred = || self.hierarchy.rtt(from, to);
        match (&self.numbers, &self.spec) {
            (Numbers::Matrix(matrix), _) => matrix.rtt(from, to),
            (Numbers::Described, Some(spec)) => {
                let one_way = |a, b| {
                    let link = spec.link(a, b);
                    link.latency.duration() + link.jitter / 2
                };
                Some(one_way(from, to) + one_way(to, from))
            }
            (Numbers::Measured { estimates, .. }, _) => {
                let known = self.hierarchy.ends(from, to).and_then(|ends| estimates.get(&ends));
                let known = known.filter(|_| self.is_live());
                known.map(|known| known.latency.duration() * 2).or_else(inferred)
            }
            _ => inferred(),
        }
    }

    /// Returns the pairs of groups with known numbers: those of the coarsest level, and all others
    /// that were measured.
    pub(crate) fn pairs(&self) -> Vec<(GroupId, GroupId)> {
        let groups = self.coarsest();
        let coarse = groups.iter().flat_map(|&from| groups.iter().map(move |&to| (from, to)));
        let mut pairs: Vec<_> = coarse.collect();
        if let Numbers::Measured { estimates, .. } = &self.numbers {
            pairs.extend(estimates.keys());
        }
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }
}

impl Source {
    /// Returns the kind of the source, for scripts.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::GridFile(_) => "grid-file",
            Self::MatrixFile(_) => "matrix-file",
            Self::Measured(_) => "measured",
            Self::Job(_) => "job",
        }
    }

    /// Returns the name of the file, the grid or the job.
    pub(crate) fn name(&self) -> &str {
        let (Self::GridFile(name)
        | Self::MatrixFile(name)
        | Self::Measured(name)
        | Self::Job(name)) = self;
        name
    }

    /// Describes the source, for people.
    pub(crate) fn title(&self) -> String {
        match self {
            Self::GridFile(path) => format!("as {path} describes it"),
            Self::MatrixFile(path) => format!("inferred from {path}"),
            Self::Measured(grid) => format!("measured on {grid}"),
            Self::Job(id) => format!("measured by the running job {id}"),
        }
    }
}
