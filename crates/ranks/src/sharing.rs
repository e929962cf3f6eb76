//! Chooses between two ways of a reduction whose result all ranks get, by the times that it
//! predicts for them.
//!
//! **Over the tree**: partial results go up a binomial tree to the leader of each site, the leaders
//! exchange them, and the result goes down again. This takes few messages, but the whole vector
//! passes each level of the tree twice.
//!
//! **In shares**: the heads of a site divide the vector. Each combines some shares for its site,
//! exchanges them with the heads that have the same shares at the other sites, and gives the result
//! to the heads of its site (Thakur, Rabenseifner and Gropp, "Optimization of Collective
//! Communication Operations in MPICH", 2005, section 4.5, describe this within a cluster). A head
//! carries about twice the vector, however many heads there are. With several shares for each head
//! some cross the wide area while others are combined or distributed.
//!
//! The prediction adds latencies, times to send bytes, and the processor time of messages, over the
//! slowest site and the slowest link. It depends on the places of the ranks, the links, and the
//! length of the vector, which all ranks of a communicator know equally.

use crate::heads::Heads;
use crate::segments::Segments;
use crate::site_links::{LinkCost, SiteLinks};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::convert::Infallible;

/// Processor time of a message between nodes, at both ends together, in seconds. It is not
/// measured: this is that of an ordinary machine.
const MESSAGE_S: f64 = 5e-6;
/// The numbers of shares to compare, as shares of the head that has the fewest. More than these
/// save less than their messages cost.
const SHARES_EACH: [usize; 4] = [1, 2, 4, 8];

/// What a site has to do.
#[derive(Debug)]
struct SiteWork {
    site: u32,
    /// Number of heads.
    heads: usize,
    /// Number of values into which those of all ranks of the site combine.
    of_site: f64,
    /// The largest such number over the PEs of the site.
    of_head: f64,
    /// The link between two nodes of the site.
    inside: LinkCost,
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
}

impl Crossing {
    fn new(work: &[SiteWork], links: &SiteLinks) -> Self {
        let pairs = || {
            let all = work.iter().flat_map(move |from| work.iter().map(move |to| (from, to)));
            all.filter(|(from, to)| from.site != to.site)
        };
        let link = |from: &SiteWork, to: &SiteWork| links.between(from.site, to.site);
        Self {
            latency_s: largest(pairs().map(|(from, to)| link(from, to).latency_s())),
            link_s: largest(pairs().map(|(from, to)| link(from, to).seconds_for(from.of_site))),
            node_s: largest(pairs().map(|(from, _)| from.inside.seconds_for(from.of_site))),
        }
    }
}

/// The ways to reduce over the ranks of a communicator.
#[derive(Debug)]
pub(crate) struct Sharing {
    heads: Heads,
    work: Vec<SiteWork>,
    crossing: Crossing,
}

