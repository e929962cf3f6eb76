//! Chooses the algorithm of an allreduce by its predicted time. There are four:
//!
//! **Over the tree**, if the ranks are at several sites: partial results go up a binomial tree to
//! the leader of each site, the leaders exchange them, and the result goes down again. This takes
//! few messages, and crosses between two sites once, but the whole vector passes each level of the
//! tree twice.
//!
//! **In rounds**, if all ranks are at one site: the heads of the PEs exchange partial results until
//! each has all of them ([`crate::dissemination`]). The number of rounds is chosen, too: with fewer
//! of them, heads send more messages. Nothing has to go down again: even the most rounds for `n`
//! heads, `⌈log₂ n⌉`, take no more latencies than the `2 ⌊log₂ n⌋` of the tree. So the tree is no
//! candidate here. All candidates begin with a message from each head to the one before it, and
//! the heads notice by these messages if ranks give vectors of different lengths.
//!
//! **In shares**: the heads of a site divide the vector. Each combines some shares for its site,
//! exchanges them with the heads that have the same shares at the other sites, and gives the result
//! to the heads of its site (Thakur, Rabenseifner and Gropp, "Optimization of Collective
//! Communication Operations in MPICH", 2005, section 4.5, describe this within a cluster). A head
//! carries about twice the vector, however many heads there are. With several shares for each head
//! some cross the wide area while others are combined or distributed.
//!
//! **In shares, with two crossings**: each share has a home, one of the sites. The heads send it
//! there only. The home combines it for all sites, and sends the result to the others. So a site
//! sends and receives `2 (s - 1) / s` vectors for `s` sites, which is the least possible, where the
//! other ways send and receive `s - 1`. This takes one more latency. It is a candidate only for
//! three or more sites, and if the uplink of a site is known, which all its traffic with others
//! shares.
//!
//! The prediction adds latencies, times to send bytes, and the processor time of messages, over the
//! slowest site, and the slowest link or uplink. It depends only on the places of the ranks, the
//! links, and the length of the vector. All ranks of a communicator know these, so that all choose
//! the same way.

use crate::dissemination::{Dissemination, fastest, levels};
use crate::heads::Heads;
use crate::segments::Segments;
use crate::site_links::{LinkCost, MESSAGE_S, SiteLinks};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::convert::Infallible;

/// Numbers of shares to compare, for each head of the site with the most heads. More shares save
/// less than their messages cost. With two crossings, these are multiples of the least number with
/// which each site is the home of as many shares as each other.
const SHARES_EACH: [usize; 4] = [1, 2, 4, 8];

/// What a site has to do.
#[derive(Debug)]
struct SiteWork {
    site: u32,
    /// Number of heads.
    heads: usize,
    /// Number of values into which the values of all ranks of the site combine.
    of_site: f64,
    /// The largest such number over the PEs of the site.
    of_head: f64,
    /// The link between two nodes of the site.
    inside: LinkCost,
}

impl SiteWork {
    /// The largest number of shares of a head, if there are this many.
    fn each(&self, shares: usize) -> usize {
        shares.div_ceil(self.heads)
    }

    /// The largest part of the vector that a head has.
    fn part(&self, shares: usize) -> f64 {
        self.each(shares) as f64 / shares as f64
    }
}

/// How often shares cross between sites.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Crossings {
    /// Each site sends what it has combined to each other.
    One,
    /// Each site sends it to the home of the share, which sends the result to each other site.
    Two,
}

/// What an exchange of vectors between all sites costs.
#[derive(Debug)]
struct Crossing {
    /// The largest latency between two sites, in seconds.
    latency_s: f64,
    /// Time for each byte of the vector on the slowest link between two sites, in seconds.
    link_s: f64,
    /// Time for each byte of the vector to leave a node for one other site, in seconds.
    node_s: f64,
    /// Time for each byte of the vector to leave a site for one other site over its uplink, in
    /// seconds; zero if no uplink is known.
    out_s: f64,
    /// Time for each byte of the vector to come into a site from all others over its uplink, in
    /// seconds; zero if no uplink is known.
    into_s: f64,
}

