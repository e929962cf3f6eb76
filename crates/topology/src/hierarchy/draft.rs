//! Builds a hierarchy from partitions, each finer than the previous one, and from measurements.

use super::group::{Group, Level, RttRange, between_place};
use super::stored::{MAX_LEVELS, MAX_PAIRED_CHILDREN};
use super::tree::Hierarchy;
use crate::id::{GroupId, NodeId};
use std::collections::BTreeMap;

/// The input of a hierarchy. Items are positions in `nodes`.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    /// The node of each item, in ascending order.
    pub(crate) nodes: Vec<NodeId>,
    /// The levels below the whole, coarsest first.
    pub(crate) partitions: Vec<Partition>,
    /// The time that each item adds to its round trips because it is busy, in milliseconds.
    pub(crate) added_ms: Vec<f32>,
}

/// One level of a draft.
#[derive(Clone, Debug)]
pub(crate) struct Partition {
    /// The group of each item. Items in different groups of the level above always end up in
    /// different groups of this level, even if their numbers here are equal.
    pub(crate) groups: Vec<u32>,
    /// The round trip that separates this level from the one above, in milliseconds.
    pub(crate) cut_ms: f32,
    /// How clearly `cut_ms` separates the two levels.
    pub(crate) confidence: f64,
    /// The names of some groups.
    pub(crate) names: BTreeMap<u32, String>,
}

/// Two items and their round trip in milliseconds.
pub(crate) type Sample = (usize, usize, f32);

impl Draft {
    /// Returns the tree without measurements, and the cuts of its levels. Levels that separate
    /// nothing are left out.
    pub(crate) fn skeleton(&self) -> (Hierarchy, Vec<f32>) {
        let leader = self.leader(0..self.nodes.len());
        let mut groups = vec![blank(0, None, self.nodes.clone(), leader)];
        let mut levels = vec![Level { rtt: None, bandwidth: None, confidence: 1.0 }];
        let mut cuts = Vec::new();
        let mut group_of = vec![0_usize; self.nodes.len()];
        let mut above = 0..1;
        for partition in &self.partitions {
            let mut items_of = BTreeMap::<(usize, u32), Vec<usize>>::new();
            for (item, &group) in partition.groups.iter().enumerate() {
                items_of.entry((group_of[item], group)).or_default().push(item);
            }
            let is_same = items_of.len() <= above.len() || levels.len() == MAX_LEVELS;
            let mut sorted: Vec<_> = items_of.into_iter().collect();
            sorted.sort_by(|a, b| a.1.cmp(&b.1));
            if is_same {
                for ((parent, group), _) in sorted {
                    let name = &mut groups[parent].name;
                    *name = name.take().or_else(|| partition.names.get(&group).cloned());
                }
                continue;
            }
            above = groups.len()..groups.len() + sorted.len();
            for ((parent, label), items) in sorted {
                let id = groups.len();
                let members = items.iter().map(|&item| self.nodes[item]).collect();
                let leader = self.leader(items.iter().copied());
                let parent_id = Some(GroupId::from(parent));
                let mut group = blank(levels.len(), parent_id, members, leader);
                group.name = partition.names.get(&label).cloned();
                items.iter().for_each(|&item| group_of[item] = id);
                groups[parent].children.push(GroupId::from(id));
                groups.push(group);
            }
            cuts.push(partition.cut_ms);
            levels.push(Level { rtt: None, bandwidth: None, confidence: partition.confidence });
        }
        let length = self.nodes.last().map_or(0, |last| last.index() + 1);
        let mut leaf_of = vec![None; length];
        for (node, group) in self.nodes.iter().zip(group_of) {
            leaf_of[node.index()] = Some(GroupId::from(group));
        }
        (Hierarchy { levels, groups, leaf_of }, cuts)
    }

    /// Returns the tree with the ranges of the samples. Takes O(samples × levels).
    pub(crate) fn build(&self, samples: impl IntoIterator<Item = Sample>) -> Hierarchy {
        let (mut hierarchy, cuts) = self.skeleton();
        let mut tally = Tally::new(&hierarchy);
        let chains: Vec<Vec<usize>> =
            self.nodes.iter().map(|&node| chain(&hierarchy, node)).collect();
        for (a, b, ms) in samples {
            let quiet_ms = ms - self.added_ms[a] - self.added_ms[b];
            tally.add(&hierarchy, [&chains[a], &chains[b]], ms, quiet_ms, &cuts);
        }
        tally.finish(&mut hierarchy);
        hierarchy
    }

