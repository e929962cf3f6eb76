//! Groups and levels of a hierarchy.

use crate::id::{GroupId, NodeId};
use crate::units::{Bandwidth, Latency};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The round-trip times of many pairs. `min` and `max` are the 5th and the 95th percentile, so that
/// one slow pair in twenty does not make the range useless.
///
/// ```
/// use gridspan_topology::{Latency, RttRange};
/// use std::time::Duration;
///
/// let [min, median, max] = [60, 64, 70].map(Duration::from_millis);
/// assert_eq!(RttRange { min, median, max }.one_way(), Latency::from_millis(32));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RttRange {
    /// All but a twentieth of the pairs take at least this long.
    pub min: Duration,
    /// Half of the pairs take at most this long.
    pub median: Duration,
    /// All but a twentieth of the pairs take at most this long.
    pub max: Duration,
}

impl RttRange {
    /// Returns the percentiles of round trips in milliseconds, or `None` if there are none.
    /// Reorders them.
    pub(crate) fn of_milliseconds(rtts: &mut [f32]) -> Option<Self> {
        let last = rtts.len().checked_sub(1)?;
        let mut at = |part: f64| {
            let rank = (last as f64 * part).round() as usize;
            from_milliseconds(*rtts.select_nth_unstable_by(rank, f32::total_cmp).1)
        };
        Some(Self { min: at(0.05), median: at(0.5), max: at(0.95) })
    }

    /// Returns half of the median: the latency of one message.
    pub fn one_way(&self) -> Latency {
        Latency(self.median / 2)
    }
}

/// Converts a round trip in milliseconds, which is not negative.
pub(crate) fn from_milliseconds(ms: f32) -> Duration {
    Duration::from_nanos((f64::from(ms) * 1e6).round() as u64)
}

/// The bandwidths of many links.
///
/// ```
/// use gridspan_topology::{Bandwidth, BandwidthRange};
///
/// let links = [10, 100, 1_000].map(|mbit| Bandwidth::from_bits_per_second(mbit * 1_000_000));
/// let range = BandwidthRange::of(links.to_vec());
/// assert_eq!(range.map(|range| range.median), Some(links[1]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BandwidthRange {
    /// The least bandwidth.
    pub min: Bandwidth,
    /// The median bandwidth.
    pub median: Bandwidth,
    /// The greatest bandwidth.
    pub max: Bandwidth,
}

impl BandwidthRange {
    /// Returns the range of these bandwidths, or `None` if there are none.
    pub fn of(mut bandwidths: Vec<Bandwidth>) -> Option<Self> {
        bandwidths.sort_unstable();
        let (min, max) = (*bandwidths.first()?, *bandwidths.last()?);
        Some(Self { min, median: bandwidths[(bandwidths.len() - 1) / 2], max })
    }
}

/// One scale of distance.
///
/// ```
/// use gridspan_topology::{GridSpec, Hierarchy};
///
/// let hierarchy = Hierarchy::from_grid(&GridSpec::from_emulate("2x4,wan=32ms")?);
/// let medians: Vec<_> = hierarchy
///     .levels()
///     .map(|level| level.rtt.map(|rtt| rtt.median.as_millis()))
///     .collect();
/// assert_eq!(medians, [Some(64), Some(0)]); // between sites, and inside
/// # Ok::<(), gridspan_topology::EmulateError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Level {
    /// The round trips between nodes that share a group of this level but none of the next.
    pub rtt: Option<RttRange>,
    /// The bandwidth between such nodes, if it is known.
    pub bandwidth: Option<BandwidthRange>,
    /// How clearly this level differs from the one above, `0.0..=1.0`; 1 if the user described it.
    pub confidence: f64,
}

/// Nodes that are close to each other.
///
/// ```
/// use gridspan_topology::{GridSpec, Hierarchy, NodeId};
///
/// let hierarchy = Hierarchy::from_grid(&GridSpec::from_emulate("2x2,wan=32ms")?);
/// let whole = hierarchy.group(hierarchy.root());
/// let site = hierarchy.group(whole.children()[1]);
/// assert_eq!(site.members(), [NodeId(2), NodeId(3)]);
/// # Ok::<(), gridspan_topology::EmulateError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    pub(super) level: usize,
    pub(super) parent: Option<GroupId>,
    pub(super) children: Vec<GroupId>,
    pub(super) members: Vec<NodeId>,
    pub(super) leader: NodeId,
    pub(super) name: Option<String>,
    pub(super) rtt: Option<RttRange>,
    pub(super) bandwidth: Option<BandwidthRange>,
    pub(super) confidence: f64,
    /// The median round trip of each pair of children, in nanoseconds, 0 if unknown: child `a` and
    /// an earlier child `b` at `a * (a - 1) / 2 + b`. Empty if the group has too many children.
    pub(super) between: Vec<u64>,
}

impl Group {
    /// Returns the level of the group; 0 is the whole.
    pub fn level(&self) -> usize {
        self.level
    }

    /// Returns the group of the level above that contains this one, or `None` for the whole.
    pub fn parent(&self) -> Option<GroupId> {
        self.parent
    }

    /// Returns the groups of the next level that this one consists of; none at the last level.
    pub fn children(&self) -> &[GroupId] {
        &self.children
    }

    /// Returns the nodes of the group in order: at least one, except for the whole of an empty
    /// hierarchy.
    pub fn members(&self) -> &[NodeId] {
        &self.members
    }

    /// Returns the node that represents the group: the first that is not known to be busy, or the
    /// first if all are; node 0 if the group is empty.
    pub fn leader(&self) -> NodeId {
        self.leader
    }

    /// Returns the user's name of the site or cluster, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the round trips between members that share no smaller group, or `None` if there are
    /// no such pairs or none was measured.
    pub fn rtt(&self) -> Option<RttRange> {
        self.rtt
    }

    /// Returns the bandwidth between members that share no smaller group, if it is known.
    pub fn bandwidth(&self) -> Option<BandwidthRange> {
        self.bandwidth
    }

    /// Returns how well the measurements support the group, in `0.0..=1.0`; 1 if the user described
    /// it. This is the fraction of the measurements inside the group that are short enough, and of
    /// those between it and other groups of its parent that are long enough, by Laplace's rule,
    /// which gives one half without measurements.
    pub fn confidence(&self) -> f64 {
        self.confidence
    }
}

/// Returns the position of a pair of children in [`Group::between`].
pub(super) fn between_place(a: usize, b: usize) -> usize {
    let (low, high) = (a.min(b), a.max(b));
    high * high.saturating_sub(1) / 2 + low
}