impl Crossing {
    /// The exchange in which each site sends this number of values for each element of the vector.
    fn new(work: &[SiteWork], links: &SiteLinks, values: impl Fn(&SiteWork) -> f64) -> Self {
        let pairs = || {
            let all = work.iter().flat_map(move |from| work.iter().map(move |to| (from, to)));
            all.filter(|(from, to)| from.site != to.site)
        };
        let link = |from: &SiteWork, to: &SiteWork| links.between(from.site, to.site);
        let out = |from: &SiteWork| Some(links.uplink(from.site)?.seconds_for(values(from)));
        let into = |to: &SiteWork| {
            let others = work.iter().filter(|from| from.site != to.site);
            let all: f64 = others.map(&values).sum();
            Some(links.uplink(to.site)?.seconds_for(all))
        };
        Self {
            latency_s: largest(pairs().map(|(from, to)| link(from, to).latency_s())),
            link_s: largest(pairs().map(|(from, to)| link(from, to).seconds_for(values(from)))),
            node_s: largest(pairs().map(|(from, _)| from.inside.seconds_for(values(from)))),
            out_s: largest(work.iter().filter_map(out)),
            into_s: largest(work.iter().filter_map(into)),
        }
    }

    /// The time in seconds to send `bytes` of the vector from each site to this number of other
    /// sites. A head sends at most `part` of them to each of these.
    fn across_s(&self, bytes: f64, part: f64, others: f64) -> f64 {
        let Self { link_s, node_s, out_s, into_s, .. } = *self;
        bytes * link_s.max(node_s * part * others).max(out_s * others).max(into_s)
    }
}

/// An algorithm to reduce a vector so that all ranks get the result.
#[derive(Debug, PartialEq)]
pub(crate) enum Way<'a> {
    /// Whole, over the tree from rank 0.
    Tree,
    /// Whole, in the rounds of this exchange among the heads.
    Rounds(&'a Dissemination),
    /// In this number of shares, with one or two crossings.
    Shares(usize, Crossings),
}

/// What the choice of an allreduce algorithm over the ranks of a communicator needs.
#[derive(Debug)]
pub(crate) struct Sharing {
    heads: Heads,
    work: Vec<SiteWork>,
    /// The exchange of the values of the sites.
    crossing: Crossing,
    /// The exchange of results, of one value for each element.
    results: Crossing,
    /// The exchanges among the heads; none if the heads are at several sites, or if there is only
    /// one.
    exchanges: Vec<Dissemination>,
}

impl Sharing {
    /// The choice for ranks at these sites and PEs.
    pub(crate) fn new(places: &[(u32, u32)], links: &SiteLinks) -> Self {
        let heads = Heads::new(places.iter().copied());
        let ranks = places.len() as u32;
        let mut sites: BTreeMap<u32, Segments<()>> = BTreeMap::new();
        let mut of_heads: BTreeMap<u32, Segments<()>> = BTreeMap::new();
        for (rank, (site, _)) in (0..ranks).zip(places) {
            for (at, all) in [(*site, &mut sites), (heads.head_of(rank), &mut of_heads)] {
                add(all.entry(at).or_insert_with(|| Segments::new(ranks)), rank);
            }
        }
        let count = |segments: &Segments<()>| segments.iter().count() as f64;
        let work = |(site, segments): (&u32, &Segments<()>)| {
            let here = heads.at_site(*site);
            let of_head = here.iter().filter_map(|head| Some(count(of_heads.get(head)?)));
            SiteWork {
                site: *site,
                heads: here.len(),
                of_site: count(segments),
                of_head: of_head.fold(1.0, f64::max),
                inside: links.between(*site, *site),
            }
        };
        let work: Vec<SiteWork> = sites.iter().map(work).collect();
        let crossing = Crossing::new(&work, links, |work| work.of_site);
        let results = Crossing::new(&work, links, |_| 1.0);
        let exchanges = match &work[..] {
            [only] => Dissemination::all(only.heads),
            _ => Vec::new(),
        };
        Self { heads, work, crossing, results, exchanges }
    }

    pub(crate) fn heads(&self) -> &Heads {
        &self.heads
    }

