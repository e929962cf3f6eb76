//! The tree of groups, and what can be asked of it.

use super::group::{Group, Level, between_place};
use super::stored::{self, HierarchyError, Parts};
use crate::id::{GroupId, NodeId};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A tree of groups of nodes with any number of levels. Identifiers of groups hold until the
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
    /// Level by level, so that parents come before children.
    pub(super) groups: Vec<Group>,
    /// The group of the last level that each node is in.
    pub(super) leaf_of: Vec<Option<GroupId>>,
}

impl Hierarchy {
    /// At most this many nodes (2^20), and the number of each is below.
    pub const MAX_NODES: usize = stored::MAX_NODES;
    /// At most 32 levels: latencies span nine orders of magnitude, and two levels are
    /// about a factor of two apart.
    pub const MAX_LEVELS: usize = stored::MAX_LEVELS;
    /// Groups of more children than 256 keep one range of round trips in place of one per pair.
    pub const MAX_PAIRED_CHILDREN: usize = stored::MAX_PAIRED_CHILDREN;

    /// How many levels there are: at least one.
    pub fn depth(&self) -> usize {
        self.levels.len()
    }

    /// All levels from the whole to the closest groups.
    pub fn levels(&self) -> impl ExactSizeIterator<Item = &Level> {
        self.levels.iter()
    }

    /// The whole.
    pub fn root(&self) -> GroupId {
        GroupId(0)
    }

    /// The group. Panics if there is none.
    pub fn group(&self, group: GroupId) -> &Group {
        &self.groups[group.index()]
    }

    /// The groups of a level, in the order of their first nodes where nothing changed since they
    /// were found. None beyond the last level.
    pub fn groups_at(
        &self,
        level: usize,
    ) -> impl DoubleEndedIterator<Item = GroupId> + ExactSizeIterator + use<> {
        let begin = self.groups.partition_point(|group| group.level < level);
        let end = self.groups.partition_point(|group| group.level <= level);
        (begin as u32..end as u32).map(GroupId)
    }

    /// All nodes in order. A node that left is not among them.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = NodeId> + ExactSizeIterator {
        self.groups[0].members.iter().copied()
    }

    /// Whether the node is part of it.
    pub fn contains(&self, node: NodeId) -> bool {
        self.leaf_of(node).is_some()
    }

    /// The group of that level that the node is in. `None` if there is no such node or level.
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

    /// The smallest group that both nodes are in; the group of the last level for twice the same.
    /// `None` if there is no such node.
    pub fn common_group(&self, a: NodeId, b: NodeId) -> Option<GroupId> {
        Some(self.meet(self.leaf_of(a)?, self.leaf_of(b)?).0)
    }

    /// The round trip to expect between two nodes: between their closest groups that differ, as
    /// [`Hierarchy::rtt_between`] says. Zero for twice the same; `None` if nothing is known.
    pub fn rtt(&self, a: NodeId, b: NodeId) -> Option<Duration> {
        let (one, other) = (self.leaf_of(a)?, self.leaf_of(b)?);
        if a == b { Some(Duration::ZERO) } else { self.rtt_between(one, other) }
    }

    /// The median round trip between nodes of one group and of another; inside it for twice the
    /// same or if one is part of the other. `None` if nothing is known. Panics if there is no such
    /// group.
    pub fn rtt_between(&self, a: GroupId, b: GroupId) -> Option<Duration> {
        let (common, sides) = self.meet(a, b);
        let group = self.group(common);
        let measured = sides.and_then(|(one, other)| {
            let place = |child| group.children.iter().position(|&other| other == child);
            let nanos = *group.between.get(between_place(place(one)?, place(other)?))?;
            (nanos > 0).then(|| Duration::from_nanos(nanos))
        });
        let usual = || group.rtt.or(self.levels[group.level].rtt).map(|range| range.median);
        measured.or_else(usual)
    }

    /// The largest groups that contain one of two nodes and not the other; twice their common one
    /// if that is of the last level. `None` if there is no such node.
    pub fn ends(&self, a: NodeId, b: NodeId) -> Option<(GroupId, GroupId)> {
        let (common, sides) = self.meet(self.leaf_of(a)?, self.leaf_of(b)?);
        Some(sides.unwrap_or((common, common)))
    }

    fn leaf_of(&self, node: NodeId) -> Option<GroupId> {
        *self.leaf_of.get(node.index())?
    }

    /// The smallest group that contains both, and its children on the way to each if neither
    /// contains the other.
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
