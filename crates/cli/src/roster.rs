//! All nodes that a job has had so far, by their numbers in the job.
//!
//! The first nodes are those of its grid, in the same order. Nodes that join while the job runs get
//! the next numbers, at whatever site they are. So a number, and the name made of it (`b/4`),
//! always means the same node, and no other node gets it later. In a grid the nodes of a site have
//! consecutive numbers, so a node also has a number in the grid, its *position*.

use gridspan_topology::{GridSpec, GridSpecError, HostSpec, NodeId, SiteId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A node that is added to a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NewNode {
    /// Name of its site, which may be new.
    pub(crate) site: String,
    /// Its host, with its PEs.
    pub(crate) host: HostSpec,
}

/// The nodes of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StoredRoster")]
pub(crate) struct Roster {
    /// The grid with all of them.
    grid: GridSpec,
    /// The position of each in the grid, by its number in the job.
    positions: Vec<NodeId>,
}

/// A roster as it was stored.
#[derive(Deserialize)]
struct StoredRoster {
    grid: GridSpec,
    positions: Vec<NodeId>,
}

impl TryFrom<StoredRoster> for Roster {
    type Error = &'static str;

    fn try_from(StoredRoster { grid, positions }: StoredRoster) -> Result<Self, Self::Error> {
        let mut all = positions.clone();
        all.sort_unstable();
        match all.into_iter().eq(grid.layout().nodes()) {
            true => Ok(Self { grid, positions }),
            false => Err("a node has no position, or that of another one"),
        }
    }
}

impl From<GridSpec> for Roster {
    fn from(grid: GridSpec) -> Self {
        let positions = grid.layout().nodes().collect();
        Self { grid, positions }
    }
}

impl Roster {
    /// Adds nodes, and returns their numbers.
    ///
    /// # Errors
    ///
    /// If the grid refuses the nodes. The roster is then unchanged.
    pub(crate) fn add(&mut self, nodes: &[NewNode]) -> Result<Vec<NodeId>, GridSpecError> {
        let named: Vec<_> =
            nodes.iter().map(|node| (node.site.clone(), node.host.clone())).collect();
        let (grid, moved) = self.grid.clone().with_nodes(&named)?;
        let before = self.positions.len();
        // `moved` begins with the new positions of the earlier nodes.
        let (old, new) = moved.split_at(before);
        self.positions = self.positions.iter().map(|position| old[position.index()]).collect();
        self.positions.extend(new);
        self.grid = grid;
        Ok((before..self.positions.len()).map(NodeId::from).collect())
    }

    /// The numbers of all nodes.
    pub(crate) fn nodes(
        &self,
    ) -> impl DoubleEndedIterator<Item = NodeId> + ExactSizeIterator + use<> {
        (0..self.positions.len()).map(NodeId::from)
    }

    /// The grid with all nodes, at their positions.
    pub(crate) fn grid(&self) -> &GridSpec {
        &self.grid
    }

    /// The position of a node in the grid. Panics if there is no such node, as do all methods that
    /// take a node.
    pub(crate) fn position(&self, node: NodeId) -> NodeId {
        self.positions[node.index()]
    }

    /// The host of a node.
    pub(crate) fn host(&self, node: NodeId) -> &str {
        self.grid.host(self.position(node))
    }

    /// The site of a node, by its number in the grid with all nodes.
    pub(crate) fn site(&self, node: NodeId) -> SiteId {
        self.grid.layout().site_of_node(self.position(node))
    }

    /// Name of the site of a node.
    pub(crate) fn site_name(&self, node: NodeId) -> &str {
        self.grid.layout().site_name(self.site(node))
    }

    /// Number of PEs of a node.
    pub(crate) fn pes(&self, node: NodeId) -> u32 {
        self.grid.layout().place(self.position(node)).pes.len() as u32
    }

    /// The name of a node, such as `a/0`.
    pub(crate) fn name(&self, node: NodeId) -> String {
        format!("{}/{}", self.site_name(node), node.0)
    }

    /// The names of all nodes.
    pub(crate) fn names(&self) -> Vec<String> {
        self.nodes().map(|node| self.name(node)).collect()
    }

    /// Finds nodes by their names, by their hosts, or by their sites.
    ///
    /// # Errors
    ///
    /// The first name that means no node.
    pub(crate) fn named<'n>(&self, names: &'n [String]) -> Result<BTreeSet<NodeId>, &'n str> {
        let mut found = BTreeSet::new();
        for text in names {
            let is_meant = |node: &NodeId| {
                self.name(*node) == *text
                    || self.site_name(*node) == text
                    || self.host(*node) == text
            };
            let before = found.len();
            found.extend(self.nodes().filter(is_meant));
            if found.len() == before && !found.iter().any(is_meant) {
                return Err(text.as_str());
            }
        }
        Ok(found)
    }

    /// Returns nodes in the order of their positions.
    pub(crate) fn in_order(&self, mut nodes: Vec<NodeId>) -> Vec<NodeId> {
        nodes.sort_by_key(|node| self.position(*node));
        nodes
    }

    /// The part of the grid with these nodes, whose order is that of [`in_order`](Self::in_order);
    /// `None` if there are none.
    pub(crate) fn part(&self, nodes: &[NodeId]) -> Option<GridSpec> {
        let positions: BTreeSet<NodeId> = nodes.iter().map(|node| self.position(*node)).collect();
        let others = self.grid.layout().nodes().filter(|node| !positions.contains(node));
        self.grid.without(&others.collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roster() -> Roster {
        let text = "[site.a]\nhosts = [\"x[1-2]\"]\n[site.b]\nhosts = [\"y1\"]";
        GridSpec::from_toml(text).unwrap().into()
    }

    fn new(site: &str, host: &str, pes: u32) -> NewNode {
        NewNode { site: site.to_owned(), host: HostSpec::new(host, pes) }
    }

    #[test]
    fn nodes_keep_their_names_when_others_are_added() {
        let mut roster = roster();
        assert_eq!(roster.names(), ["a/0", "a/1", "b/2"]);

        let added = roster.add(&[new("b", "y2", 2), new("a", "x3", 1)]).unwrap();
        assert_eq!(added, [3, 4].map(NodeId));
        assert_eq!(
            roster.add(&[new("c", "z1", 3), new("a", "x1", 1)]).unwrap(),
            [5, 6].map(NodeId)
        );

        assert_eq!(roster.names(), ["a/0", "a/1", "b/2", "b/3", "a/4", "c/5", "a/6"]);
        let hosts: Vec<&str> = roster.nodes().map(|node| roster.host(node)).collect();
        assert_eq!(hosts, ["x1", "x2", "y1", "y2", "x3", "z1", "x1"]);
        assert_eq!([3, 5].map(|node| roster.pes(NodeId(node))), [2, 3]);
    }

    #[test]
    fn the_nodes_of_a_part_are_in_the_order_of_their_sites() {
        let mut roster = roster();
        roster.add(&[new("b", "y2", 2), new("a", "x3", 1)]).unwrap();

        let members = roster.in_order([0, 2, 3, 4].map(NodeId).to_vec());
        let part = roster.part(&members).unwrap();

        assert_eq!(members, [0, 4, 2, 3].map(NodeId));
        let hosts: Vec<&str> = part.hosts().map(|(_, host)| host).collect();
        assert_eq!(hosts, ["x1", "x3", "y1", "y2"]);
        assert_eq!(roster.part(&[]), None);
    }

    #[test]
    fn nodes_are_named_by_number_host_or_site() {
        let mut roster = roster();
        roster.add(&[new("b", "x1", 1)]).unwrap();
        let named = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            let found = roster.named(&names).map_err(str::to_owned);
            found.map(|nodes| nodes.into_iter().map(|node| node.0).collect::<Vec<_>>())
        };
        assert_eq!(named(&["a"]), Ok(vec![0, 1]));
        assert_eq!(named(&["x2", "b/2", "b"]), Ok(vec![1, 2, 3]));
        assert_eq!(named(&["x1"]), Ok(vec![0, 3]));
        assert_eq!(named(&["a", "a/0"]), Ok(vec![0, 1]));
        assert_eq!(named(&["a", "c", "d"]), Err("c".to_owned()));
        assert_eq!(named(&["b/0"]), Err("b/0".to_owned()), "it is at another site");
    }

    #[test]
    fn a_stored_roster_is_read_back_and_one_that_contradicts_itself_is_refused() {
        let mut roster = roster();
        roster.add(&[new("a", "x3", 1)]).unwrap();
        let mut json = serde_json::to_value(&roster).unwrap();
        assert_eq!(serde_json::from_value::<Roster>(json.clone()).unwrap(), roster);
        json["positions"] = serde_json::json!([0, 1, 3, 3]);
        assert!(serde_json::from_value::<Roster>(json).is_err());
    }

    #[test]
    fn a_node_that_cannot_be_is_refused_and_changes_nothing() {
        let mut changed = roster();
        assert!(changed.add(&[new("a", "x3", 1), new("a", "x4", 0)]).is_err());
        assert_eq!(changed, roster());
    }
}