    /// The fastest algorithm for a vector of `length` elements of `element_bytes` each.
    pub(crate) fn way(&self, length: usize, element_bytes: usize) -> Way<'_> {
        let bytes = length as f64 * element_bytes as f64;
        let whole = match self.fastest_exchange(|heads| bytes * self.values(heads)) {
            Some((time, exchange)) => (time, Way::Rounds(exchange)),
            None => (self.time_over_tree(bytes), Way::Tree),
        };
        let in_shares = |crossings, best: Option<(f64, usize)>| {
            best.map(|(time, shares)| (time, Way::Shares(shares, crossings)))
        };
        let once = in_shares(Crossings::One, self.fastest_shares(length, bytes));
        let twice = in_shares(Crossings::Two, self.fastest_in_two_crossings(length, bytes));
        let ways = [once, twice].into_iter().flatten();
        ways.fold(whole, |best, other| if other.0 < best.0 { other } else { best }).1
    }

    /// The fastest exchange in rounds after which each head has the data of all heads; `None` if
    /// there is no such exchange. `bytes(n)` is the size of the data of `n` heads together.
    pub(crate) fn exchange(&self, bytes: impl Fn(usize) -> f64) -> Option<&Dissemination> {
        Some(self.fastest_exchange(bytes)?.1)
    }

    /// The predicted time in seconds of the fastest exchange, and that exchange.
    fn fastest_exchange(&self, bytes: impl Fn(usize) -> f64) -> Option<(f64, &Dissemination)> {
        fastest(&self.exchanges, self.work.first()?.inside, bytes)
    }

    /// Number of values into which the values of `heads` consecutive heads of the only site
    /// combine. Only an aligned part of a binary tree combines into one value, and the first of
    /// these heads may be any head.
    fn values(&self, heads: usize) -> f64 {
        let parts = heads.min(levels(heads) as usize + 1);
        parts as f64 * largest(self.work.iter().map(|work| work.of_head))
    }

    /// The best number of shares of a vector, and the predicted time in seconds. `None` if each
    /// site has one head, or the vector has fewer elements than a site has heads: each head needs a
    /// share, because the heads of a site notice a vector of another length by what they get from
    /// each other.
    fn fastest_shares(&self, length: usize, bytes: f64) -> Option<(f64, usize)> {
        let most_heads = self.heads.most_at_a_site();
        if most_heads < 2 || length < most_heads {
            return None;
        }
        let candidates = SHARES_EACH.iter().map(|each| (most_heads * each).min(length));
        fastest_number(candidates, |shares| self.time_in_shares(bytes, shares))
    }

    /// The best number of shares of a vector that crosses twice, and the predicted time in seconds.
    /// `None` if no uplink is known, the vector is too short, or there are only two sites, which
    /// send and receive as much in one crossing.
    fn fastest_in_two_crossings(&self, length: usize, bytes: f64) -> Option<(f64, usize)> {
        let (most_heads, sites) = (self.heads.most_at_a_site(), self.work.len());
        if sites < 3 || self.crossing.out_s <= 0.0 {
            return None;
        }
        let step = if most_heads.is_multiple_of(sites) { 1 } else { sites };
        let candidates = SHARES_EACH.iter().map(|each| most_heads * step * each);
        let candidates = candidates.filter(|shares| *shares <= length);
        fastest_number(candidates, |shares| self.time_in_two_crossings(bytes, shares))
    }

    /// Predicted time over the tree, in seconds.
    fn time_over_tree(&self, bytes: f64) -> f64 {
        let up = self.work.iter().map(|work| {
            let link = work.inside;
            let levels = f64::from(levels(work.heads));
            // Each level but the last carries the values of one PE. At the last, the leader gets
            // all values of the site.
            let values = match work.heads {
                1 => 0.0,
                _ => (levels - 1.0) * work.of_head + work.of_site,
            };
            latencies_s(work) + levels * MESSAGE_S + link.seconds_for(bytes * values)
        });
        let down = self.work.iter().map(|work| {
            let messages = f64::from(levels(work.heads));
            latencies_s(work) + messages * (MESSAGE_S + work.inside.seconds_for(bytes))
        });
        let others = self.work.len().saturating_sub(1) as f64;
        let messages = 2.0 * others * MESSAGE_S;
        let across = self.crossing.across_s(bytes, 1.0, others);
        largest(up) + self.crossing.latency_s + across + messages + largest(down)
    }

    /// Predicted time in this number of shares, in seconds.
    fn time_in_shares(&self, bytes: f64, shares: usize) -> f64 {
        let others = self.work.len().saturating_sub(1);
        let messages = self.messages_s(shares, |each| 2 * each * others);
        let (up, down) = self.inside_s(bytes, shares);
        let part = largest(self.work.iter().map(|work| work.part(shares)));
        let across = self.crossing.across_s(bytes, part, others as f64);
        // The shares of a head pass through a pipeline of three steps: up, across and down. Up and
        // down use the same links.
        let stages = self.least_each(shares) as f64;
        let first = (up + across + down) / stages;
        let rest = (up + down).max(across) * (stages - 1.0) / stages;
        self.latencies_inside_s() + self.crossing.latency_s + messages + first + rest
    }

    /// Predicted time in this number of shares with two crossings, in seconds.
    fn time_in_two_crossings(&self, bytes: f64, shares: usize) -> f64 {
        let sites = self.work.len().max(1);
        let others = sites - 1;
        let messages = self.messages_s(shares, |each| {
            // Of the shares of a head, those whose home is its site.
            let at_home = each.div_ceil(sites);
            2 * (each - at_home) + 2 * at_home * others
        });
        let (up, down) = self.inside_s(bytes, shares);
        // Each site is the home of this many bytes, and a head there of the largest part of them.
        let home_bytes = bytes / sites as f64;
        let of_head = |work: &SiteWork| work.each(shares).div_ceil(sites) * sites;
        let part =
            largest(self.work.iter().map(of_head).map(|of_head| of_head as f64)) / shares as f64;
        let first = self.crossing.across_s(home_bytes, part, others as f64);
        let second = self.results.across_s(home_bytes, part, others as f64);
        // A home sends a result as soon as it has the share of each site. Both crossings use the
        // same links.
        let latency = self.crossing.latency_s;
        let homes = (self.least_each(shares) / sites).max(1) as f64;
        let across = (latency + first + second / homes).max(first + second);
        let stages = self.least_each(shares) as f64;
        let rest = across.max((up + down) * (stages - 1.0) / stages);
        self.latencies_inside_s() + latency + messages + (up + down) / stages + rest
    }

    /// The times in seconds in which a head of the slowest site gets its shares of the others, and
    /// gives or gets the results.
    fn inside_s(&self, bytes: f64, shares: usize) -> (f64, f64) {
        let up = self.work.iter().map(|work| {
            let others = (work.heads - 1) as f64;
            work.inside.seconds_for(bytes * work.part(shares) * others * work.of_head)
        });
        let down = self.work.iter().map(|work| {
            let (part, others) = (work.part(shares), (work.heads - 1) as f64);
            // A head sends its part to all others, and gets theirs.
            work.inside.seconds_for(bytes * (part * others).max(1.0 - part))
        });
        (largest(up), largest(down))
    }

    /// The processor time in seconds of the messages of a head. `across` returns the number of
    /// those between sites for this number of shares of the head.
    fn messages_s(&self, shares: usize, across: impl Fn(usize) -> usize) -> f64 {
        let messages = self.work.iter().map(|work| {
            let (each, others) = (work.each(shares), work.heads - 1);
            let inside = 2 * (shares - each.min(shares)) + 2 * each * others;
            (inside + across(each)) as f64 * MESSAGE_S
        });
        largest(messages)
    }

    /// The latencies inside sites, in seconds.
    fn latencies_inside_s(&self) -> f64 {
        let inside = self.work.iter().filter(|work| work.heads > 1);
        largest(inside.map(|work| 2.0 * work.inside.latency_s()))
    }

    /// The number of shares of a head at the site with the fewest for each, at least one.
    fn least_each(&self, shares: usize) -> usize {
        self.work.iter().map(|work| work.each(shares)).min().unwrap_or(1).max(1)
    }
}

