//! Adds a node to a hierarchy or removes one; the rest stays as inferred.

use super::draft::blank;
use super::group::{BandwidthRange, Group, between_place};
use super::stored::{MAX_NODES, MAX_PAIRED_CHILDREN};
use super::tree::Hierarchy;
use crate::id::{GroupId, NodeId};

impl Hierarchy {
    /// Sets the bandwidth between nodes that share a group of this level but none of the next. Does
    /// nothing if there is no such level.
    pub fn set_bandwidth(&mut self, level: usize, bandwidth: BandwidthRange) {
        if let Some(level) = self.levels.get_mut(level) {
            level.bandwidth = Some(bandwidth);
        }
    }

    /// Sets the bandwidth between members of this group that share no smaller group. Does nothing
    /// if there is no such group.
    pub fn set_group_bandwidth(&mut self, group: GroupId, bandwidth: BandwidthRange) {
        if let Some(group) = self.groups.get_mut(group.index()) {
            group.bandwidth = Some(bandwidth);
        }
    }

    /// Removes a node, with the groups that contained only it, and returns whether it was present.
    /// Levels stay, so that their numbers keep their meaning.
    pub fn remove(&mut self, node: NodeId) -> bool {
        let Some(leaf) = self.leaf_of.get_mut(node.index()).and_then(Option::take) else {
            return false;
        };
        let mut next = Some(leaf);
        while let Some(id) = next {
            let group = &mut self.groups[id.index()];
            if let Ok(place) = group.members.binary_search(&node) {
                group.members.remove(place);
            }
            if group.leader == node {
                group.leader = group.members.first().copied().unwrap_or_default();
            }
            next = group.parent;
        }
        self.renumber();
        true
    }

    /// Adds a new node to a group and, below it, to a new group of each level. Returns false if the
    /// node exists or its number is out of bounds. Panics if there is no such group.
    pub(crate) fn insert(&mut self, node: NodeId, into: GroupId) -> bool {
        if self.contains(node) || node.index() >= MAX_NODES {
            return false;
        }
        let mut leaf = into;
        for level in self.group(into).level + 1..self.depth() {
            let id = GroupId::from(self.groups.len());
            let mut own = blank(level, Some(leaf), Vec::new(), node);
            own.confidence = 0.5;
            self.groups.push(own);
            let parent = &mut self.groups[leaf.index()];
            parent.children.push(id);
            let children = parent.children.len();
            // The pairs of a new child follow those of earlier children.
            let pairs = children * (children - 1) / 2;
            let was_paired = children == 2 || !parent.between.is_empty();
            let is_paired = was_paired && children <= MAX_PAIRED_CHILDREN;
            parent.between.resize(if is_paired { pairs } else { 0 }, 0);
            leaf = id;
        }
        if self.leaf_of.len() <= node.index() {
            self.leaf_of.resize(node.index() + 1, None);
        }
        self.leaf_of[node.index()] = Some(leaf);
        let mut next = Some(leaf);
        while let Some(id) = next {
            let group = &mut self.groups[id.index()];
            if group.members.is_empty() {
                group.leader = node;
            }
            let place = group.members.partition_point(|&other| other < node);
            group.members.insert(place, node);
            next = group.parent;
        }
        self.renumber();
        true
    }

    /// Drops empty groups and puts the others in the order of their levels.
    fn renumber(&mut self) {
        let mut kept: Vec<usize> = (0..self.groups.len())
            .filter(|&old| old == 0 || !self.groups[old].members.is_empty())
            .collect();
        kept.sort_by_key(|&old| self.groups[old].level);
        let mut new_of = vec![None; self.groups.len()];
        for (new, &old) in kept.iter().enumerate() {
            new_of[old] = Some(GroupId::from(new));
        }
        let new_of = |old: GroupId| new_of[old.index()];
        for group in &mut self.groups {
            group.parent = group.parent.and_then(new_of);
            keep_children(group, new_of);
        }
        let mut old: Vec<Option<Group>> = self.groups.drain(..).map(Some).collect();
        self.groups = kept.into_iter().filter_map(|place| old[place].take()).collect();
        for leaf in &mut self.leaf_of {
            *leaf = leaf.and_then(new_of);
        }
        let length = self.leaf_of.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        self.leaf_of.truncate(length);
    }
}

/// Keeps the children that have a new number, and their round trips.
fn keep_children(group: &mut Group, new_of: impl Fn(GroupId) -> Option<GroupId>) {
    let stay: Vec<usize> =
        (0..group.children.len()).filter(|&n| new_of(group.children[n]).is_some()).collect();
    if stay.len() < group.children.len() && !group.between.is_empty() {
        let mut between = Vec::with_capacity(stay.len() * stay.len() / 2);
        for (later, &a) in stay.iter().enumerate() {
            let row = stay[..later].iter().map(|&b| group.between[between_place(a, b)]);
            between.extend(row);
        }
        group.between = between;
    }
    group.children = group.children.iter().filter_map(|&child| new_of(child)).collect();
}
