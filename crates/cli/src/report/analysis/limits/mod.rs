//! What limited a run.
//!
//! Each limit has a share of the time of all PEs: the most that would be saved without the limit.
//! Limits are ordered by their shares.
//!
//! | module | limits |
//! | --- | --- |
//! | `computing` | slow and loaded PEs for which others wait; chains; PEs without tasks |
//! | `imbalance` | loads: hot actors, floods, uneven PEs and sites |
//! | `messages` | links, and the cost of messages |
//! | `control` | main, pauses, bad plans |
//!
//! `evidence` has the facts, and `limit` the kinds of limits.

mod computing;
mod control;
mod evidence;
mod imbalance;
mod limit;
mod messages;
#[cfg(test)]
mod programs;
#[cfg(test)]
mod tests;

pub(crate) use evidence::Evidence;
pub(crate) use limit::{Limit, LimitKind};

use crate::quantity::percent;
use control::BadPlan;
use serde::Serialize;

/// Minimum share of the first limit if it is what limited the run. Measurements of the same job
/// vary by up to a tenth.
pub(crate) const LIMITED_MIN: f64 = 0.1;
/// Minimum share of a listed limit.
const LISTED_MIN: f64 = 0.02;
/// Minimum share of handlers in the time of all PEs, in a healthy run.
const HEALTHY_MIN: f64 = 0.5;

/// The outcome of the diagnosis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// The first limit limited the run.
    Limited,
    /// PEs computed for most of the time, and no limit took much.
    Healthy,
    /// It is not known what limited the run.
    Unknown,
}

/// What limited a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Diagnosis {
    /// The outcome.
    pub(crate) verdict: Verdict,
    /// The outcome in one sentence.
    pub(crate) sentence: String,
    /// Share of the time of all PEs in handlers.
    pub(crate) busy_share: f64,
    /// Share of the time of all PEs in waits without a known cause.
    pub(crate) unknown_share: f64,
    /// The limits, the greatest first.
    pub(crate) limits: Vec<Limit>,
}

impl Diagnosis {
    /// Concludes the diagnosis from evidence.
    pub(crate) fn of(evidence: &Evidence<'_>) -> Self {
        let (mut limits, unexplained) = computing::limits(evidence);
        let is_of_tasks = limits.iter().any(|limit| limit.kind == LimitKind::StarvedTasks);
        // Idle PEs of a job of tasks count as waiting for tasks, not for an unknown message.
        let unknown = if is_of_tasks { 0.0 } else { evidence.unknown_share() };
        let waits = UnknownWaits { no_reason: unknown, each_other: unexplained };
        limits.extend(messages::limits(evidence));
        limits.extend(control::limits(evidence));
        if let Some(BadPlan { mut limit, is_measured }) = control::bad_plan(evidence) {
            let taken = give_to(&limit, &mut limits);
            if !is_measured {
                // Other limits may have reduced the work as well.
                limit.share = taken;
            }
            limits.push(limit);
        }
        limits.retain(|limit| limit.share.is_finite() && limit.share >= LISTED_MIN);
        limits.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.kind.cmp(&b.kind)));
        let busy_share = evidence.share_of(evidence.profile.total().busy_ns as f64);
        let unknown_share = waits.total();
        let first = limits.first().map_or(0.0, |limit| limit.share);
        let verdict = match () {
            () if unknown_share >= LIMITED_MIN && unknown_share > first => Verdict::Unknown,
            () if first >= LIMITED_MIN => Verdict::Limited,
            () if busy_share >= HEALTHY_MIN => Verdict::Healthy,
            () => Verdict::Unknown,
        };
        let sentence = sentence(verdict, &limits, busy_share, waits);
        Self { verdict, sentence, busy_share, unknown_share, limits }
    }
}

/// Shares of waits that no limit explains.
#[derive(Clone, Copy)]
struct UnknownWaits {
    /// Waits without a recorded reason.
    no_reason: f64,
    /// Waits for PEs that do not have more work than others.
    each_other: f64,
}

impl UnknownWaits {
    fn total(self) -> f64 {
        self.no_reason + self.each_other
    }

    fn described(self) -> String {
        let of_all = "of the time of all PEs";
        match self.each_other > self.no_reason {
            true => format!(
                "PEs waited for each other for {} {of_all}, for a different PE each time",
                percent(self.each_other)
            ),
            false => {
                let part = percent(self.no_reason);
                format!("PEs waited for {part} {of_all} for no recorded reason")
            }
        }
    }
}

/// Subtracts the cost of a bad plan from the limits that are its effects, uneven loads and messages
/// over links, the greatest first. Returns the share that was subtracted.
fn give_to(plan: &Limit, limits: &mut [Limit]) -> f64 {
    let is_effect = |limit: &&mut Limit| {
        matches!(
            limit.kind,
            LimitKind::Imbalance
                | LimitKind::SiteImbalance
                | LimitKind::MovingImbalance
                | LimitKind::HotActor
                | LimitKind::SlowHandlers
                | LimitKind::SlowLink
                | LimitKind::NarrowLink
                | LimitKind::LinkDelay
        )
    };
    let mut left = plan.share;
    let mut effects: Vec<&mut Limit> = limits.iter_mut().filter(is_effect).collect();
    effects.sort_by(|a, b| b.share.total_cmp(&a.share));
    for effect in effects {
        let part = effect.share.min(left);
        effect.share -= part;
        left -= part;
    }
    plan.share - left
}

fn sentence(verdict: Verdict, limits: &[Limit], busy: f64, unknown: UnknownWaits) -> String {
    let of_all = "of the time of all PEs";
    match (verdict, limits.first()) {
        (Verdict::Limited, Some(limit)) => {
            let Limit { clause, share, .. } = limit;
            format!("What limited the run: {clause}; that took {} {of_all}.", percent(*share))
        }
        (Verdict::Healthy, first) => {
            let most = first.map_or(0.0, |limit| limit.share);
            let rest = match first {
                Some(_) => format!("the greatest limit took {}", percent(most)),
                None => "nothing limited it".to_owned(),
            };
            format!("The run is healthy: handlers took {} {of_all}, and {rest}.", percent(busy))
        }
        (_, first) => {
            let known = first.map_or_else(String::new, |limit| {
                format!(
                    "; the greatest known limit took {}: {}",
                    percent(limit.share),
                    limit.clause
                )
            });
            match unknown.total() >= LIMITED_MIN {
                true => format!("What limited the run is unknown: {}{known}.", unknown.described()),
                false => format!(
                    "What limited the run is unknown: handlers took {} {of_all}, and no limit took \
                     more than {}{known}.",
                    percent(busy),
                    percent(LIMITED_MIN)
                ),
            }
        }
    }
}