impl Sharing {
    /// The ways over ranks at these sites and PEs.
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
        let crossing = Crossing::new(&work, links);
        Self { heads, work, crossing }
    }

    pub(crate) fn heads(&self) -> &Heads {
        &self.heads
    }

    /// The number of shares into which to divide a vector of `length` elements of `element_bytes`
    /// each; `None` to reduce it whole, over the tree. Each head has a share, so that each gets
    /// something from all others of its site and sees whether their vectors have another length.
    pub(crate) fn shares(&self, length: usize, element_bytes: usize) -> Option<usize> {
        let most_heads = self.work.iter().map(|work| work.heads).max().unwrap_or_default();
        if most_heads < 2 || length < most_heads {
            return None;
        }
        let bytes = length as f64 * element_bytes as f64;
        let candidates = SHARES_EACH.iter().map(|each| (most_heads * each).min(length));
        let (time, shares) = candidates
            .map(|shares| (self.time_in_shares(bytes, shares), shares))
            .min_by(|one, other| one.0.partial_cmp(&other.0).unwrap_or(Ordering::Equal))?;
        (time < self.time_over_tree(bytes)).then_some(shares)
    }

    /// Predicted time over the tree, in seconds.
    fn time_over_tree(&self, bytes: f64) -> f64 {
        let up = self.work.iter().map(|work| {
            let link = work.inside;
            let levels = f64::from(levels(work.heads));
            // A head at the bottom sends what its PE has, and the leader gets the last parts.
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
        largest(up) + self.crossing.latency_s + self.across_s(bytes, 1.0) + messages + largest(down)
    }

    /// Predicted time in this number of shares, in seconds.
    fn time_in_shares(&self, bytes: f64, shares: usize) -> f64 {
        let each = |work: &SiteWork| shares.div_ceil(work.heads);
        let part = |work: &SiteWork| each(work) as f64 / shares as f64;
        let up = self.work.iter().map(|work| {
            let others = (work.heads - 1) as f64;
            work.inside.seconds_for(bytes * part(work) * others * work.of_head)
        });
        let down = self.work.iter().map(|work| {
            let others = (work.heads - 1) as f64;
            // A head sends its part to all others, and gets theirs.
            work.inside.seconds_for(bytes * (part(work) * others).max(1.0 - part(work)))
        });
        let messages = self.work.iter().map(|work| {
            let (each, others) = (each(work), work.heads - 1);
            let inside = 2 * (shares - each.min(shares)) + 2 * each * others;
            let across = 2 * each * self.work.len().saturating_sub(1);
            (inside + across) as f64 * MESSAGE_S
        });
        let inside = self.work.iter().filter(|work| work.heads > 1);
        let inside = inside.map(|work| 2.0 * work.inside.latency_s());
        let (up, down) = (largest(up), largest(down));
        let across = self.across_s(bytes, largest(self.work.iter().map(part)));
        // The shares of a head follow each other through these three steps, the first and the last
        // of which use the same links.
        let stages = self.work.iter().map(each).min().unwrap_or(1).max(1) as f64;
        let first = (up + across + down) / stages;
        let rest = (up + down).max(across) * (stages - 1.0) / stages;
        largest(inside) + self.crossing.latency_s + largest(messages) + first + rest
    }

    /// The time in seconds that the results of sites take to leave, if a head sends at most `part`
    /// of the vector to each other site.
    fn across_s(&self, bytes: f64, part: f64) -> f64 {
        let Crossing { link_s, node_s, .. } = self.crossing;
        let others = self.work.len().saturating_sub(1) as f64;
        bytes * link_s.max(node_s * part * others)
    }
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

/// Time in seconds from the bottom of the binomial tree over the heads of a site to its top.
fn latencies_s(work: &SiteWork) -> f64 {
    f64::from(work.heads.max(1).ilog2()) * work.inside.latency_s()
}

/// Number of messages at the top of a binomial tree over some heads.
fn levels(heads: usize) -> u32 {
    usize::BITS - heads.saturating_sub(1).leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_topology::{GridSpec, Hierarchy};

    /// One rank on each PE of a grid.
    fn sharing(emulate: &str) -> Sharing {
        let spec = GridSpec::from_emulate(emulate).unwrap();
        let layout = spec.layout();
        let links = SiteLinks::new(layout, &Hierarchy::from_grid(&spec), &[]);
        let places: Vec<_> = layout.pes().map(|pe| (layout.site_of(pe).0, pe.0)).collect();
        Sharing::new(&places, &links)
    }

    #[test]
    fn long_vectors_are_shared_and_short_ones_go_over_the_tree() {
        for grid in ["4x8,wan=20ms", "2x3,wan=20ms", "1x8"] {
            let sharing = sharing(grid);
            assert_eq!(sharing.shares(1, 8), None, "{grid}");
            let shares = sharing.shares(1 << 17, 8).unwrap();
            let heads = sharing.work[0].heads;
            assert!(shares.is_multiple_of(heads) && shares <= 8 * heads, "{grid}: {shares}");
        }
    }

    #[test]
    fn a_site_of_one_head_has_nothing_to_share() {
        assert_eq!(sharing("16x1,wan=20ms").shares(1 << 20, 8), None);
        assert_eq!(sharing("1x1").shares(1 << 20, 8), None);
    }

    #[test]
    fn a_vector_has_at_most_as_many_shares_as_elements_and_each_head_has_one() {
        // Elements of a megabyte.
        let sharing = sharing("2x8,wan=20ms");
        assert_eq!(sharing.shares(7, 1 << 20), None);
        assert!((8..=11).contains(&sharing.shares(11, 1 << 20).unwrap()));
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
    fn a_site_of_three_heads_has_a_tree_of_one_latency() {
        let sharing = sharing("2x3,wan=20ms");
        // Two messages to the leader, two between the leaders, and two from the leader.
        let expected = 0.02 + 2.0 * 50e-6 + 6.0 * MESSAGE_S;
        let found = sharing.time_over_tree(8.0);
        assert!((found - expected).abs() < 10e-6, "{found} s, not {expected} s");
        assert_eq!(sharing.shares(100, 8), None);
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
