//! Limits in the control of the job: main, pauses, and plans that made it slower.

use super::evidence::Evidence;
use super::limit::{Limit, LimitKind, SHARE_MIN};
use crate::quantity::{count, percent, time};
use crate::report::analysis::awaited::Awaited;
use crate::report::analysis::events::Rebalance;
use std::time::Duration;

/// Minimum loss of a bad plan, as a part of the step time: twice the gain below which plans count
/// as noise.
const LOSS_MIN: f64 = 0.02;

/// Returns the limits due to main, pauses and losses. [`bad_plan`] returns the one due to plans.
pub(crate) fn limits(evidence: &Evidence<'_>) -> Vec<Limit> {
    let all = [main(evidence), checkpoints(evidence), rebalances(evidence), losses(evidence)];
    all.into_iter().flatten().filter(|limit| limit.share >= SHARE_MIN).collect()
}

fn main(evidence: &Evidence<'_>) -> Option<Limit> {
    let share = evidence.share(Awaited::Main);
    let place = format!("main on {}", evidence.places.pe_name(0));
    let clause = "actors wait for main".to_owned();
    let because =
        "before main sent its messages, no actor computed and no message was under way".to_owned();
    Some(Limit::new(LimitKind::Main, place, share, clause).because(because))
}

fn mean(total_ns: u64, count: usize) -> String {
    time(Duration::from_nanos(total_ns / count.max(1) as u64))
}

fn checkpoints(evidence: &Evidence<'_>) -> Option<Limit> {
    let all = &evidence.events.checkpoints;
    let share = evidence.share(Awaited::Checkpoint);
    let mean = mean(all.iter().map(|it| it.stopped_ns).fold(0, u64::saturating_add), all.len());
    let number = count(evidence.events.checkpoint_count, "checkpoint");
    let clause = format!("the job stands still for {number} of {mean} on average");
    let place = "all PEs".to_owned();
    let because = "PEs were idle while checkpoints were made".to_owned();
    Some(Limit::new(LimitKind::Checkpoints, place, share, clause).because(because))
}

fn rebalances(evidence: &Evidence<'_>) -> Option<Limit> {
    let all = &evidence.events.rebalances;
    let share = evidence.share(Awaited::Rebalance);
    let mean = mean(all.iter().map(|it| it.took_ns).fold(0, u64::saturating_add), all.len());
    let number = count(evidence.events.rebalance_count, "rebalance");
    let clause = format!("the job stands still for {number} of {mean} on average");
    let because = "PEs were idle while actors moved".to_owned();
    Some(Limit::new(LimitKind::Rebalances, "all PEs".to_owned(), share, clause).because(because))
}

fn losses(evidence: &Evidence<'_>) -> Option<Limit> {
    let share = evidence.share(Awaited::Recovery);
    let clause = "the job stands still after nodes were lost".to_owned();
    Some(Limit::new(LimitKind::Losses, "all PEs".to_owned(), share, clause))
}

/// Plans that made the job slower.
pub(crate) struct BadPlan {
    pub(crate) limit: Limit,
    /// Whether the job measured the loss. Otherwise the loss is an upper bound, since it may have
    /// other causes.
    pub(crate) is_measured: bool,
}

/// Returns the most costly plan. The share of its limit is that of all plans that made steps
/// longer.
pub(crate) fn bad_plan(evidence: &Evidence<'_>) -> Option<BadPlan> {
    let [begin, until] = evidence.profile.active;
    let end = until.saturating_sub(begin).max(1) as f64;
    let lost = |rebalance: &Rebalance| {
        let loss = -rebalance.gain().unwrap_or(0.0);
        let in_effect = rebalance.until_ns.saturating_sub(rebalance.at_ns) as f64;
        // A step took 1 before the plan, and 1 + loss after it.
        if loss >= LOSS_MIN { loss / (1.0 + loss) * in_effect / end } else { 0.0 }
    };
    let all = &evidence.events.rebalances;
    let share: f64 = all.iter().map(lost).sum();
    let worst = all.iter().max_by(|a, b| lost(a).total_cmp(&lost(b)))?;
    if share < SHARE_MIN {
        return None;
    }
    let at = time(Duration::from_nanos(worst.at_ns));
    let loss = -worst.gain().unwrap_or(0.0);
    let place = format!("rebalance by {} at {at}", worst.strategy);
    let is_measured = worst.realised_gain.is_some();
    let clause = match is_measured {
        true => format!("the {place} made steps {} longer", percent(loss)),
        false => {
            format!("after the {place} work per second fell by {}", percent(loss / (1.0 + loss)))
        }
    };
    let how = match is_measured {
        true => "as the job measured",
        false => {
            "by the work per second before and after it, so far as uneven loads and links explain it"
        }
    };
    let bad = count(all.iter().filter(|it| lost(it) > 0.0).count(), "rebalance");
    let because = format!("{how}; {bad} made the job slower");
    let limit = Limit::new(LimitKind::BadPlan, place, share, clause).because(because);
    Some(BadPlan { limit, is_measured })
}
