//! The tree of groups and its queries.

use super::group::{Group, Level, between_place};
use super::stored::{self, HierarchyError, Parts};
use crate::id::{GroupId, NodeId};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A tree of groups of nodes with any number of levels. Identifiers of groups are valid until the
/// hierarchy next changes.
///
/// ```
/// use gridspan_topology::{GridSpec, Hierarchy, NodeId};
///
/// let grid = GridSpec::from_emulate("2x4,wan=32ms")?;
/// let hierarchy = Hierarchy::from_grid(&grid);
///
/// assert_eq!(hierarchy.depth(), 2);
/// assert_eq!(hierarchy.groups_at(1).len(), 2);
/// assert_eq!(hierarchy.rtt(NodeId(0), NodeId(7)).map(|rtt| rtt.as_millis()), Some(64));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct Hierarchy {
    pub(super) levels: Vec<Level>,
    /// All groups, level by level, so that parents come before children.
    pub(super) groups: Vec<Group>,
    /// The group of the last level that contains each node.
    pub(super) leaf_of: Vec<Option<GroupId>>,
}

impl Hierarchy {
    /// Maximum number of nodes (2^20); the number of each node is below it.
    pub const MAX_NODES: usize = stored::MAX_NODES;
    /// Maximum number of levels, 32: latencies span nine orders of magnitude, and two levels are
    /// about a factor of two apart.
    pub const MAX_LEVELS: usize = stored::MAX_LEVELS;
    /// Maximum number of children, 256, for which a group keeps a round trip per pair; a larger
    /// group keeps one range.
    pub const MAX_PAIRED_CHILDREN: usize = stored::MAX_PAIRED_CHILDREN;

    /// Returns the number of levels, which is at least one.
    pub fn depth(&self) -> usize {
        self.levels.len()
    }

    /// Returns all levels from the whole to the closest groups.
    pub fn levels(&self) -> impl ExactSizeIterator<Item = &Level> {
        self.levels.iter()
    }

    /// Returns the group of the whole.
    pub fn root(&self) -> GroupId {
        GroupId(0)
    }

    /// Returns a group. Panics if it does not exist.
    pub fn group(&self, group: GroupId) -> &Group {
        &self.groups[group.index()]
    }

    /// Returns the groups of a level, in the order of their first nodes unless the hierarchy has
    /// changed since its inference. Empty beyond the last level.
    pub fn groups_at(
        &self,
        level: usize,
    ) -> impl DoubleEndedIterator<Item = GroupId> + ExactSizeIterator + use<> {
        let begin = self.groups.partition_point(|group| group.level < level);
        let end = self.groups.partition_point(|group| group.level <= level);
        (begin as u32..end as u32).map(GroupId)
    }

    /// Returns all nodes in order, without nodes that left.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = NodeId> + ExactSizeIterator {
        self.groups[0].members.iter().copied()
    }

    /// Whether the hierarchy contains the node.
    pub fn contains(&self, node: NodeId) -> bool {
        self.leaf_of(node).is_some()
    }

    /// Returns the group of that level that contains the node, or `None` if there is no such node
    /// or level.
    pub fn group_of(&self, node: NodeId, level: usize) -> Option<GroupId> {
        let mut group = self.leaf_of(node)?;
        if level >= self.levels.len() {
            return None;
        }
        while self.group(group).level > level {
            group = self.group(group).parent?;
        }
        Some(group)
    }

    /// Returns the smallest group that contains both nodes; if both are the same node, its group of
    /// the last level. `None` if there is no such node.
    pub fn common_group(&self, a: NodeId, b: NodeId) -> Option<GroupId> {
        Some(self.meet(self.leaf_of(a)?, self.leaf_of(b)?).0)
    }

    /// Returns the expected round trip between two nodes: that between their
    /// [ends](Hierarchy::ends), as in [`Hierarchy::rtt_between`]. Zero if both are the same node;
    /// `None` if nothing is known.
    pub fn rtt(&self, a: NodeId, b: NodeId) -> Option<Duration> {
        let (one, other) = (self.leaf_of(a)?, self.leaf_of(b)?);
        if a == b { Some(Duration::ZERO) } else { self.rtt_between(one, other) }
    }

    /// Returns the median round trip between nodes of two groups, or within a group if both are the
    /// same or one contains the other. `None` if nothing is known. Panics if there is no such
    /// group.
    pub fn rtt_between(&self, a: GroupId, b: GroupId) -> Option<Duration> {
        let (common, sides) = self.meet(a, b);
        let group = self.group(common);
        // A group with very many children stores no pairs, so it need not be searched for both.
        let paired = sides.filter(|_| !group.between.is_empty());
        let measured = paired.and_then(|(one, other)| {
            let place = |child| group.children.iter().position(|&other| other == child);
            let nanos = *group.between.get(between_place(place(one)?, place(other)?))?;
            (nanos > 0).then(|| Duration::from_nanos(nanos))
        });
        let usual = || group.rtt.or(self.levels[group.level].rtt).map(|range| range.median);
        measured.or_else(usual)
    }

    /// Returns the ends of two nodes: the largest groups that contain one of them and not the
    /// other. If both nodes are in the same group of the last level, both ends are that group.
    /// `None` if there is no such node.
    pub fn ends(&self, a: NodeId, b: NodeId) -> Option<(GroupId, GroupId)> {
        let (common, sides) = self.meet(self.leaf_of(a)?, self.leaf_of(b)?);
        Some(sides.unwrap_or((common, common)))
    }

    fn leaf_of(&self, node: NodeId) -> Option<GroupId> {
        *self.leaf_of.get(node.index())?
    }

    /// Returns the smallest group that contains both groups and, unless one contains the other, the
    /// two children of this group that contain them.
    fn meet(&self, mut a: GroupId, mut b: GroupId) -> (GroupId, Option<(GroupId, GroupId)>) {
        let mut sides = None;
        while a != b {
            let (one, other) = (self.group(a), self.group(b));
            // Only the whole has no parent, and it contains all.
            match (one.level.cmp(&other.level), one.parent, other.parent) {
                (std::cmp::Ordering::Greater, Some(parent), _) => a = parent,
                (std::cmp::Ordering::Less, _, Some(parent)) => b = parent,
                (_, Some(up), Some(above)) => {
                    sides = Some((a, b));
                    (a, b) = (up, above);
                }
                _ => return (self.root(), None),
            }
        }
        (a, sides)
    }
}

impl TryFrom<Parts> for Hierarchy {
    type Error = HierarchyError;

    fn try_from(parts: Parts) -> Result<Self, HierarchyError> {
        let (levels, groups, leaf_of) = parts.check()?;
        Ok(Self { levels, groups, leaf_of })
    }
}

impl From<Hierarchy> for Parts {
    fn from(hierarchy: Hierarchy) -> Self {
        Self::new(hierarchy.levels, hierarchy.groups)
    }
}
