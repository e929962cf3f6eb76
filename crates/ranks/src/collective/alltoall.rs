//! Exchanges in which each rank has a block for each other.
//!
//! **The order of receivers.** Blocks for other sites come first, since the wide area takes
//! longest. If the links into a site are slower than its ranks receive, all ranks send to the ranks
//! of that site in the same order. Then the first receivers have all their blocks, and go on, while
//! the links carry the blocks of the other receivers. The uplinks of both sites count, too.
//! Otherwise ranks begin with different receivers, so that none has to receive from all at a time.
//!
//! **Several exchanges in a row.** A rank begins the next exchange when it has the blocks of all
//! others. If all ranks sent everything at once, the blocks of the last one that begins would wait
//! behind those of all others on the links between the sites. All receivers would have their last
//! block at about the same time, and the links would be idle for a latency before the next
//! exchange. So a rank that waits for a long exchange sends at once to 5/8 of the ranks of each
//! other site. It sends to the rest when all ranks of its site have begun, as it notices by
//! their blocks. Then the first receivers begin the next exchange while the links carry the blocks
//! of the rest. If a rank begins so late that the links become idle, the exchange ends later than
//! if all blocks were sent at once, by at most the time that the links take for the rest.
//!
//! A rank that computes meanwhile, after the begin of an immediate operation, could not notice that
//! others have begun. It sends everything at once.

use super::operation::Operation;
use crate::content::Content;
use crate::element::Element;
use crate::error::RankError;
use crate::packet::Part;
use crate::request::go_on;
use crate::scope::Scope;
use crate::site_links::SiteLinks;
use crate::typed_block::TypedBlock;
use std::collections::BTreeMap;

/// The part of the ranks of another site that get their blocks at once, as a fraction. With 1/2 the
/// links would be idle before the last ranks begin; with 1 they would be idle between exchanges.
const AT_ONCE: (usize, usize) = (5, 8);
/// A rank holds blocks back if they keep a link busy for longer than this number of latencies
/// inside the rank's site: ranks of a site hear from each other within a few latencies.
const HELD_LATENCIES: f64 = 10.0;

/// The order in which a rank sends blocks to all others.
#[derive(Debug, PartialEq)]
struct SendOrder {
    /// Those to which it sends at once.
    at_once: Vec<u32>,
    /// Those to which it sends when all ranks of its site have begun, in groups: each group has at
    /// most one rank of each other site.
    held: Vec<Vec<u32>>,
    /// The other ranks of its site.
    near: Vec<u32>,
}

/// The bytes of an exchange that pass the same links as the blocks from one site to another, if all
/// ranks of both send as much as this one.
struct Passing {
    /// From the site to the other.
    between: f64,
    /// From the site to all others.
    out: f64,
    /// From all sites into the other.
    into: f64,
}

impl Passing {
    /// The longest time in seconds for which these keep a link or an uplink busy.
    fn busy_s(&self, links: &SiteLinks, from: u32, to: u32) -> f64 {
        let over_uplink =
            |site, bytes| links.uplink(site).map_or(0.0, |uplink| uplink.seconds_for(bytes));
        let between_s = links.between(from, to).seconds_for(self.between);
        between_s.max(over_uplink(from, self.out)).max(over_uplink(to, self.into))
    }
}

impl SendOrder {
    /// The order of a rank. `bytes` is the length of the block for a rank if that may be held back,
    /// and zero if not.
    fn new(scope: &Scope, me: u32, bytes: impl Fn(u32) -> usize) -> Self {
        let mut sites: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for rank in 0..scope.size() {
            sites.entry(scope.place(rank).0).or_default().push(rank);
        }
        let home = scope.place(me).0;
        let mut near = sites.remove(&home).unwrap_or_default();
        let place = near.iter().position(|rank| *rank == me).unwrap_or_default();
        near.rotate_left(place);
        near.retain(|rank| *rank != me);
        let all: Vec<u32> = sites.keys().copied().chain([home]).collect();
        let links = scope.places().links();
        let here = (near.len() + 1) as f64;
        let out: usize = sites.values().flatten().map(|rank| bytes(*rank)).sum();
        let after = sites.range(home.saturating_add(1)..);
        let mut far: Vec<(usize, Vec<u32>)> = Vec::new();
        for (site, ranks) in after.chain(sites.range(..home)) {
            let mut ranks = ranks.clone();
            let mut count = ranks.len();
            if links.is_narrow(*site, all.iter().copied().filter(|other| other != site)) {
                let mine: usize = ranks.iter().map(|rank| bytes(*rank)).sum();
                let elsewhere = scope.size() as usize - count;
                let passing = Passing {
                    between: mine as f64 * here,
                    out: out as f64 * here,
                    into: mine as f64 * elsewhere as f64,
                };
                let near_s = HELD_LATENCIES * links.between(home, home).latency_s();
                let is_long = || passing.busy_s(links, home, *site) > near_s;
                if !near.is_empty() && mine > 0 && is_long() {
                    count = (count * AT_ONCE.0).div_ceil(AT_ONCE.1);
                }
            } else {
                let begin = place % count.max(1);
                ranks.rotate_left(begin);
            }
            far.push((count, ranks));
        }
        let most = far.iter().map(|(_, ranks)| ranks.len()).max().unwrap_or_default();
        let (mut at_once, mut held) = (Vec::new(), Vec::new());
        for number in 0..most {
            let mut later = Vec::new();
            for (count, ranks) in &far {
                let to = if number < *count { &mut at_once } else { &mut later };
                to.extend(ranks.get(number).copied());
            }
            held.push(later);
        }
        held.retain(|receivers| !receivers.is_empty());
        at_once.extend(&near);
        Self { at_once, held, near }
    }
}

