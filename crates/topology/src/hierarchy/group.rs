//! What a group and a level of a hierarchy say of themselves.

use crate::id::{GroupId, NodeId};
use crate::units::{Bandwidth, Latency};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The round-trip times of many pairs. The ends are the 5th and the 95th percentile, so that one
/// slow pair in twenty does not make the range useless.
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
    /// The percentiles of round trips in milliseconds; `None` without any. Orders them anew.
    pub(crate) fn of_milliseconds(rtts: &mut [f32]) -> Option<Self> {
        let last = rtts.len().checked_sub(1)?;
        let mut at = |part: f64| {
            let rank = (last as f64 * part).round() as usize;
            from_milliseconds(*rtts.select_nth_unstable_by(rank, f32::total_cmp).1)
        };
        Some(Self { min: at(0.05), median: at(0.5), max: at(0.95) })
    }

    /// Half of the median: what one message takes.
    pub fn one_way(&self) -> Latency {
        Latency(self.median / 2)
    }
}

/// A round trip in milliseconds, which are not negative.
pub(crate) fn from_milliseconds(ms: f32) -> Duration {
    Duration::from_nanos((f64::from(ms) * 1e6).round() as u64)
}

/// The bandwidths of many links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BandwidthRange {
    /// The least.
    pub min: Bandwidth,
    /// That of the link in the middle.
    pub median: Bandwidth,
    /// The most.
    pub max: Bandwidth,
}

impl BandwidthRange {
    /// The range of these bandwidths; `None` without any.
    pub fn of(mut bandwidths: Vec<Bandwidth>) -> Option<Self> {
        bandwidths.sort_unstable();
        let (min, max) = (*bandwidths.first()?, *bandwidths.last()?);
        Some(Self { min, median: bandwidths[(bandwidths.len() - 1) / 2], max })
    }
}

/// One scale of distance.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Level {
    /// The round trips between nodes that share a group of this level but none of the next.
    pub rtt: Option<RttRange>,
    /// The bandwidth between such nodes, where it is known.
    pub bandwidth: Option<BandwidthRange>,
    /// How clearly this level differs from the one above, `0.0..=1.0`; 1 for what the user said.
    pub confidence: f64,
}

/// Nodes that are near each other.
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
    /// an earlier child `b` at `a * (a - 1) / 2 + b`. Empty if the group has too many.
    pub(super) between: Vec<u64>,
}

impl Group {
    /// The level it is of; 0 is the whole.
    pub fn level(&self) -> usize {
        self.level
    }

    /// The group of the level above that it is part of; `None` for the whole.
    pub fn parent(&self) -> Option<GroupId> {
        self.parent
    }

    /// The groups of the next level that it consists of; none at the last level.
    pub fn children(&self) -> &[GroupId] {
        &self.children
    }

    /// Its nodes in order; at least one, unless it is the whole of nothing.
    pub fn members(&self) -> &[NodeId] {
        &self.members
    }

    /// The node that speaks for it: the first that is not known to be busy. Node 0 of an empty one.
    pub fn leader(&self) -> NodeId {
        self.leader
    }

    /// The user's name of the site it is.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The round trips between members that share no smaller group. `None` if there are no such
    /// pairs or none was measured.
    pub fn rtt(&self) -> Option<RttRange> {
        self.rtt
    }

    /// The bandwidth between such members, where it is known.
    pub fn bandwidth(&self) -> Option<BandwidthRange> {
        self.bandwidth
    }

    /// The part of the measurements with one end in it that agree with where it ends, `0.0..=1.0`;
    /// one half without any, 1 for what the user said.
    pub fn confidence(&self) -> f64 {
        self.confidence
    }
}

/// The place of a pair of children in [`Group::between`].
pub(super) fn between_place(a: usize, b: usize) -> usize {
    let (low, high) = (a.min(b), a.max(b));
    high * high.saturating_sub(1) / 2 + low
}
