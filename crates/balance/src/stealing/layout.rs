//! The nodes that take part in stealing: their sites, the parts of sites, directories and heads.

use gridspan_topology::{GroupId, Hierarchy, Latency, NodeId};
use std::collections::BTreeMap;
use std::time::Duration;

/// Longest round trip that is not wide-area. Ethernet in one building takes less than 1 ms, and
/// neighbouring cities more than 2 ms.
const WIDE_AREA_RTT: Duration = Duration::from_millis(2);

/// Maximum number of nodes of a directory. Its node handles one message from each in 8 ms, at 2 µs
/// per message. Smaller directories would cost more than they save, since parts that exchange work
/// through the head of the site send twice as many messages and end later.
const NODES_PER_DIRECTORY: usize = 4096;

/// The places of the nodes of one job, for stealing. The layout must be the same on all nodes, so
/// that they agree on directories and heads; while news of changes spreads, it may differ.
///
/// A *site* here is a largest group of the hierarchy with a median round trip of at most 2 ms.
/// Sites of more than 4,096 nodes have several *parts* of equal size. The first node of a part
/// keeps its directory; the first node of the first part is the *head* of the site.
#[derive(Clone, Debug, PartialEq)]
pub struct StealingLayout {
    nodes: Vec<NodeId>,
    sites: Vec<Site>,
    /// The site and the part of each node of the hierarchy, by its number.
    place_of: Vec<Option<(u32, u32)>>,
    /// The site and the part of each node that joined later, which may have any number.
    late: BTreeMap<NodeId, (u32, u32)>,
    /// Latencies between sites in one direction, row by row.
    latencies: Vec<Latency>,
}

#[derive(Clone, Debug, PartialEq)]
struct Site {
    nodes: Vec<NodeId>,
    parts: Vec<Vec<NodeId>>,
}

impl StealingLayout {
    /// Derives the places from a hierarchy. Where no round trips are known, the first level below
    /// the root is that of the sites.
    pub fn new(hierarchy: &Hierarchy) -> Self {
        let groups = sites(hierarchy);
        let nodes: Vec<NodeId> = hierarchy.nodes().collect();
        let count = nodes.last().map_or(0, |last| last.index() + 1);
        let mut places = Self {
            nodes,
            sites: vec![],
            place_of: vec![None; count],
            late: BTreeMap::new(),
            latencies: vec![],
        };
        for (site, &group) in groups.iter().enumerate() {
            let members = hierarchy.group(group).members();
            let count = members.len().div_ceil(NODES_PER_DIRECTORY).max(1);
            let bound = |part: usize| part * members.len() / count;
            let parts = (0..count).map(|part| members[bound(part)..bound(part + 1)].to_vec());
            let parts: Vec<Vec<NodeId>> = parts.collect();
            for (part, nodes) in parts.iter().enumerate() {
                for node in nodes {
                    places.place_of[node.index()] = Some((site as u32, part as u32));
                }
            }
            places.sites.push(Site { nodes: members.to_vec(), parts });
            let rtt = |&other: &GroupId| hierarchy.rtt_between(group, other);
            let one_way = groups.iter().map(|other| Latency(rtt(other).unwrap_or_default() / 2));
            places.latencies.extend(one_way);
        }
        places
    }

    /// Returns all nodes in order.
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// Returns whether the node takes part.
    pub fn contains(&self, node: NodeId) -> bool {
        self.place(node).is_some()
    }

    /// Returns the number of sites, including those that have lost all nodes.
    pub fn site_count(&self) -> usize {
        self.sites.len()
    }

    /// Returns the site of a node that takes part.
    pub fn site_of(&self, node: NodeId) -> Option<usize> {
        self.place(node).map(|(site, _)| site)
    }

    /// Returns the nodes of a site in order; none if the site does not exist.
    pub fn nodes_in(&self, site: usize) -> &[NodeId] {
        self.sites.get(site).map_or(&[], |site| &site.nodes)
    }

    /// Returns the latency in one direction between nodes of two sites, or inside one; zero if it
    /// is not known.
    pub fn latency(&self, from: usize, to: usize) -> Latency {
        let row = self.sites.len();
        let place = (from < row && to < row).then_some(from * row + to);
        place.and_then(|place| self.latencies.get(place)).copied().unwrap_or_default()
    }

