//! Reductions to all ranks in shares; see [`crate::sharing`].
//!
//! 1. The head of each PE collects the numbers of its ranks, which costs no packet, and sends each
//!    other head of its site the shares that the other head combines.
//! 2. Once a head has combined a share for its whole site, it sends the share to the heads that
//!    combine the same share at the other sites.
//! 3. Once it has combined the share for all sites, it gives it to the other heads of its site.
//! 4. Once a head has all shares, it gives the result to the ranks of its PE.
//!
//! **With two crossings**, each share has a home, one of the sites. In step 2 a head sends a share
//! to its home only. In step 3 a head first combines, for all sites, those of its shares whose home
//! is its site, and sends the results to the heads that have the same shares at the other sites.
//! Then it waits for the results of its other shares. The homes of the shares of a head, and of the
//! shares that come first at the heads of a site, are different sites. So traffic is spread over
//! the uplinks of all sites at any time.
//!
//! Heads go through the shares in ascending order in each step, but in step 3 and when they take
//! the results of others through those at home first. They go through the steps one after the
//! other. So two messages of one head to another are taken in the order in which they were sent. No
//! head waits for a result before it has sent all its shares, and none for the result of another
//! home before it has sent all its results. So a result waits for two latencies, and for its bytes.
//!
//! **Failure.** If the vectors of ranks differ in length, some ranks may choose the algorithm over
//! a tree, or in rounds, instead of this one. At least one rank fails, so that the job does not
//! wait for ever. In all algorithms the head of each PE gets the vectors of its ranks, and the
//! first head of the first site gets a part from the first head of each other site before anything
//! else from it: in this one share 0, whose home is the first site. In this one each head also
//! sends parts to all other heads of its site at once. The keys of these parts contain the length
//! of the whole vector; see [`super::keys`].

use super::collected::{Collected, Partial};
use super::keys;
use super::operation::Operation;
use crate::content::Content;
use crate::element::Element;
use crate::error::RankError;
use crate::heads::Heads;
use crate::ops::Operator;
use crate::packet::Part;
use crate::sharing::Crossings;
use std::ops::Range;

/// The division of a vector into shares, as one head sees it.
struct Shares<'a> {
    heads: &'a Heads,
    /// This head, and its site.
    me: u32,
    site: u32,
    /// Number of elements of the vector.
    length: usize,
    /// Number of shares.
    count: usize,
    /// The largest number of heads of a site.
    most_heads: usize,
    /// The sites, ascending, which are the homes of the shares; none with one crossing.
    homes: Vec<u32>,
}

impl<'a> Shares<'a> {
    /// The division of a vector of this length into a number of shares.
    fn new(
        heads: &'a Heads,
        me: u32,
        length: usize,
        (count, crossings): (usize, Crossings),
    ) -> Self {
        let homes = match crossings {
            Crossings::One => Vec::new(),
            Crossings::Two => heads.sites().collect(),
        };
        let (site, most_heads) = (heads.site(me), heads.most_at_a_site().max(1));
        Self { heads, me, site, length, count, most_heads, homes }
    }

    /// The home of a share, which combines it for all sites; `None` if each site does.
    fn home(&self, share: usize) -> Option<u32> {
        let (place, round) = (share % self.most_heads, share / self.most_heads);
        self.homes.get((place + round) % self.homes.len().max(1)).copied()
    }

    /// Whether this site combines a share for all sites.
    fn is_at_home(&self, share: usize) -> bool {
        self.home(share).is_none_or(|home| home == self.site)
    }

    /// The heads to which this one sends a share that it has combined for its site.
    fn receivers(&self, share: usize) -> Vec<u32> {
        let others = self.heads.other_sites(self.site);
        let receiving = others.filter(|other| self.home(share).is_none_or(|home| home == *other));
        receiving.map(|other| self.owner(other, share)).collect()
    }

    /// The elements of a share.
    fn range(&self, share: usize) -> Range<usize> {
        let bound =
            |share: usize| (self.length as u128 * share as u128 / self.count as u128) as usize;
        bound(share)..bound(share + 1)
    }

    /// The head that combines a share at a site.
    fn owner(&self, site: u32, share: usize) -> u32 {
        let here = self.heads.at_site(site);
        here.get(share % here.len().max(1)).copied().unwrap_or(self.me)
    }

    /// Parts with shares of this vector.
    fn marked(&self, parts: Vec<Part>) -> Vec<Part> {
        let mark = |Part { key, content }| Part { key: keys::of_share(key, self.length), content };
        parts.into_iter().map(mark).collect()
    }

