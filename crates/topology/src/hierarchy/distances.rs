//! Round trips between clusters, pair by pair.
//!
//! A hierarchy has one round trip for all pairs of clusters of two groups, which is enough where
//! distances are those of a tree. On the wide area they are not: of three sites, two may be far
//! from each other and both close to the third. Choosing the site that relays a message needs each
//! pair.

use super::tree::Hierarchy;
use crate::id::{GroupId, NodeId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The median measured round trip between the nodes of each pair of groups of a hierarchy's last
/// level.
///
/// ```
/// use gridspan_topology::{Distances, GridSpec, Hierarchy, NodeId};
/// use std::time::Duration;
///
/// let hierarchy = Hierarchy::from_grid(&GridSpec::from_emulate("2x2,wan=32ms")?);
/// let measured = [62, 64, 66].map(|ms| (NodeId(0), NodeId(2), Duration::from_millis(ms)));
/// let distances = Distances::new(&hierarchy, measured.into_iter());
/// let medians: Vec<Duration> = distances.medians().map(|(_, rtt)| rtt).collect();
/// assert_eq!(medians, [Duration::from_millis(64)]);
/// # Ok::<(), gridspan_topology::EmulateError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distances {
    /// By pair of groups, the lower first.
    medians: BTreeMap<(GroupId, GroupId), Duration>,
    /// Pairs of [ends](Hierarchy::ends), the lower first, between which the distance is not
    /// uniform.
    uneven: BTreeSet<(GroupId, GroupId)>,
}

impl Distances {
    /// Maximum number of groups of the last level. With more, no distances are kept, because there
    /// is one for each pair of groups.
    pub const GROUPS_MAX: usize = 64;
    /// Two round trips are equal if they differ by less than this fraction, or by less than
    /// [`SAME_MIN`](Self::SAME_MIN).
    const SAME: f64 = 0.2;
    const SAME_MIN: Duration = Duration::from_micros(200);

    /// Creates the distances from measured pairs of nodes, each given once. Pairs with a node
    /// outside the hierarchy are ignored.
    pub fn new(
        hierarchy: &Hierarchy,
        measured: impl Iterator<Item = (NodeId, NodeId, Duration)>,
    ) -> Self {
        let last = hierarchy.depth() - 1;
        if hierarchy.groups_at(last).len() > Self::GROUPS_MAX {
            return Self::default();
        }
        let mut all: BTreeMap<(GroupId, GroupId), Vec<Duration>> = BTreeMap::new();
        for (a, b, rtt) in measured {
            let groups = hierarchy.group_of(a, last).zip(hierarchy.group_of(b, last));
            if let Some((one, other)) = groups {
                all.entry((one.min(other), one.max(other))).or_default().push(rtt);
            }
        }
        let median = |mut values: Vec<Duration>| {
            let middle = (values.len() - 1) / 2;
            *values.select_nth_unstable(middle).1
        };
        let medians = all.into_iter().map(|(pair, values)| (pair, median(values))).collect();
        let uneven = uneven(hierarchy, &medians);
        Self { medians, uneven }
    }

    /// Returns the median round trip between the nodes of each pair of groups of the last level,
    /// in ascending order of the pairs. The lower group of a pair comes first.
    pub fn medians(&self) -> impl Iterator<Item = ((GroupId, GroupId), Duration)> {
        self.medians.iter().map(|(&pair, &rtt)| (pair, rtt))
    }

    /// Whether the distances between any two [ends](Hierarchy::ends) are equal, as in
    /// [`are_even`](Self::are_even), so that the hierarchy alone gives all distances.
    pub fn is_even(&self) -> bool {
        self.uneven.is_empty()
    }

    /// Whether all measured distances between the [ends](Hierarchy::ends) of two nodes are equal.
    /// Only then does knowledge of a link between two nodes of these groups apply to all their
    /// nodes.
    pub fn are_even(&self, hierarchy: &Hierarchy, a: NodeId, b: NodeId) -> bool {
        let ends = hierarchy.ends(a, b);
        ends.is_none_or(|(one, other)| !self.uneven.contains(&(one.min(other), one.max(other))))
    }
}

fn uneven(
    hierarchy: &Hierarchy,
    medians: &BTreeMap<(GroupId, GroupId), Duration>,
) -> BTreeSet<(GroupId, GroupId)> {
    let leader = |group| hierarchy.group(group).leader();
    let mut ranges: BTreeMap<(GroupId, GroupId), (Duration, Duration)> = BTreeMap::new();
    for (&(one, other), &rtt) in medians {
        let Some((here, there)) = hierarchy.ends(leader(one), leader(other)) else { continue };
        let range = ranges.entry((here.min(there), here.max(there))).or_insert((rtt, rtt));
        *range = (range.0.min(rtt), range.1.max(rtt));
    }
    let differ = |&(least, most): &(Duration, Duration)| {
        most - least > least.mul_f64(Distances::SAME).max(Distances::SAME_MIN)
    };
    ranges.into_iter().filter(|(_, range)| differ(range)).map(|(ends, _)| ends).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::infer::Inference;

    /// Three sites of two nodes: any two are 60 ms apart, except the last, which is 4 ms from both
    /// others.
    fn rtt(a: NodeId, b: NodeId) -> Duration {
        let (one, other) = (a.0.min(b.0) / 2, a.0.max(b.0) / 2);
        Duration::from_millis(match (one, other) {
            _ if one == other => 1,
            (_, 2) => 4,
            _ => 60,
        })
    }

    #[test]
    fn each_pair_of_clusters_has_its_own_median() {
        let mut inference = Inference::new(6, 1);
        for (a, b) in inference.next_probes() {
            inference.answer(a, b, Some(rtt(a, b)));
        }
        let hierarchy = inference.clone().finish();
        let distances = Distances::new(&hierarchy, inference.measured());

        let last = hierarchy.depth() - 1;
        let nodes: Vec<NodeId> = hierarchy.nodes().collect();
        let medians: BTreeMap<_, _> = distances.medians().collect();
        for &a in &nodes {
            for &b in nodes.iter().filter(|&&b| b.0 / 2 != a.0 / 2) {
                let groups = [a, b].map(|node| hierarchy.group_of(node, last).unwrap());
                let pair = (groups[0].min(groups[1]), groups[0].max(groups[1]));
                assert_eq!(medians[&pair], rtt(a, b), "{a} {b}");
                // The third site shares a group with one of the first two. The distances from the
                // other one to this group are uneven.
                let (here, there) = hierarchy.ends(a, b).unwrap();
                let sites = |group| hierarchy.group(group).members().len() / 2;
                let is_even = (sites(here), sites(there)) == (1, 1);
                assert_eq!(distances.are_even(&hierarchy, a, b), is_even, "{a} {b}");
            }
        }
    }
}