impl Operation {
    /// Sends a block to each rank, and receives one from each. `is_awaited` if the rank does
    /// nothing else meanwhile.
    pub(super) async fn alltoall<T: Element>(
        &self,
        mut blocks: Vec<Vec<T>>,
        is_awaited: bool,
    ) -> Result<Vec<Vec<T>>, RankError> {
        let (at, me) = (self.at, self.me());
        let mut mine = blocks.get_mut(me as usize).map(std::mem::take);
        let contents = blocks.into_iter().map(Content::owned).collect();
        let open = |from: u32, content: Content| match mine.take_if(|_| from == me) {
            Some(mine) => Ok(mine),
            None => content.into_vec(at),
        };
        self.exchange_all(contents, is_awaited, open).await
    }

    /// Sends a block of any type to each rank, and receives one from each. `is_awaited` if the rank
    /// does nothing else meanwhile.
    pub(super) async fn alltoallw(
        &self,
        blocks: Vec<TypedBlock>,
        is_awaited: bool,
    ) -> Result<Vec<TypedBlock>, RankError> {
        let at = self.at;
        let contents = blocks.into_iter().map(TypedBlock::into_content).collect();
        let open = |from: u32, content: Content| {
            Ok(TypedBlock::received(content, at.with(Some(from), None)))
        };
        self.exchange_all(contents, is_awaited, open).await
    }

    /// Sends a content to each rank. Returns the received ones, opened, in the order of the ranks.
    async fn exchange_all<R>(
        &self,
        contents: Vec<Content>,
        is_awaited: bool,
        mut open: impl FnMut(u32, Content) -> Result<R, RankError>,
    ) -> Result<Vec<R>, RankError> {
        let (at, me, size) = (self.at, self.me() as usize, self.comm.size() as usize);
        if contents.len() != size {
            return Err(RankError::WrongLength { at, found: contents.len(), expected: size });
        }
        let order = SendOrder::new(&self.comm.scope, me as u32, |to| match is_awaited {
            true => contents.get(to as usize).map_or(0, |content| content.bytes().len()),
            false => 0,
        });
        let mut contents: Vec<Option<Content>> = contents.into_iter().map(Some).collect();
        let mut opened: Vec<Option<R>> = (0..size).map(|_| None).collect();
        self.post_blocks(&mut contents, &order.at_once);
        if let Some(content) = contents[me].take() {
            opened[me] = Some(open(me as u32, content)?);
        }
        if !order.held.is_empty() {
            let mut found = Vec::with_capacity(order.near.len());
            for from in &order.near {
                found.push((*from, self.take(*from).await));
            }
            for receivers in &order.held {
                self.post_blocks(&mut contents, receivers);
                // The ranks of the site come here at about the same time. Yielding makes them send
                // to the same receivers in turn.
                go_on(&self.comm.local).await;
            }
            // Opened only after all blocks are sent: if this rank cannot read a block and fails,
            // the others still get theirs.
            for (from, parts) in found {
                opened[from as usize] = Some(open(from, self.only(parts?)?)?);
            }
        }
        for from in (0..me).rev().chain((me + 1..size).rev()) {
            if opened[from].is_none() {
                let content = self.only(self.take(from as u32).await?)?;
                opened[from] = Some(open(from as u32, content)?);
            }
        }
        Ok(opened.into_iter().flatten().collect())
    }

