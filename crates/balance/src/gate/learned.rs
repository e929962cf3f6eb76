//! The values that the gate learns: the accuracy of its predictions, the cost of plans, the
//! variation of steps, and the duration of disturbances.

use super::verdict::GateConfig;
use gridspan_topology::Bandwidth;
use std::time::Duration;

#[derive(Clone, Debug, Default)]
pub(super) struct Learned {
    /// Part of predicted gains that was realised, as a running average.
    trust: Option<f64>,
    /// Predicted gains of plans, as a part of the greatest possible gains.
    attained: Option<f64>,
    /// Lengths of the last episodes, the periods in which each proposal had a gain.
    episodes: Vec<Duration>,
    /// Cost of plans as a multiple of their estimate.
    cost_factor: Option<f64>,
    /// The rate inside the slowest site when the last of these estimates was made.
    cost_rate: Option<Bandwidth>,
    /// Seconds of the last step, unless actors have moved since.
    last_step: Option<f64>,
    /// Usual relative difference between two steps.
    noise: f64,
}

/// Weight of the newest value in each running average.
const NEWS: f64 = 0.4;
/// Assumed value of `attained` before the first plan. Plans reach only a part of the greatest
/// possible gain, which does not count the work for messages.
const ATTAINED_FIRST: f64 = 0.5;
/// Minimum value of `trust` and `attained`.
const TRUST_MIN: f64 = 0.1;
/// Part of the doubt (1 minus the trust) that the gate drops when it refuses a gain for lack of
/// trust alone. Without this, no plan with a small gain could pass again, and the gate could not
/// regain its trust.
const TRUST_REGAINED: f64 = 0.02;
/// Limit of the factor between a measured cost and its estimate, upwards and downwards.
const COST_FACTOR_MAX: f64 = 20.0;
/// Upper limit of that factor for an estimate of at least [`BYTES_COUNT`] seconds. Such an estimate
/// comes from the bytes, and the links within a site may have a hundredth of the assumed rate.
const COST_FACTOR_OF_BYTES_MAX: f64 = 100.0;
/// Estimate in seconds from which on the bytes determine the cost of a plan.
const BYTES_COUNT: f64 = 0.05;
/// The cost factor is forgotten if the rate inside the slowest site changes by more than this
/// factor.
const RATE_CHANGE: u64 = 2;
/// Number of episodes kept; older ones say little about the present.
const EPISODES_MAX: usize = 16;

impl Learned {
    pub(super) fn trust(&self) -> f64 {
        self.trust.unwrap_or(1.0)
    }

    pub(super) fn came_true(&mut self, predicted: f64, realised: f64) {
        if predicted > 0.0 {
            let part = (realised / predicted).clamp(0.0, 1.0);
            let trust = self.trust() + NEWS * (part - self.trust());
            self.trust = Some(trust.clamp(TRUST_MIN, 1.0));
        }
    }

    /// Records a refused gain. `is_doubt_alone`: whether lack of trust is the only reason.
    pub(super) fn doubts(&mut self, is_doubt_alone: bool) {
        if let Some(trust) = self.trust.as_mut().filter(|_| is_doubt_alone) {
            *trust += TRUST_REGAINED * (1.0 - *trust);
        }
    }

    pub(super) fn attained(&self) -> f64 {
        self.attained.unwrap_or(ATTAINED_FIRST)
    }

    /// Records that a plan has the predicted gain `gain`, where the best possible gain is `best`.
    pub(super) fn attains(&mut self, gain: f64, best: f64) {
        if best > 0.0 {
            let part = (gain / best).clamp(0.0, 1.0);
            let attained = self.attained() + NEWS * (part - self.attained());
            self.attained = Some(attained.clamp(TRUST_MIN, 1.0));
        }
    }

    pub(super) fn cost_factor(&self) -> f64 {
        self.cost_factor.unwrap_or(1.0)
    }

    /// Forgets the cost factor if it was learned when the slowest site had another rate: it
    /// corrects estimates at that rate, and estimates at the present rate need no such correction.
    pub(super) fn estimates_at(&mut self, rate: Bandwidth) {
        let Some(known) = self.cost_rate else { return };
        let (slower, faster) = (known.min(rate), known.max(rate));
        if faster.bits_per_second() / RATE_CHANGE > slower.bits_per_second() {
            (self.cost_factor, self.cost_rate) = (None, None);
        }
    }

    /// Records that a plan cost `actual`. Its expected cost was `estimate`, computed when the
    /// slowest site had the rate `inside`.
    pub(super) fn cost(&mut self, estimate: Duration, inside: Bandwidth, actual: Duration) {
        let [estimate, actual] = [estimate, actual].map(|time| time.as_secs_f64());
        if estimate > 0.0 {
            let most = match estimate >= BYTES_COUNT {
                true => COST_FACTOR_OF_BYTES_MAX,
                false => COST_FACTOR_MAX,
            };
            let factor = (actual / estimate).clamp(1.0 / COST_FACTOR_MAX, most);
            let known = self.cost_factor.unwrap_or(factor);
            self.cost_factor = Some(known + NEWS * (factor - known));
            self.cost_rate = Some(inside);
        }
    }

    /// Returns the usual relative difference between two steps when no actor moves.
    pub(super) fn noise(&self) -> f64 {
        self.noise
    }

    pub(super) fn saw_step(&mut self, step: Duration) {
        let step = step.as_secs_f64();
        if step > 0.0
            && let Some(last) = self.last_step.replace(step)
        {
            let difference = (step / last - 1.0).abs().min(1.0);
            self.noise += NEWS * (difference - self.noise);
        }
    }

    /// Forgets the last step, because actors have moved and the next step differs for that reason.
    pub(super) fn forget_step(&mut self) {
        self.last_step = None;
    }

    pub(super) fn episode_ended(&mut self, length: Duration) {
        if self.episodes.len() == EPISODES_MAX {
            self.episodes.remove(0);
        }
        self.episodes.push(length);
    }

    /// Returns the expected rest of an episode of this age: the mean over the known episodes that
    /// lasted longer; `None` if there are none.
    pub(super) fn rest_of_episode(&self, age: Duration) -> Option<Duration> {
        let longer: Vec<Duration> =
            self.episodes.iter().filter(|length| **length > age).map(|l| *l - age).collect();
        let sum: Duration = longer.iter().sum();
        (!longer.is_empty()).then(|| sum / longer.len() as u32)
    }

    /// Returns the part of a plan's cost that the job must have lost before actors move away from a
    /// passing load.
    pub(super) fn wait(&self, config: &GateConfig) -> f64 {
        if self.episodes.len() < 2 { config.wait } else { config.wait_when_known }
    }
}
