//! The heads of PEs: the first rank of each PE, which sends on behalf of the other ranks there.
//!
//! In the tree whose root is rank 0, the first head of each site is the leader of the site, and the
//! parent of a rank that is no head is the head of its PE.

use std::collections::BTreeMap;

/// The heads of all PEs, by rank and by site.
#[derive(Debug)]
pub(crate) struct Heads {
    /// By rank: the head of its PE.
    of: Vec<u32>,
    /// By head: its site, its place among the heads of the site, and the ranks of its PE.
    heads: BTreeMap<u32, (u32, usize, Vec<u32>)>,
    /// By site: its heads.
    sites: BTreeMap<u32, Vec<u32>>,
}

impl Heads {
    /// The heads of ranks at these sites and PEs.
    pub(crate) fn new(places: impl Iterator<Item = (u32, u32)>) -> Self {
        let (mut of, mut first) = (Vec::new(), BTreeMap::new());
        let mut heads: BTreeMap<u32, (u32, usize, Vec<u32>)> = BTreeMap::new();
        for (rank, place) in (0_u32..).zip(places) {
            let head = *first.entry(place).or_insert(rank);
            let (.., ranks) = heads.entry(head).or_insert_with(|| (place.0, 0, Vec::new()));
            ranks.push(rank);
            of.push(head);
        }
        // In the order of the PEs, but rank 0 first.
        let mut sites: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for ((site, _), head) in first {
            let here = sites.entry(site).or_default();
            here.insert(if head == 0 { 0 } else { here.len() }, head);
        }
        for here in sites.values() {
            for (at, head) in here.iter().enumerate() {
                if let Some((_, place, _)) = heads.get_mut(head) {
                    *place = at;
                }
            }
        }
        Self { of, heads, sites }
    }

    /// The head that combines, at a site, the blocks of the PE of `head`.
    pub(crate) fn combiner(&self, site: u32, head: u32) -> u32 {
        let (Some((home, place, _)), Some(here)) = (self.heads.get(&head), self.sites.get(&site))
        else {
            return head;
        };
        if *home == site { head } else { here[place % here.len()] }
    }

    /// The heads whose PEs' blocks this one combines at its site: itself, and heads of other sites.
    pub(crate) fn combined_by(&self, head: u32) -> Vec<u32> {
        let site = self.site(head);
        let all = self.heads.keys().copied();
        all.filter(|other| self.combiner(site, *other) == head).collect()
    }

    /// The site of a head.
    pub(crate) fn site(&self, head: u32) -> u32 {
        self.heads.get(&head).map_or(0, |(site, ..)| *site)
    }

    /// The ranks of the PEs of some heads, ascending for each head.
    pub(crate) fn ranks<'a>(&'a self, heads: &'a [u32]) -> impl Iterator<Item = u32> + 'a {
        let found = heads.iter().filter_map(move |head| self.heads.get(head));
        found.flat_map(|(.., ranks)| ranks.iter().copied())
    }

    /// The other heads of a head's site, those after it first, so that heads begin with different
    /// receivers.
    pub(crate) fn others(&self, head: u32) -> Vec<u32> {
        let here = self.at_site(self.site(head));
        let (before, rest) = here.split_at(self.place(head).min(here.len()));
        [rest.get(1..).unwrap_or_default(), before].concat()
    }

    /// The head of the PE of a rank.
    pub(crate) fn head_of(&self, rank: u32) -> u32 {
        self.of.get(rank as usize).copied().unwrap_or(rank)
    }

    /// The heads of a site.
    pub(crate) fn at_site(&self, site: u32) -> &[u32] {
        self.sites.get(&site).map_or(&[], Vec::as_slice)
    }

    /// The sites, ascending.
    pub(crate) fn sites(&self) -> impl Iterator<Item = u32> {
        self.sites.keys().copied()
    }

    /// The largest number of heads of a site.
    pub(crate) fn most_at_a_site(&self) -> usize {
        self.sites.values().map(Vec::len).max().unwrap_or_default()
    }

    /// The place of a head among those of its site.
    pub(crate) fn place(&self, head: u32) -> usize {
        self.heads.get(&head).map_or(0, |(_, place, _)| *place)
    }

    /// The sites except for one, those after it first, so that sites begin with different
    /// receivers.
    pub(crate) fn other_sites(&self, site: u32) -> impl Iterator<Item = u32> {
        let after = self.sites.range(site.saturating_add(1)..);
        let before = self.sites.range(..site);
        after.chain(before).map(|(other, _)| *other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::CommTree;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn each_site_has_one_head_for_the_blocks_of_each_pe(
            places in proptest::collection::vec((0_u32..4, 0_u32..3), 1..60),
        ) {
            let pe_of = |(site, pe): (u32, u32)| (site, 3 * site + pe);
            let places: Vec<_> = places.into_iter().map(pe_of).collect();
            let heads = Heads::new(places.iter().copied());
            for (rank, place) in places.iter().enumerate() {
                let head = heads.of[rank];
                prop_assert_eq!(places[head as usize], *place);
                prop_assert!(heads.ranks(&[head]).any(|other| other as usize == rank));
            }
            for (site, here) in &heads.sites {
                let mut combined: Vec<u32> =
                    here.iter().flat_map(|head| heads.combined_by(*head)).collect();
                combined.sort_unstable();
                prop_assert!(combined.into_iter().eq(heads.heads.keys().copied()));
                for head in here {
                    prop_assert!(heads.combined_by(*head).contains(head));
                    prop_assert_eq!(heads.others(*head).len() + 1, here.len());
                    prop_assert_eq!(heads.site(*head), *site);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn heads_are_those_of_the_tree_from_rank_0(
            places in proptest::collection::vec((0_u32..4, 0_u32..5), 1..60),
        ) {
            let pe_of = |(site, pe): (u32, u32)| (site, 5 * site + pe);
            let places: Vec<_> = places.into_iter().map(pe_of).collect();
            let heads = Heads::new(places.iter().copied());
            let tree = CommTree::new(&places, 0);
            for rank in 0..places.len() as u32 {
                let head = heads.head_of(rank);
                prop_assert!(head == rank || tree.parent(rank) == Some(head));
            }
            let leaders: BTreeSet<u32> = tree.leaders().iter().copied().collect();
            let first: BTreeSet<u32> = heads.sites.values().map(|here| here[0]).collect();
            prop_assert_eq!(leaders, first);
            for here in heads.sites.values() {
                prop_assert!(here.iter().map(|head| heads.place(*head)).eq(0..here.len()));
                prop_assert!(here.iter().all(|head| !heads.others(*head).contains(head)));
            }
        }
    }

    #[test]
    fn other_sites_begin_with_the_next_one() {
        let heads = Heads::new([(0, 0), (1, 1), (3, 2), (1, 1)].into_iter());
        assert_eq!(heads.other_sites(1).collect::<Vec<_>>(), [3, 0]);
        assert_eq!((heads.head_of(3), heads.at_site(1), heads.place(1)), (1, &[1][..], 0));
    }
}
