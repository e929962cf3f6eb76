//! The broadcasts of one root: its predicted next message and the contests for its sizes.

use super::command::AdvisorCommand;
use super::contest::Contest;
use super::predict::Predictor;
use crate::model::{BroadcastPlan, PlanId};
use gridspan_topology::Time;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

/// Longest predicted gap between broadcasts, in seconds, since durations are bounded.
const GAP_MAX_S: f64 = 1e6;

/// The state of one root.
#[derive(Clone, Debug, Default)]
pub(super) struct Root {
    sizes: Predictor,
    gaps: Predictor,
    last: Option<Time>,
    /// The version of the root's latest plan.
    pub(super) version: u64,
    /// The plan that all nodes know from the beginning.
    pub(super) default_plan: Option<BroadcastPlan>,
    /// The contests by size, in steps of the square root of two.
    pub(super) contests: BTreeMap<u32, Contest>,
}

impl Root {
    /// Notes that a message of `bytes` began.
    pub(super) fn note(&mut self, began: Time, bytes: u64) {
        self.sizes.observe(bytes as f64);
        if let Some(last) = self.last {
            self.gaps.observe(began.since(last).as_secs_f64());
        }
        self.last = Some(began);
    }

    /// Whether the root has sent at most one message.
    pub(super) fn is_new(&self) -> bool {
        self.gaps.is_empty()
    }

    /// Returns whether the next message is late, and when it is predicted to begin. A root whose
    /// message is late may have finished, so it sorts behind the others.
    pub(super) fn due(&self, now: Time) -> (bool, Option<Time>) {
        let gap_s = self.gaps.forecast().map_or(0.0, |gap| gap.value.min(GAP_MAX_S));
        let next = self.last.map(|last| last + Duration::from_secs_f64(gap_s));
        (next.is_none_or(|next| next < now), next)
    }

    /// Returns a size for which no plans were made under the present estimate: the predicted size,
    /// its neighbours, then the sizes used before. At most `sizes_max` predicted sizes count, since
    /// no more are kept: each further one would replace one that was just planned for, without end.
    pub(super) fn urgent(&self, estimate: u64, sizes_max: usize) -> Option<u32> {
        let is_due = |bucket: &u32| {
            let contest = self.contests.get(bucket);
            contest.is_none_or(|contest| contest.searched != Some(estimate))
        };
        let next = self.sizes.forecast().map(|forecast| bucket(forecast.value as u64));
        let around = next.into_iter().flat_map(|next| {
            [0, -1, 1].into_iter().map(move |step| next.saturating_add_signed(step))
        });
        around.take(sizes_max).chain(self.contests.keys().copied()).find(is_due)
    }

    /// Decides all contests for which a broadcast was observed since their last decision.
    pub(super) fn decide(&mut self, gain_min: f64) -> Vec<AdvisorCommand> {
        let open = self.contests.values_mut().filter(|contest| contest.is_open);
        open.filter_map(|contest| contest.decide(gain_min)).collect()
    }

    /// Adds the contest for a size. If this makes more than `sizes_max`, drops the least recently
    /// used size and returns its plans.
    pub(super) fn keep(&mut self, bucket: u32, contest: Contest, sizes_max: usize) -> Vec<PlanId> {
        self.contests.insert(bucket, contest);
        if self.contests.len() <= sizes_max {
            return Vec::new();
        }
        let others = self.contests.iter().filter(|(other, _)| **other != bucket);
        // Of sizes that were last used at the same time, the most different one is dropped.
        // Otherwise predicted sizes could replace each other without end.
        let rank = |other: u32, used: Time| (used, Reverse(other.abs_diff(bucket)));
        let oldest = others.min_by_key(|&(&other, contest)| rank(other, contest.used));
        let oldest = oldest.map(|(&oldest, _)| oldest);
        let dropped = oldest.and_then(|oldest| self.contests.remove(&oldest));
        let ways = dropped.iter().flat_map(|contest| contest.ways());
        // The default plan stays, since all nodes know it.
        ways.map(|way| way.plan.id()).filter(|plan| plan.version > 0).collect()
    }
}

/// The bucket of a size, in steps of the square root of two.
pub(super) fn bucket(bytes: u64) -> u32 {
    (2.0 * (bytes.max(1) as f64).log2()).round() as u32
}

/// The size that the plans of a bucket are made for, in bytes.
pub(super) fn size(bucket: u32) -> u64 {
    2_f64.powf(f64::from(bucket) / 2.0).round() as u64
}