    fn leader(&self, items: impl IntoIterator<Item = usize> + Clone) -> NodeId {
        let quiet = items.clone().into_iter().find(|&item| self.added_ms[item] == 0.0);
        quiet.or_else(|| items.into_iter().next()).map_or(NodeId(0), |item| self.nodes[item])
    }
}

/// Returns a group without measurements.
pub(super) fn blank(
    level: usize,
    parent: Option<GroupId>,
    members: Vec<NodeId>,
    leader: NodeId,
) -> Group {
    Group {
        level,
        parent,
        children: Vec::new(),
        members,
        leader,
        name: None,
        rtt: None,
        bandwidth: None,
        confidence: 1.0,
        between: Vec::new(),
    }
}

/// Returns the groups of a node from the whole to the last level.
fn chain(hierarchy: &Hierarchy, node: NodeId) -> Vec<usize> {
    let groups = (0..hierarchy.depth()).filter_map(|level| hierarchy.group_of(node, level));
    groups.map(GroupId::index).collect()
}

/// The samples of each level, group and pair of groups, in milliseconds.
struct Tally {
    of_level: Vec<Vec<f32>>,
    of_group: Vec<Vec<f32>>,
    of_children: Vec<Vec<Vec<f32>>>,
    /// The place of each group among its parent's children.
    place: Vec<usize>,
    /// Number of samples that agree with the boundary of each group, and number of all its samples.
    agreed: Vec<[u32; 2]>,
}

impl Tally {
    fn new(hierarchy: &Hierarchy) -> Self {
        let count = hierarchy.groups.len();
        let mut place = vec![0; count];
        let paired = |group: &Group| {
            let children = group.children.len();
            let is_paired = (2..=MAX_PAIRED_CHILDREN).contains(&children);
            vec![Vec::new(); if is_paired { children * (children - 1) / 2 } else { 0 }]
        };
        for group in &hierarchy.groups {
            group.children.iter().enumerate().for_each(|(n, child)| place[child.index()] = n);
        }
        Self {
            of_level: vec![Vec::new(); hierarchy.depth()],
            of_group: vec![Vec::new(); count],
            of_children: hierarchy.groups.iter().map(paired).collect(),
            place,
            agreed: vec![[0; 2]; count],
        }
    }

    fn add(
        &mut self,
        hierarchy: &Hierarchy,
        [one, other]: [&[usize]; 2],
        ms: f32,
        quiet_ms: f32,
        cuts: &[f32],
    ) {
        let shared = one.iter().zip(other).take_while(|(a, b)| a == b).count();
        let (level, group) = (shared - 1, one[shared - 1]);
        self.of_level[level].push(ms);
        self.of_group[group].push(ms);
        if let (Some(&a), Some(&b)) = (one.get(shared), other.get(shared)) {
            let place = between_place(self.place[a], self.place[b]);
            if let Some(pair) = self.of_children[group].get_mut(place) {
                pair.push(ms);
            }
            let agrees = u32::from(quiet_ms > cuts[level]);
            for side in [a, b] {
                self.count(side, agrees);
            }
        }
        for inside in 1..shared {
            self.count(one[inside], u32::from(quiet_ms <= cuts[inside - 1]));
        }
        debug_assert!(hierarchy.groups[group].level == level, "chains follow the levels");
    }

    fn count(&mut self, group: usize, agrees: u32) {
        self.agreed[group][0] += agrees;
        self.agreed[group][1] += 1;
    }

    fn finish(mut self, hierarchy: &mut Hierarchy) {
        for (level, rtts) in hierarchy.levels.iter_mut().zip(&mut self.of_level) {
            level.rtt = RttRange::of_milliseconds(rtts);
        }
        for (number, group) in hierarchy.groups.iter_mut().enumerate() {
            group.rtt = RttRange::of_milliseconds(&mut self.of_group[number]);
            let [agreed, asked] = self.agreed[number];
            if number > 0 {
                // Laplace's rule, which gives one half without measurements.
                group.confidence = f64::from(agreed + 1) / f64::from(asked + 2);
            }
            let median = |rtts: &mut Vec<f32>| {
                RttRange::of_milliseconds(rtts).map_or(0, |range| nanos(range.median))
            };
            group.between = self.of_children[number].iter_mut().map(median).collect();
        }
    }
}

/// Converts to nanoseconds: at least one, because zero means unknown.
fn nanos(rtt: std::time::Duration) -> u64 {
    u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX).max(1)
}