    /// Sends the contents for these ranks.
    fn post_blocks(&self, contents: &mut [Option<Content>], receivers: &[u32]) {
        for to in receivers {
            let content = contents.get_mut(*to as usize).and_then(Option::take);
            let part = content.map(|content| Part { key: 0, content });
            self.post(*to, part.into_iter().collect());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::Places;
    use crate::scope::World;
    use gridspan_topology::{GridSpec, Hierarchy};
    use std::sync::Arc;

    /// One rank on each PE of a grid.
    fn scope(emulate: &str) -> Scope {
        let spec = GridSpec::from_emulate(emulate).unwrap();
        let layout = spec.layout();
        let uplinks = layout.sites().filter_map(|site| Some((site, spec.uplink(site)?))).collect();
        let links = SiteLinks::new(layout, &Hierarchy::from_grid(&spec), &[]);
        let links = links.with_uplinks(layout, &uplinks);
        let pes: Vec<u64> = spec.layout().pes().map(|pe| u64::from(pe.0)).collect();
        let places = Places::new(&pes, spec.layout(), links);
        World::of_job(pes.len() as u32).scope(Arc::new(places))
    }

    /// The order in which a rank sends short blocks.
    fn receivers(scope: &Scope, me: u32) -> Vec<u32> {
        let order = SendOrder::new(scope, me, |_| 8);
        assert!(order.held.is_empty(), "{order:?}");
        order.at_once
    }

    #[test]
    fn blocks_for_other_sites_leave_first_and_in_the_same_order() {
        // Two links of 1 Gbit/s into a site, whose ranks receive 10 Gbit/s.
        let scope = scope("3x3,wan=20ms");
        assert_eq!(receivers(&scope, 0), [3, 6, 4, 7, 5, 8, 1, 2]);
        assert_eq!(receivers(&scope, 1), [3, 6, 4, 7, 5, 8, 2, 0]);
        assert_eq!(receivers(&scope, 4), [6, 0, 7, 1, 8, 2, 5, 3]);
    }

    #[test]
    fn ranks_of_one_site_begin_with_different_receivers() {
        assert_eq!(receivers(&scope("1x4"), 2), [3, 0, 1]);
    }

    #[test]
    fn over_many_links_ranks_begin_with_different_receivers() {
        // Eleven links of 1 Gbit/s into each site.
        let scope = scope("12x2,wan=20ms");
        let (first, second) = (receivers(&scope, 0), receivers(&scope, 1));
        assert_eq!((first[0], second[0]), (2, 3));
        assert_eq!((first[11], second[11]), (3, 2));
        assert_eq!((first[22], second[22]), (1, 0));
    }

    #[test]
    fn long_blocks_for_the_last_ranks_of_other_sites_are_held_back() {
        let scope = scope("3x8,wan=20ms");
        let order = SendOrder::new(&scope, 1, |_| 64 << 10);
        let at_once =
            [8, 16, 9, 17, 10, 18, 11, 19, 12, 20].into_iter().chain([2, 3, 4, 5, 6, 7, 0]);
        let expected = SendOrder {
            at_once: at_once.collect(),
            held: vec![vec![13, 21], vec![14, 22], vec![15, 23]],
            near: vec![2, 3, 4, 5, 6, 7, 0],
        };
        assert_eq!(order, expected);
    }

    #[test]
    fn blocks_are_held_back_for_the_sites_for_which_they_are_long() {
        // 64 blocks of 1250 bytes take 0.64 ms at 1 Gbit/s, and ten latencies take 0.5 ms.
        let scope = scope("3x8,wan=20ms");
        let order = SendOrder::new(&scope, 0, |to| if to < 16 { 1250 } else { 900 });
        assert_eq!(order.held, vec![vec![13], vec![14], vec![15]]);
        assert!(order.at_once.ends_with(&[22, 23, 1, 2, 3, 4, 5, 6, 7]), "{order:?}");
    }

    #[test]
    fn blocks_are_held_back_if_they_keep_an_uplink_busy() {
        // 64 blocks of 500 bytes take 0.26 ms over a link, and those for both sites 0.51 ms over
        // the uplink; ten latencies take 0.5 ms.
        let held = |grid: &str| SendOrder::new(&scope(grid), 0, |_| 500).held.len();
        assert_eq!([held("3x8,wan=20ms"), held("3x8,wan=20ms,uplink=1gbit")], [0, 3]);
        // Eleven links together are faster than a node, and the uplink is not.
        let first = |grid: &str| SendOrder::new(&scope(grid), 1, |_| 8).at_once[0];
        assert_eq!([first("12x2,wan=20ms"), first("12x2,wan=20ms,uplink=1gbit")], [3, 2]);
    }

    #[test]
    fn nothing_is_held_back_where_a_rank_is_alone_or_receivers_are_slower_than_links() {
        for grid in ["4x1,wan=20ms", "12x4,wan=20ms", "1x8"] {
            let order = SendOrder::new(&scope(grid), 0, |_| 1 << 20);
            assert!(order.held.is_empty(), "{grid}: {order:?}");
        }
    }
}