    /// The only part of a message, with a share of this vector or with all of it.
    fn one(&self, content: Content) -> Vec<Part> {
        self.marked(vec![Part { key: 0, content }])
    }

    /// The shares that this head combines.
    fn mine(&self) -> impl Iterator<Item = usize> + use<> {
        let heads = self.heads.at_site(self.site).len().max(1);
        (self.heads.place(self.me)..self.count).step_by(heads)
    }

    /// The shares of the other heads of the site. The first shares of all heads come before their
    /// second shares, and so on. Each time the next head comes first, so that heads begin with
    /// different receivers.
    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let heads = self.heads.at_site(self.site).len().max(1);
        let (place, count) = (self.heads.place(self.me), self.count);
        let of_round =
            move |begin: usize| (1..heads).map(move |step| begin + (place + step) % heads);
        (0..count).step_by(heads).flat_map(of_round).filter(move |share| *share < count)
    }

    /// The shares of the other heads of the site, in the order in which these send the results.
    fn results_of_others(&self) -> impl Iterator<Item = usize> {
        let at_home = self.others().filter(move |share| self.is_at_home(*share));
        at_home.chain(self.others().filter(move |share| !self.is_at_home(*share)))
    }
}

/// Copies the elements of a share out of the whole vector.
fn cut<T: Copy>(all: &[T], range: Range<usize>) -> Vec<T> {
    all.get(range).unwrap_or_default().to_vec()
}

impl Operation {
    /// Reduces to all ranks in this number of shares, at least one, and with these crossings.
    pub(super) async fn allreduce_in_shares<T: Element, O: Operator<T>>(
        &self,
        values: Vec<T>,
        heads: &Heads,
        shares: (usize, Crossings),
        op: &O,
    ) -> Result<Vec<T>, RankError> {
        let (at, me, expected) = (self.at, self.me(), values.len());
        let head = heads.head_of(me);
        let total: Vec<T> = if head == me {
            let whole = self.collect_at_head(values, heads, op).await?;
            let shares = Shares::new(heads, me, expected, shares);
            let combined = self.combine_shares(whole, &shares, op).await?;
            let total = self.complete_shares(combined, &shares).await?;
            self.give_to_pe(&total, &shares);
            total
        } else {
            let key = keys::of_share(0, expected);
            self.post(head, vec![Part { key, content: Content::owned(values) }]);
            self.only(self.take(head).await?)?.to_vec(at)?
        };
        match total.len() {
            found if found != expected => Err(RankError::WrongLength { at, found, expected }),
            _ => Ok(total),
        }
    }