    /// Returns the latency in one direction between nodes of two sites, or inside one; `None` if it
    /// is not known.
    pub(super) fn known_latency(&self, from: usize, to: usize) -> Option<Duration> {
        Some(self.latency(from, to).duration()).filter(|way| !way.is_zero())
    }

    /// Returns whether two nodes may exchange tasks. Nodes that joined later exchange tasks with
    /// founders only, since two of them may be unable to reach each other.
    pub(super) fn may_trade(&self, one: NodeId, other: NodeId) -> bool {
        !self.late.contains_key(&one) || !self.late.contains_key(&other)
    }

    /// Returns whether a node joined later.
    pub(super) fn is_late(&self, node: NodeId) -> bool {
        self.late.contains_key(&node)
    }

    /// Returns the number of parts of a site.
    pub(super) fn part_count(&self, site: usize) -> usize {
        self.sites.get(site).map_or(0, |site| site.parts.len())
    }

    /// Returns the site and the part of a node that takes part.
    pub(super) fn place(&self, node: NodeId) -> Option<(usize, usize)> {
        let founder = self.place_of.get(node.index()).copied().flatten();
        let (site, part) = founder.or_else(|| self.late.get(&node).copied())?;
        Some((site as usize, part as usize))
    }

    /// Returns the nodes of a part.
    pub(super) fn nodes_of_part(&self, site: usize, part: usize) -> &[NodeId] {
        self.sites.get(site).and_then(|site| site.parts.get(part)).map_or(&[], Vec::as_slice)
    }

    /// Returns the node that keeps the directory of a part.
    pub(super) fn keeper(&self, site: usize, part: usize) -> Option<NodeId> {
        self.nodes_of_part(site, part).first().copied()
    }

    /// Returns the head of a site.
    pub(super) fn head(&self, site: usize) -> Option<NodeId> {
        self.nodes_in(site).first().copied()
    }

    /// Adds a node to the site of `near`; returns whether that changes anything. Nodes that join
    /// have the highest numbers, so that directories and heads stay on their nodes.
    pub fn add(&mut self, node: NodeId, near: NodeId) -> bool {
        let Some((site, _)) = self.place(near).filter(|_| !self.contains(node)) else {
            return false;
        };
        let parts = &mut self.sites[site].parts;
        // All nodes compute the same part, whatever other changes they have received.
        let part = node.index() % parts.len().max(1);
        self.late.insert(node, (site as u32, part as u32));
        let site = &mut self.sites[site];
        for nodes in [&mut self.nodes, &mut site.nodes, &mut site.parts[part]] {
            let at = nodes.partition_point(|&other| other < node);
            nodes.insert(at, node);
        }
        true
    }

    /// Removes a node; returns whether it took part. Parts keep their other nodes.
    pub(super) fn remove(&mut self, node: NodeId) -> bool {
        let Some((site, part)) = self.place(node) else { return false };
        self.late.remove(&node);
        if let Some(place) = self.place_of.get_mut(node.index()) {
            *place = None;
        }
        let site = &mut self.sites[site];
        for nodes in [&mut self.nodes, &mut site.nodes, &mut site.parts[part]] {
            nodes.retain(|&other| other != node);
        }
        true
    }
}

/// Returns the largest groups without wide-area links inside.
fn sites(hierarchy: &Hierarchy) -> Vec<GroupId> {
    let is_known = hierarchy.levels().any(|level| level.rtt.is_some());
    let mut sites = Vec::new();
    let mut open = vec![hierarchy.root()];
    while let Some(id) = open.pop() {
        let group = hierarchy.group(id);
        let is_wide = match group.rtt().or(level_rtt(hierarchy, group.level())) {
            Some(rtt) => rtt.median > WIDE_AREA_RTT,
            None => !is_known && group.level() == 0,
        };
        if is_wide && !group.children().is_empty() {
            open.extend(group.children().iter().rev());
        } else {
            sites.push(id);
        }
    }
    sites
}

fn level_rtt(hierarchy: &Hierarchy, level: usize) -> Option<gridspan_topology::RttRange> {
    hierarchy.levels().nth(level).and_then(|level| level.rtt)
}
