//! What the gate is asked and what it answers.

use gridspan_topology::{Bandwidth, Time};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The constants of a [`Gate`](super::Gate), by the rules in the head of its module.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GateConfig {
    /// Rule 2: the least gain, as a part of a step. Default 0.01.
    pub gain_min: f64,
    /// Rule 3: how many times its cost a plan must bring. At least 1. Default 1.25.
    pub safety: f64,
    /// Rule 4: the part of the cost that must have been lost before passing loads are fled. Default
    /// 0.5.
    pub wait: f64,
    /// The same after two episodes have been seen. Default 0.1.
    pub wait_when_known: f64,
    /// Rule 5: the part of the job that balancing may cost at most. Default 0.03.
    pub regret_max: f64,
    /// The part of the job that may be spent on measuring and planning before the next plan is
    /// made. Default 0.01.
    pub planning_max: f64,
    /// Rule 5, too: a gain of this part of a step is large. Default 0.25.
    pub gain_large: f64,
    /// More may be at stake for a large gain if it brings so many times that. Default 1.
    pub return_min: f64,
    /// What any plan costs, however little moves. Default 1 ms.
    pub fixed_cost: Duration,
    /// How fast state moves between a node and others of its site. Default 1 Gbit/s.
    pub inside: Bandwidth,
    /// How fast state moves between sites, all together. Default 100 Mbit/s.
    pub between_sites: Bandwidth,
    /// After how many steps a plan is judged, apart from the first ones. Default 5.
    pub steps_to_judge: u32,
    /// For how long they must have been watched, or as long as the steps before were, if that is
    /// less. Default 2 s.
    pub time_to_judge: Duration,
    /// How long no plan passes after one that made steps longer, or ten times as long as that one
    /// was in effect, if that is less; doubled with each further one. Default 5 s.
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

impl GateConfig {
    /// What carrying out a plan should cost by its bytes.
    pub(super) fn cost(&self, proposal: &Proposal) -> Duration {
        let inside = self.inside.time_for(proposal.bytes_inside);
        let between = self.between_sites.time_for(proposal.bytes_between_sites);
        self.fixed_cost.saturating_add(inside.max(between))
    }
}

/// A plan as the gate sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proposal {
    /// Now.
    pub now: Time,
    /// What a step takes in the window, as measured.
    pub step: Duration,
    /// What steps have taken since actors have moved last: the median, with which those after the
    /// plan are compared.
    pub step_usual: Duration,
    /// The time that three quarters of these have taken at most.
    pub step_slow: Duration,
    /// For how long that was measured.
    pub window: Duration,
    /// What the cost model says that a step takes as things are.
    pub predicted_now: Duration,
    /// What it says that a step would take.
    pub predicted_then: Duration,
    /// How many bytes the busiest node would send to others of its site, or get from them.
    pub bytes_inside: u64,
    /// How many bytes would move from one site to another.
    pub bytes_between_sites: u64,
    /// How long the job would stand still, if that is known better than from what earlier plans
    /// took.
    pub pause: Option<Duration>,
    /// How long the job still runs, if that is known.
    pub remaining: Option<Duration>,
    /// Whether the cause is likely to pass, as other users' load does; the job's own loads last.
    pub is_passing: bool,
}

impl Proposal {
    /// The part of a measured step that the plan is predicted to save. What the model cannot
    /// explain of a step, as waiting for something else, is not expected to change.
    pub fn gain(&self) -> f64 {
        let [step, now, then] =
            [self.step, self.predicted_now, self.predicted_then].map(|time| time.as_secs_f64());
        if step > 0.0 { (now - then).min(step) / step } else { 0.0 }
    }
}

/// Whether a plan should be carried out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// It should; call [`Gate::carried_out`](super::Gate::carried_out) or
    /// [`Gate::withdrawn`](super::Gate::withdrawn) next.
    Pass {
        /// What it should save.
        expected: Duration,
        /// What it should cost.
        cost: Duration,
    },
    /// It should not, for now.
    Refuse(Refusal),
}

/// Why a plan should not be carried out now.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Refusal {
    /// The last plan has not been judged yet.
    StillJudging,
    /// The gain is noise (rule 2).
    TooLittle {
        /// The part of a step that would be saved, discounted by what came true before.
        gain: f64,
    },
    /// It would cost more than it brings (rule 3).
    DoesNotPay {
        /// What it should save while its cause lasts.
        expected: Duration,
        /// What it should cost.
        cost: Duration,
    },
    /// The cause may pass by itself (rule 4).
    Waiting {
        /// What not moving has cost so far.
        lost: Duration,
        /// What it must have cost.
        needed: Duration,
    },
    /// Balancing would have cost too much if this were a mistake (rule 5).
    OverBudget {
        /// What it may cost in all.
        at_stake: Duration,
        /// What it may.
        budget: Duration,
    },
    /// The last plan made things worse.
    AfterMistake {
        /// When plans may pass again.
        until: Time,
    },
}

/// How a plan turned out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// The part of a step that should have been saved.
    pub predicted: f64,
    /// The part that was saved; negative if steps became longer. 0.2 means a fifth.
    pub realised: f64,
    /// What a step takes after the plan.
    pub step: Duration,
    /// Whether to carry out the inverse of the plan.
    pub should_undo: bool,
}