    /// Gives the other heads of the site their shares, and combines those of this one for the site.
    /// Sends each to the other sites, or to its home, as soon as it is combined.
    async fn combine_shares<'a, T: Element, O: Operator<T>>(
        &self,
        whole: Partial<'_, T, O>,
        shares: &Shares<'_>,
        op: &'a O,
    ) -> Result<Vec<(usize, Partial<'a, T, O>)>, RankError> {
        let Shares { heads, me, site, length, .. } = *shares;
        let of = |share: usize| shares.marked(whole.selected(|all| cut(all, shares.range(share))));
        for share in shares.others() {
            self.post(shares.owner(site, share), of(share));
        }
        let others = heads.others(me);
        let mut combined = Vec::new();
        for share in shares.mine() {
            let expected = shares.range(share).len();
            let mut partial = Partial::new(self.comm.size(), op, self.at);
            for part in of(share) {
                partial.add_share(part, expected, length)?;
            }
            for other in &others {
                for part in self.take(*other).await? {
                    partial.add_share(part, expected, length)?;
                }
            }
            let receivers = shares.receivers(share);
            if !receivers.is_empty() {
                let parts = shares.marked(partial.parts()?);
                receivers.into_iter().for_each(|to| self.post(to, parts.clone()));
            }
            combined.push((share, partial));
        }
        Ok(combined)
    }

    /// Completes the shares of this head with those of the other sites, or gets them from their
    /// homes. Gives them to the other heads of the site, and joins all shares.
    async fn complete_shares<T: Element, O: Operator<T>>(
        &self,
        combined: Vec<(usize, Partial<'_, T, O>)>,
        shares: &Shares<'_>,
    ) -> Result<Vec<T>, RankError> {
        let Shares { heads, me, site, .. } = *shares;
        let others = heads.others(me);
        let mut total = vec![T::zeroed(); shares.length];
        let mut from_homes = Vec::new();
        for (share, mut partial) in combined {
            if let Some(home) = shares.home(share).filter(|home| *home != site) {
                from_homes.push((share, home));
                continue;
            }
            let range = shares.range(share);
            for other in heads.other_sites(site) {
                for part in self.take(shares.owner(other, share)).await? {
                    partial.add_share(part, range.len(), shares.length)?;
                }
            }
            let content = Content::owned(partial.total()?);
            content.fill(&mut total[range], self.at)?;
            let result = shares.one(content);
            if shares.home(share).is_some() {
                for other in heads.other_sites(site) {
                    self.post(shares.owner(other, share), result.clone());
                }
            }
            others.iter().for_each(|other| self.post(*other, result.clone()));
        }
        for (share, home) in from_homes {
            let content = self.only(self.take(shares.owner(home, share)).await?)?;
            content.fill(&mut total[shares.range(share)], self.at)?;
            let result = shares.one(content);
            others.iter().for_each(|other| self.post(*other, result.clone()));
        }
        for share in shares.results_of_others() {
            let content = self.only(self.take(shares.owner(site, share)).await?)?;
            content.fill(&mut total[shares.range(share)], self.at)?;
        }
        Ok(total)
    }

    /// Gives the result to the other ranks of this PE, which share it.
    fn give_to_pe<T: Element>(&self, total: &[T], shares: &Shares<'_>) {
        let Shares { heads, me, .. } = *shares;
        let here = [me];
        let mut others = heads.ranks(&here).filter(|rank| *rank != me).peekable();
        if others.peek().is_none() {
            return;
        }
        let content = Content::copied(total);
        for rank in others {
            self.post(rank, shares.one(content.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_element_is_in_one_share_that_each_site_combines_once(
            places in proptest::collection::vec((0_u32..4, 0_u32..3), 1..60),
            length in 1_usize..200,
            count in 1_usize..30,
            crossings in prop_oneof![Just(Crossings::One), Just(Crossings::Two)],
        ) {
            let places = places.into_iter().map(|(site, pe)| (site, 3 * site + pe));
            let heads = Heads::new(places);
            for site in 0..4 {
                let here = heads.at_site(site);
                let mut combined = Vec::new();
                for me in here.iter().copied() {
                    let shares = Shares::new(&heads, me, length, (count, crossings));
                    let elements = (0..count).flat_map(|share| shares.range(share));
                    prop_assert!(elements.eq(0..length));
                    prop_assert!(shares.mine().all(|share| shares.owner(site, share) == me));
                    prop_assert!(shares.others().all(|share| shares.owner(site, share) != me));
                    let mut all: Vec<usize> = shares.mine().chain(shares.others()).collect();
                    all.sort_unstable();
                    prop_assert!(all.into_iter().eq(0..count));
                    // Those of one owner are in ascending order.
                    for other in here {
                        let of_other =
                            shares.others().filter(|share| shares.owner(site, *share) == *other);
                        prop_assert!(of_other.is_sorted());
                        let results = shares.results_of_others();
                        let results =
                            results.filter(|share| shares.owner(site, *share) == *other);
                        let order = |share: usize| (!shares.is_at_home(share), share);
                        prop_assert!(results.is_sorted_by_key(order));
                    }
                    for share in shares.mine() {
                        let receivers = shares.receivers(share);
                        let is_away = shares.home(share).is_some_and(|home| home != site);
                        let others = heads.sites().filter(|other| *other != site).count();
                        let expected = match crossings {
                            Crossings::One => others,
                            Crossings::Two => usize::from(is_away),
                        };
                        prop_assert_eq!(receivers.len(), expected);
                        prop_assert_eq!(shares.is_at_home(share), !is_away);
                    }
                    combined.extend(shares.mine());
                }
                combined.sort_unstable();
                prop_assert!(here.is_empty() || combined.into_iter().eq(0..count));
            }
        }
    }

    #[test]
    fn each_site_is_the_home_of_as_many_shares_as_each_other() {
        // The number of shares for each head is a multiple of the number of sites, or that of the
        // heads of a site is.
        for (sites, nodes, each) in [(4, 8, 1), (4, 8, 3), (3, 2, 3), (4, 1, 8), (2, 5, 4)] {
            let places = (0..sites * nodes).map(|pe| (pe / nodes, pe));
            let heads = Heads::new(places);
            let count = (nodes * each) as usize;
            let shares = Shares::new(&heads, 0, 1000, (count, Crossings::Two));
            for site in 0..sites {
                let at_home = (0..count).filter(|share| shares.home(*share) == Some(site)).count();
                assert_eq!(at_home * sites as usize, count, "{sites} sites, {nodes} nodes, {each}");
            }
        }
    }
}
