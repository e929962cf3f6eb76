//! Questions to the gate and its answers.

use gridspan_topology::{Bandwidth, SiteId, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// The constants of a [`Gate`](super::Gate), by the rules in the documentation of its module.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GateConfig {
    /// Rule 2: minimum gain, as a part of a step. Default 0.01.
    pub gain_min: f64,
    /// Rule 3: minimum gain, as a multiple of the plan's cost. At least 1. Default 1.25.
    pub safety: f64,
    /// Rule 4: part of the cost that must have been lost before actors move away from a passing
    /// load. Default 0.5.
    pub wait: f64,
    /// `wait` after two episodes have been seen. Default 0.1.
    pub wait_when_known: f64,
    /// Rule 5: maximum part of the job's time that balancing may cost. Default 0.03.
    pub regret_max: f64,
    /// Maximum part of the job's time that may be spent on measuring and planning before the next
    /// plan is made. Default 0.01.
    pub planning_max: f64,
    /// Rule 5: minimum gain, as a part of a step, that counts as large. Default 0.25.
    pub gain_large: f64,
    /// Rule 5: a plan of a large gain may exceed the budget if it saves more than this multiple of
    /// the cost at stake. Default 1.
    pub return_min: f64,
    /// Cost of any plan, even if little moves. Default 1 ms.
    pub fixed_cost: Duration,
    /// Bandwidth at which state moves between a node and others of its site. Default 1 Gbit/s.
    pub inside: Bandwidth,
    /// Total bandwidth at which state moves between sites. Default 100 Mbit/s.
    pub between_sites: Bandwidth,
    /// Number of steps after which a plan is judged. The first observation after the moves does not
    /// count if it has few steps. Default 5.
    pub steps_to_judge: u32,
    /// Minimum time for which the gate watches these steps. The length of the window before the
    /// plan, or of 50 usual steps, takes its place if it is less. Default 2 s.
    pub time_to_judge: Duration,
    /// Time for which no plan passes after a plan that made steps longer. Ten times the time for
    /// which this plan was in effect takes its place if it is less. Each mistake in a row, also the
    /// first, doubles it. Default 5 s.
    pub pause_after_mistake: Duration,
}

impl Default for GateConfig {
    fn default() -> Self {
        Self {
            gain_min: 0.01,
            safety: 1.25,
            wait: 0.5,
            wait_when_known: 0.1,
            regret_max: 0.03,
            planning_max: 0.01,
            gain_large: 0.25,
            return_min: 1.0,
            fixed_cost: Duration::from_millis(1),
            inside: Bandwidth::from_bits_per_second(1_000_000_000),
            between_sites: Bandwidth::from_bits_per_second(100_000_000),
            steps_to_judge: 5,
            time_to_judge: Duration::from_secs(2),
            pause_after_mistake: Duration::from_secs(5),
        }
    }
}

/// A plan as the gate sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// The present time.
    pub now: Time,
    /// Measured time of a step in the window.
    pub step: Duration,
    /// Median time of the steps since actors last moved, with which the steps after the plan are
    /// compared.
    pub step_usual: Duration,
    /// Time that three quarters of those steps did not exceed.
    pub step_slow: Duration,
    /// Length of the window.
    pub window: Duration,
    /// Predicted time of a step with the present placement.
    pub predicted_now: Duration,
    /// Predicted time of a step after the plan.
    pub predicted_then: Duration,
    /// For each site, the bytes that its busiest node would send to others of the site, or receive
    /// from them.
    pub bytes_inside: BTreeMap<SiteId, u64>,
    /// Bytes that would move between sites.
    pub bytes_between_sites: u64,
    /// Whether the cause is likely to pass, as other users' load does; the job's own loads last.
    pub is_passing: bool,
}

impl Proposal {
    /// Returns the part of a measured step that the plan is predicted to save. Time that the model
    /// cannot explain, such as waiting for something else, is not expected to change.
    pub fn gain(&self) -> f64 {
        let [step, now, then] =
            [self.step, self.predicted_now, self.predicted_then].map(|time| time.as_secs_f64());
        if step > 0.0 { (now - then).min(step) / step } else { 0.0 }
    }
}

/// The gate's decision about a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// The plan should be carried out; call [`Gate::carried_out`](super::Gate::carried_out) or
    /// [`Gate::withdrawn`](super::Gate::withdrawn) next.
    Pass {
        /// Expected saving.
        expected: Duration,
        /// Expected cost.
        cost: Duration,
    },
    /// The plan should not be carried out now.
    Refuse(Refusal),
}

/// Reason why a plan should not be carried out now.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Refusal {
    /// The last plan has not been judged yet.
    StillJudging,
    /// The gain is within the noise (rule 2).
    TooLittle {
        /// Part of a step that would be saved, multiplied by the trust in predictions.
        gain: f64,
    },
    /// The plan would cost more than it brings (rule 3).
    DoesNotPay {
        /// Expected saving while its cause lasts.
        expected: Duration,
        /// Expected cost.
        cost: Duration,
    },
    /// The cause may pass by itself (rule 4).
    Waiting {
        /// Time lost so far by not moving.
        lost: Duration,
        /// Time that must be lost before the plan passes.
        needed: Duration,
    },
    /// Balancing would have cost too much if this were a mistake (rule 5).
    OverBudget {
        /// Total cost of balancing if this were a mistake.
        at_stake: Duration,
        /// Maximum cost allowed.
        budget: Duration,
    },
    /// The last plan made steps longer.
    AfterMistake {
        /// Time from which plans may pass again.
        until: Time,
    },
}

/// Outcome of a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Outcome {
    /// Predicted part of a step that is saved.
    pub predicted: f64,
    /// Part of a step that was saved; negative if steps became longer. 0.2 means a fifth.
    pub realised: f64,
    /// Time of a step after the plan.
    pub step: Duration,
    /// Whether the inverse of the plan should be carried out.
    pub should_undo: bool,
}
