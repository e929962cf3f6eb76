//! The PEs of a job as a tree: groups of groups down to single PEs.

use crate::snapshot::Snapshot;
use gridspan_topology::{GroupId, Hierarchy, Layout, PeId};
use std::collections::BTreeSet;

/// A group of PEs and the smaller groups in it. Groups that contain only one group are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupTree {
    pes: Vec<u32>,
    children: Vec<GroupTree>,
}

impl GroupTree {
    /// Returns the tree of the snapshot's hierarchy, or of its sites if it has none.
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        match &snapshot.hierarchy {
            Some(hierarchy) => Self::of_group(snapshot, hierarchy, hierarchy.root()),
            None => {
                let hierarchy = Hierarchy::from_layout(&snapshot.layout);
                Self::of_group(snapshot, &hierarchy, hierarchy.root())
            }
        }
    }

    fn of_group(snapshot: &Snapshot, hierarchy: &Hierarchy, group: GroupId) -> Self {
        let group = hierarchy.group(group);
        let children: Vec<Self> = group
            .children()
            .iter()
            .map(|&child| Self::of_group(snapshot, hierarchy, child))
            .filter(|child| !child.pes.is_empty())
            .collect();
        if children.len() == 1 {
            return children.into_iter().next().unwrap_or_else(|| Self::of_pes(Vec::new()));
        }
        let layout = &snapshot.layout;
        let known = group.members().iter().filter(|node| node.0 < layout.node_count());
        Self { pes: known.flat_map(|&node| layout.place(node).pes.clone()).collect(), children }
    }

    /// Returns the tree above the sites, with the numbers of sites in the place of PEs. Where
    /// groups divide a site, the part above it is flat.
    pub(crate) fn above_sites(&self, layout: &Layout) -> Self {
        let sites = |group: &Self| -> BTreeSet<u32> {
            group.pes.iter().map(|&pe| layout.site_of(PeId(pe)).0).collect()
        };
        let all = sites(self);
        let flat = || Self::of_pes(all.iter().copied().collect());
        if all.len() < 2 {
            return flat();
        }
        let parts: usize = self.children.iter().map(|child| sites(child).len()).sum();
        if parts != all.len() {
            return flat();
        }
        let children = self.children.iter().map(|child| child.above_sites(layout)).collect();
        Self { pes: all.iter().copied().collect(), children }
    }

    /// Returns the group of exactly these PEs, or a flat group of them if there is none.
    pub(crate) fn within(&self, pes: &[u32]) -> Self {
        if self.pes == pes {
            return self.clone();
        }
        let holds = |child: &&Self| pes.iter().all(|pe| child.pes.contains(pe));
        match self.children.iter().find(holds) {
            Some(child) => child.within(pes),
            None => Self::of_pes(pes.to_vec()),
        }
    }

    /// Creates a group of single PEs.
    pub(crate) fn of_pes(pes: Vec<u32>) -> Self {
        Self { pes, children: Vec::new() }
    }

    /// Returns all PEs of the group.
    pub(crate) fn pes(&self) -> &[u32] {
        &self.pes
    }

    /// Returns the parts of the group: smaller groups, or single PEs.
    pub(crate) fn parts(&self) -> Vec<Self> {
        if self.children.is_empty() {
            self.pes.iter().map(|&pe| Self::of_pes(vec![pe])).collect()
        } else {
            self.children.clone()
        }
    }

    /// Returns for each of `pes` PEs the number of its part, if it is in the group.
    pub(crate) fn part_of_pe(&self, pes: usize) -> Vec<Option<u32>> {
        let mut part_of = vec![None; pes];
        for (number, part) in self.parts().iter().enumerate() {
            part.pes.iter().for_each(|&pe| part_of[pe as usize] = Some(number as u32));
        }
        part_of
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::snapshot;

    #[test]
    fn without_a_hierarchy_the_sites_are_the_groups() {
        let tree = GroupTree::of(&snapshot(&[0]));

        let parts = tree.parts();
        assert_eq!(parts.iter().map(GroupTree::pes).collect::<Vec<_>>(), [[0, 1], [2, 3]]);
        assert_eq!(parts[1].parts().len(), 2);
        assert_eq!(parts[1].part_of_pe(4), [None, None, Some(0), Some(1)]);
    }

    #[test]
    fn the_tree_above_sites_has_sites_as_its_leaves() {
        let layout = Layout::new(vec![("a".to_owned(), vec![2, 1]), ("b".to_owned(), vec![2])]);
        let mut snapshot = snapshot(&[]);
        (snapshot.layout, snapshot.pes) = (layout.clone(), vec![Default::default(); 5]);
        let tree = GroupTree::of(&snapshot);

        assert_eq!(tree.above_sites(&layout).pes(), [0, 1]);
        assert_eq!(tree.above_sites(&layout).parts().len(), 2);
        assert_eq!(tree.within(&[0, 1, 2]).pes(), [0, 1, 2]);
        assert_eq!(tree.within(&[3, 4]).part_of_pe(5)[3..], [Some(0), Some(1)]);
    }
}