/// The number of shares with the shortest predicted time, and that time.
fn fastest_number(
    candidates: impl Iterator<Item = usize>,
    seconds: impl Fn(usize) -> f64,
) -> Option<(f64, usize)> {
    candidates
        .map(|shares| (seconds(shares), shares))
        .min_by(|one, other| one.0.partial_cmp(&other.0).unwrap_or(Ordering::Equal))
}

/// Adds a rank to segments without values.
fn add(segments: &mut Segments<()>, rank: u32) {
    let added: Result<(), Infallible> = segments.add((0, rank), (), |(), ()| Ok(()));
    match added {
        Ok(()) => {}
        Err(never) => match never {},
    }
}

/// The largest of some times; zero if there are none.
fn largest(times: impl Iterator<Item = f64>) -> f64 {
    times.fold(0.0, f64::max)
}

/// Sum of the latencies, in seconds, from the bottom of the binomial tree over the heads of a site
/// to its top.
fn latencies_s(work: &SiteWork) -> f64 {
    f64::from(work.heads.max(1).ilog2()) * work.inside.latency_s()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_topology::{GridSpec, Hierarchy};

    /// One rank on each PE of a grid.
    fn sharing(emulate: &str) -> Sharing {
        let spec = GridSpec::from_emulate(emulate).unwrap();
        let layout = spec.layout();
        let uplinks = layout.sites().filter_map(|site| Some((site, spec.uplink(site)?))).collect();
        let links = SiteLinks::new(layout, &Hierarchy::from_grid(&spec), &[]);
        let links = links.with_uplinks(layout, &uplinks);
        let places: Vec<_> = layout.pes().map(|pe| (layout.site_of(pe).0, pe.0)).collect();
        Sharing::new(&places, &links)
    }

    /// The number of shares of a vector.
    fn shares(sharing: &Sharing, length: usize, element_bytes: usize) -> Option<usize> {
        match sharing.way(length, element_bytes) {
            Way::Shares(shares, _) => Some(shares),
            Way::Tree | Way::Rounds(_) => None,
        }
    }

    #[test]
    fn long_vectors_are_shared_and_short_ones_are_not() {
        for (grid, is_one_site) in [("4x8,wan=20ms", false), ("2x3,wan=20ms", false), ("1x8", true)]
        {
            let sharing = sharing(grid);
            let way = sharing.way(1, 8);
            assert_eq!(matches!(way, Way::Rounds(_)), is_one_site, "{grid}");
            assert_eq!(matches!(way, Way::Tree), !is_one_site, "{grid}");
            let shares = shares(&sharing, 1 << 17, 8).unwrap();
            let heads = sharing.work[0].heads;
            assert!(shares.is_multiple_of(heads) && shares <= 8 * heads, "{grid}: {shares}");
        }
    }

    #[test]
    fn a_site_of_one_head_has_nothing_to_share_or_exchange() {
        for grid in ["16x1,wan=20ms", "1x1"] {
            let sharing = sharing(grid);
            assert_eq!(sharing.way(1 << 20, 8), Way::Tree, "{grid}");
            assert_eq!(sharing.exchange(|_| 8.0), None, "{grid}");
        }
    }

    #[test]
    fn in_one_site_the_rounds_of_short_vectors_are_faster_than_a_tree() {
        for nodes in 2..=64 {
            let sharing = sharing(&format!("1x{nodes}"));
            let (time, _) = sharing.fastest_exchange(|heads| 8.0 * sharing.values(heads)).unwrap();
            // Two or three nodes need one latency in place of two.
            let limit = if nodes < 4 { 0.51 } else { 0.4 };
            let tree = sharing.time_over_tree(8.0);
            assert!(time < limit * tree, "{nodes} nodes: {time} s, {tree} s over the tree");
        }
    }

    #[test]
    fn the_number_of_rounds_follows_from_the_links_and_the_length() {
        let rounds = |grid: &str, element_bytes: usize| match sharing(grid).way(1, element_bytes) {
            Way::Rounds(exchange) => exchange.rounds().len(),
            way => panic!("{grid}: {way:?}"),
        };
        // Seven messages of 5 us each are less than another latency of 50 us.
        assert_eq!(rounds("1x8", 8), 1);
        // Two latencies and 14 messages are less than one and 63.
        assert_eq!(rounds("1x64", 8), 2);
        // At once, a head sends the megabyte to seven others. In three rounds it sends one value,
        // at most two, and at most three.
        assert_eq!(rounds("1x8", 1 << 20), 3);
    }

    #[test]
    fn parts_of_a_binary_tree_that_begin_anywhere_are_few_values() {
        let sharing = sharing("1x16");
        assert_eq!(
            [1, 2, 3, 4, 8, 16].map(|heads| sharing.values(heads)),
            [1., 2., 3., 3., 4., 5.]
        );
        assert!(sharing.exchange(|_| 0.0).is_some());
    }

    #[test]
    fn a_vector_has_at_most_as_many_shares_as_elements_and_each_head_has_one() {
        // Elements of a megabyte.
        let sharing = sharing("2x8,wan=20ms");
        assert_eq!(sharing.way(7, 1 << 20), Way::Tree);
        assert!((8..=11).contains(&shares(&sharing, 11, 1 << 20).unwrap()));
    }

    #[test]
    fn the_prediction_over_the_tree_adds_levels_and_one_crossing() {
        let sharing = sharing("4x8,wan=20ms");
        // 2^20 bytes take 0.84 ms at 10 Gbit/s, three times up and three times down, and 8.4 ms at
        // 1 Gbit/s.
        let expected = 0.02 + 6.0 * (0.839e-3 + 50e-6) + 8.389e-3;
        let found = sharing.time_over_tree(f64::from(1 << 20));
        assert!((found - expected).abs() < 0.3e-3, "{found} s, not {expected} s");
        // A head carries seven eighths of it each way, and the crossing takes as long.
        let expected = 0.02 + 2.0 * (7.0 / 8.0 * 0.839e-3 + 50e-6) + 8.389e-3;
        let found = sharing.time_in_shares(f64::from(1 << 20), 8);
        assert!((found - expected).abs() < 0.3e-3, "{found} s, not {expected} s");
    }

    #[test]
    fn over_a_shared_uplink_all_but_two_crossings_carry_a_vector_for_each_other_site() {
        let (links, uplinks) = (sharing("4x8,wan=20ms"), sharing("4x8,wan=20ms,uplink=1gbit"));
        // 2^22 bytes take 33.6 ms at 1 Gbit/s, and the uplink carries them three times.
        let bytes = f64::from(1 << 22);
        let times =
            |sharing: &Sharing| [sharing.time_over_tree(bytes), sharing.time_in_shares(bytes, 64)];
        for (one, other) in times(&links).into_iter().zip(times(&uplinks)) {
            let longer = other - one;
            assert!((67.0e-3..67.2e-3).contains(&longer), "{one} s, {other} s");
        }
        // With two crossings three quarters of it pass the uplink in each. A head carries seven
        // eighths of it each way in four steps, of which all but the first overlap the crossings.
        let expected = 2.0 * 0.02 + 2.0 * 25.166e-3 + 0.1e-3 + 2.0 * 2.936e-3 / 4.0;
        let found = uplinks.time_in_two_crossings(bytes, 32);
        assert!((found - expected).abs() < 1e-3, "{found} s, not {expected} s");
    }

    #[test]
    fn long_vectors_cross_twice_over_a_shared_uplink_of_three_or_more_sites() {
        let crossings = |grid: &str, length: usize| match sharing(grid).way(length, 8) {
            Way::Shares(_, crossings) => Some(crossings),
            Way::Tree | Way::Rounds(_) => None,
        };
        let (once, twice) = (Some(Crossings::One), Some(Crossings::Two));
        let uplink = "4x8,wan=20ms,uplink=1gbit";
        assert_eq!([1, 1 << 14, 1 << 19].map(|at| crossings(uplink, at)), [None, once, twice]);
        assert_eq!(crossings("4x8,wan=20ms", 1 << 22), once);
        // Two sites send a vector each, in one crossing or in two.
        assert_eq!(crossings("2x8,wan=20ms,uplink=1gbit", 1 << 22), once);
        // One head for each site.
        assert_eq!(crossings("4x1,wan=20ms,uplink=1gbit", 1 << 19), twice);
        assert_eq!(crossings("1x8,uplink=1gbit", 1 << 19), once);
    }

    #[test]
    fn a_site_of_three_heads_has_a_tree_of_one_latency() {
        let sharing = sharing("2x3,wan=20ms");
        // Two messages to the leader, two between the leaders, and two from the leader.
        let expected = 0.02 + 2.0 * 50e-6 + 6.0 * MESSAGE_S;
        let found = sharing.time_over_tree(8.0);
        assert!((found - expected).abs() < 10e-6, "{found} s, not {expected} s");
        assert_eq!(sharing.way(100, 8), Way::Tree);
    }

    #[test]
    fn scattered_ranks_send_more_values() {
        let spec = GridSpec::from_emulate("2x2,wan=20ms").unwrap();
        let links = SiteLinks::new(spec.layout(), &Hierarchy::from_grid(&spec), &[]);
        let places: Vec<_> = (0..8_u32).map(|rank| (rank % 2, 2 * (rank % 2) + rank / 4)).collect();
        let sharing = Sharing::new(&places, &links);
        let work: Vec<_> = sharing.work.iter().map(|work| (work.of_site, work.of_head)).collect();
        assert_eq!(work, [(4.0, 2.0); 2]);
    }
}
