//! The tree over which collective operations gather and distribute, by the places of the ranks.
//!
//! At each site one rank is the leader; at the root's site that is the root. Data crosses the wide
//! area between leaders alone. Below a leader, one rank of each PE of the site is in a binomial
//! tree. It passes data on to the other ranks of its PE, which costs no packet.

use std::collections::BTreeMap;

/// The tree of one root.
#[derive(Debug, PartialEq)]
pub(crate) struct CommTree {
    /// The leaders of the sites; the root is the first.
    leaders: Vec<u32>,
    /// By rank; a leader is its own parent.
    parents: Vec<u32>,
    /// By rank: the place of its first child in `children`. One more for the end.
    first_child: Vec<u32>,
    children: Vec<u32>,
}

impl CommTree {
    /// The tree over ranks with these sites and PEs.
    pub(crate) fn new(places: &[(u32, u32)], root: u32) -> Self {
        let mut sites: BTreeMap<u32, BTreeMap<u32, Vec<u32>>> = BTreeMap::new();
        for (rank, (site, pe)) in places.iter().enumerate() {
            sites.entry(*site).or_default().entry(*pe).or_default().push(rank as u32);
        }
        let mut parents: Vec<u32> = (0..places.len() as u32).collect();
        let mut leaders = vec![root];
        for pes in sites.into_values() {
            let mut groups: Vec<Vec<u32>> = pes.into_values().collect();
            if let Some(at) = groups.iter().position(|group| group.contains(&root)) {
                groups.swap(0, at);
                groups[0].retain(|rank| *rank != root);
                groups[0].insert(0, root);
            } else {
                leaders.push(groups[0][0]);
            }
            for (at, group) in groups.iter().enumerate().skip(1) {
                // The binomial tree: the parent's number lacks the lowest bit that is set.
                parents[group[0] as usize] = groups[at & (at - 1)][0];
            }
            for group in &groups {
                for rank in &group[1..] {
                    parents[*rank as usize] = group[0];
                }
            }
        }
        Self::of(leaders, parents)
    }

    fn of(leaders: Vec<u32>, parents: Vec<u32>) -> Self {
        let mut first_child = vec![0; parents.len() + 1];
        let has_parent = |(rank, parent): &(usize, &u32)| *rank as u32 != **parent;
        for (_, parent) in parents.iter().enumerate().filter(has_parent) {
            first_child[*parent as usize + 1] += 1;
        }
        for rank in 0..parents.len() {
            first_child[rank + 1] += first_child[rank];
        }
        let mut next = first_child.clone();
        let mut children = vec![0; first_child[parents.len()] as usize];
        for (rank, parent) in parents.iter().enumerate().filter(has_parent) {
            let place = &mut next[*parent as usize];
            children[*place as usize] = rank as u32;
            *place += 1;
        }
        Self { leaders, parents, first_child, children }
    }

    /// The leaders; the root is the first.
    pub(crate) fn leaders(&self) -> &[u32] {
        &self.leaders
    }

    /// The parent of a rank at its site; `None` for a leader.
    pub(crate) fn parent(&self, rank: u32) -> Option<u32> {
        let parent = self.parents.get(rank as usize).copied()?;
        (parent != rank).then_some(parent)
    }

    /// The children of a rank at its site.
    pub(crate) fn children(&self, rank: u32) -> &[u32] {
        let rank = rank as usize;
        &self.children[self.first_child[rank] as usize..self.first_child[rank + 1] as usize]
    }

    /// The rank to which `above` passes a message for `rank`: one of its children or, if `above` is
    /// the root, another leader. `None` if `rank` is not below `above`.
    pub(crate) fn way(&self, above: u32, rank: u32) -> Option<u32> {
        let mut at = rank;
        while at != above {
            match self.parent(at) {
                Some(parent) if parent == above => return Some(at),
                Some(parent) => at = parent,
                None => return (above == self.leaders[0]).then_some(at),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_rank_is_below_the_leader_of_its_site(
            places in proptest::collection::vec((0_u32..4, 0_u32..3), 1..60),
            root in 0_usize..60,
        ) {
            let places: Vec<_> = places.into_iter().map(|(site, pe)| (site, 3 * site + pe)).collect();
            let root = root % places.len();
            let tree = CommTree::new(&places, root as u32);
            prop_assert_eq!(tree.leaders()[0], root as u32);
            let mut sites: Vec<u32> = places.iter().map(|place| place.0).collect();
            sites.sort_unstable();
            sites.dedup();
            prop_assert_eq!(tree.leaders().len(), sites.len());
            for rank in 0..places.len() as u32 {
                let (mut at, mut steps) = (rank, 0);
                while let Some(parent) = tree.parent(at) {
                    prop_assert!(tree.children(parent).contains(&at));
                    (at, steps) = (parent, steps + 1);
                    prop_assert!(steps <= places.len());
                }
                prop_assert!(tree.leaders().contains(&at));
                prop_assert_eq!(places[at as usize].0, places[rank as usize].0);
                // From the root there is a way to every other rank, and it is a child.
                if rank as usize != root {
                    let way = tree.way(root as u32, rank).unwrap();
                    prop_assert!(tree.children(root as u32).contains(&way) || tree.leaders().contains(&way));
                }
            }
            let children: usize = (0..places.len() as u32).map(|rank| tree.children(rank).len()).sum();
            prop_assert_eq!(children + tree.leaders().len(), places.len());
        }
    }

    #[test]
    fn a_rank_that_is_not_below_is_on_no_way() {
        // Two sites of two ranks, each rank on its own PE.
        let tree = CommTree::new(&[(0, 0), (0, 1), (1, 2), (1, 3)], 1);
        assert_eq!((tree.leaders(), tree.parent(0)), (&[1, 2][..], Some(1)));
        assert_eq!((tree.way(1, 3), tree.way(2, 3), tree.way(2, 0)), (Some(2), Some(3), None));
    }
}
