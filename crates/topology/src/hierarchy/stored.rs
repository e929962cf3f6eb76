//! The stored form of a hierarchy, and the checks when it is read.

use super::group::{BandwidthRange, Group, Level, RttRange};
use crate::id::{GroupId, NodeId};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// [`Hierarchy`](super::Hierarchy) documents this limit and the two below.
pub(super) const MAX_NODES: usize = 1 << 20;
pub(super) const MAX_LEVELS: usize = 32;
pub(super) const MAX_PAIRED_CHILDREN: usize = 256;

/// Error of a stored hierarchy. Nothing was read; store it again or infer it again.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HierarchyError {
    /// There are no levels, or more than [`Hierarchy::MAX_LEVELS`](super::Hierarchy::MAX_LEVELS).
    #[error("the hierarchy has {levels} levels; store 1 to {MAX_LEVELS}")]
    Levels {
        /// Number of levels.
        levels: usize,
    },
    /// A group other than the first has no parent, is listed before its parent or after a group of
    /// a deeper level, or is deeper than the last level.
    #[error(
        "group {group} is out of order or deeper than the last level; list parents first, level by level"
    )]
    Parent {
        /// The number of the group.
        group: usize,
    },
    /// A group of the last level has no members, another group lists members, or the leader of a
    /// group is not among its members.
    #[error(
        "group {group} lacks nodes or its leader, or has nodes above the last level; list the nodes of each closest group"
    )]
    Members {
        /// The number of the group.
        group: usize,
    },
    /// A node is in two groups of the last level, or its number is too high.
    #[error("{node} is listed twice or its number is not below {MAX_NODES}")]
    Node {
        /// The node.
        node: NodeId,
    },
    /// The number of round trips between children of a group is not the number of their pairs.
    #[error("group {group} has the wrong number of round trips; store one per pair of children")]
    Between {
        /// The number of the group.
        group: usize,
    },
    /// A confidence is not between 0 and 1.
    #[error("a confidence is not between 0 and 1")]
    Confidence,
}

/// The stored parts: only data that cannot be computed from the rest.
#[derive(Serialize, Deserialize)]
pub(super) struct Parts {
    levels: Vec<Level>,
    groups: Vec<GroupParts>,
}

#[derive(Serialize, Deserialize)]
struct GroupParts {
    parent: Option<GroupId>,
    /// Members, only of groups of the last level.
    members: Vec<NodeId>,
    leader: NodeId,
    name: Option<String>,
    rtt: Option<RttRange>,
    bandwidth: Option<BandwidthRange>,
    confidence: f64,
    between: Vec<u64>,
}

/// The checked parts of a hierarchy.
type Checked = (Vec<Level>, Vec<Group>, Vec<Option<GroupId>>);

impl Parts {
    pub(super) fn new(levels: Vec<Level>, groups: Vec<Group>) -> Self {
        let last = levels.len().saturating_sub(1);
        let part = |group: Group| GroupParts {
            parent: group.parent,
            members: if group.level == last { group.members } else { Vec::new() },
            leader: group.leader,
            name: group.name,
            rtt: group.rtt,
            bandwidth: group.bandwidth,
            confidence: group.confidence,
            between: group.between,
        };
        Self { levels, groups: groups.into_iter().map(part).collect() }
    }

    pub(super) fn check(self) -> Result<Checked, HierarchyError> {
        let levels = self.levels;
        if !(1..=MAX_LEVELS).contains(&levels.len()) {
            return Err(HierarchyError::Levels { levels: levels.len() });
        }
        let confidences = self.groups.iter().map(|group| group.confidence);
        if !levels.iter().map(|level| level.confidence).chain(confidences).all(is_part) {
            return Err(HierarchyError::Confidence);
        }
        let mut groups = Vec::<Group>::new();
        for (number, part) in self.groups.into_iter().enumerate() {
            let group = with_level(part, &groups).filter(|group| group.level < levels.len());
            let group = group.ok_or(HierarchyError::Parent { group: number })?;
            if let Some(parent) = group.parent {
                groups[parent.index()].children.push(GroupId::from(number));
            }
            groups.push(group);
        }
        let leaf_of = gather_members(&mut groups, levels.len() - 1)?;
        for (number, group) in groups.iter().enumerate() {
            let has_leader = group.members.binary_search(&group.leader).is_ok();
            if !has_leader && !group.members.is_empty() {
                return Err(HierarchyError::Members { group: number });
            }
            let children = group.children.len();
            let pairs = children * children.saturating_sub(1) / 2;
            let is_paired = children <= MAX_PAIRED_CHILDREN && group.between.len() == pairs;
            if !group.between.is_empty() && !is_paired {
                return Err(HierarchyError::Between { group: number });
            }
        }
        Ok((levels, groups, leaf_of))
    }
}

fn is_part(confidence: f64) -> bool {
    (0.0..=1.0).contains(&confidence)
}

/// Returns the group with the level below its parent, or `None` if the parent does not precede it,
/// or the levels would be out of order.
fn with_level(part: GroupParts, before: &[Group]) -> Option<Group> {
    let level = match part.parent {
        Some(parent) => before.get(parent.index())?.level + 1,
        None if before.is_empty() => 0,
        None => return None,
    };
    if before.last().is_some_and(|last| last.level > level) {
        return None;
    }
    Some(Group {
        level,
        parent: part.parent,
        children: Vec::new(),
        members: part.members,
        leader: part.leader,
        name: part.name,
        rtt: part.rtt,
        bandwidth: part.bandwidth,
        confidence: part.confidence,
        between: part.between,
    })
}

/// Fills the members of all groups from those of the last level.
fn gather_members(
    groups: &mut [Group],
    last: usize,
) -> Result<Vec<Option<GroupId>>, HierarchyError> {
    // Only the whole may be empty, and only if it is the only group.
    let is_empty = groups.len() == 1 && groups[0].members.is_empty();
    if is_empty {
        return Ok(Vec::new());
    }
    let mut leaf_of = Vec::new();
    for (number, group) in groups.iter_mut().enumerate() {
        group.members.sort_unstable();
        if (group.level == last) == group.members.is_empty() {
            return Err(HierarchyError::Members { group: number });
        }
        for &node in &group.members {
            if node.index() >= MAX_NODES {
                return Err(HierarchyError::Node { node });
            }
            if leaf_of.len() <= node.index() {
                leaf_of.resize(node.index() + 1, None);
            }
            if leaf_of[node.index()].replace(GroupId::from(number)).is_some() {
                return Err(HierarchyError::Node { node });
            }
        }
    }
    for number in (1..groups.len()).rev() {
        let (above, below) = groups.split_at_mut(number);
        if let Some(parent) = below[0].parent {
            above[parent.index()].members.extend_from_slice(&below[0].members);
        }
    }
    groups.iter_mut().for_each(|group| group.members.sort_unstable());
    if groups.is_empty() {
        return Err(HierarchyError::Members { group: 0 });
    }
    Ok(leaf_of)
}
