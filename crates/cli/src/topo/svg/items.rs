//! The rows of a picture: nodes, or groups where there are too many nodes, in the order of the
//! tree.

use crate::topo::topology::Topology;
use gridspan_topology::{GroupId, Hierarchy, NodeId};
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum number of rows that a reader can distinguish on a page.
const ROWS_MAX: usize = 256;

/// Content of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Node(NodeId),
    Group(GroupId),
}

/// All rows.
pub(super) struct Items {
    rows: Vec<Item>,
    names: Vec<String>,
    blocks: Vec<Block>,
    /// First row and end of the rows of each group that has rows.
    ranges: BTreeMap<GroupId, (usize, usize)>,
    left_out: usize,
}

/// A coarsest group and its rows.
pub(super) struct Block {
    pub(super) name: String,
    pub(super) first: usize,
    pub(super) end: usize,
}

impl Items {
    pub(super) fn new(topology: &Topology) -> Self {
        let hierarchy = &topology.hierarchy;
        let (level, kept, left_out) = choose(hierarchy);
        let mut items =
            Self { rows: vec![], names: vec![], blocks: vec![], ranges: BTreeMap::new(), left_out };
        items.add(topology, hierarchy.root(), level, kept);
        for group in topology.coarsest() {
            if let Some((first, end)) = items.range(group) {
                let name = topology.names.group(group).to_owned();
                items.blocks.push(Block { name, first, end });
            }
        }
        items
    }

    /// Adds the rows below a group. `level` is that of the groups that are rows; `None` if nodes
    /// are rows. Groups with fewer than `least` nodes get no row.
    fn add(&mut self, topology: &Topology, number: GroupId, level: Option<usize>, least: usize) {
        let group = topology.hierarchy.group(number);
        let first = self.rows.len();
        if level == Some(group.level()) {
            if group.members().len() >= least {
                self.rows.push(Item::Group(number));
                let name = topology.names.group(number);
                self.names.push(format!("{name} ({})", group.members().len()));
            }
        } else if group.children().is_empty() {
            for &node in group.members() {
                self.rows.push(Item::Node(node));
                self.names.push(topology.names.node(node).to_owned());
            }
        } else {
            for &child in group.children() {
                self.add(topology, child, level, least);
            }
        }
        if self.rows.len() > first {
            self.ranges.insert(number, (first, self.rows.len()));
        }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    pub(super) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    pub(super) fn are_groups(&self) -> bool {
        matches!(self.rows.first(), Some(Item::Group(_)))
    }

    /// Returns the number of groups without a row.
    pub(super) fn left_out(&self) -> usize {
        self.left_out
    }

    pub(super) fn item(&self, row: usize) -> Item {
        self.rows[row]
    }

    /// Returns the rows of a group: the first and the end; `None` if it has no row.
    pub(super) fn range(&self, group: GroupId) -> Option<(usize, usize)> {
        self.ranges.get(&group).copied()
    }

    /// Returns the round trip from one row to another, in milliseconds.
    pub(super) fn rtt(&self, topology: &Topology, from: usize, to: usize) -> Option<f64> {
        let rtt: Option<Duration> = match (self.rows[from], self.rows[to]) {
            (Item::Node(from), Item::Node(to)) => topology.rtt(from, to),
            (Item::Group(from), Item::Group(to)) => topology.hierarchy.rtt_between(from, to),
            _ => None,
        };
        rtt.map(|rtt| rtt.as_secs_f64() * 1e3)
    }
}

/// Returns the level of the groups that are rows, `None` if nodes are; the smallest size of a group
/// with a row; and the number of groups without one.
fn choose(hierarchy: &Hierarchy) -> (Option<usize>, usize, usize) {
    if hierarchy.nodes().len() <= ROWS_MAX {
        return (None, 0, 0);
    }
    let fits = |level: &usize| (2..=ROWS_MAX).contains(&hierarchy.groups_at(*level).len());
    if let Some(level) = (1..hierarchy.depth()).rev().find(fits) {
        return (Some(level), 0, 0);
    }
    let level = usize::from(hierarchy.depth() > 1);
    let size = |group| hierarchy.group(group).members().len();
    let mut sizes: Vec<usize> = hierarchy.groups_at(level).map(size).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    // If only some groups of one size fit, all groups of that size are left out.
    let least = sizes.get(ROWS_MAX).map_or(0, |size| size + 1);
    let left_out = sizes.iter().filter(|size| **size < least).count();
    (Some(level), least, left_out)
}
