//! What the gate has learned of predictions, of costs, of how much steps differ and of how long
//! disturbances last.

use super::verdict::GateConfig;
use std::time::Duration;

#[derive(Clone, Debug, Default)]
pub(super) struct Learned {
    /// The part of predicted gains that came true.
    trust: Option<f64>,
    /// The part of the greatest possible gains that plans were predicted to bring.
    attained: Option<f64>,
    /// The lengths of the last episodes.
    episodes: Vec<Duration>,
    /// How many times their estimate plans have cost.
    cost_factor: Option<f64>,
    /// The last step, unless something has moved since, and the usual relative difference between
    /// two.
    last_step: Option<f64>,
    noise: f64,
}

/// A prediction that came true half the time is trusted by a bit more than half.
const NEWS: f64 = 0.4;
/// What plans bring of the greatest possible gain, before any was made: the other half is work
/// with messages that no placement avoids.
const ATTAINED_FIRST: f64 = 0.5;
/// Trust never falls lower.
const TRUST_MIN: f64 = 0.1;
/// The part of the doubt that is gone after each gain that was refused for lack of trust alone:
/// otherwise no plan of a small gain could pass any more, and nothing could be learned from one.
const TRUST_REGAINED: f64 = 0.02;
/// One odd measurement of a cost is not believed beyond this factor, up or down.
const COST_FACTOR_MAX: f64 = 20.0;
/// Older episodes say little about the present.
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

    /// A gain was refused, perhaps for lack of trust alone.
    pub(super) fn doubts(&mut self, is_doubt_alone: bool) {
        if let Some(trust) = self.trust.as_mut().filter(|_| is_doubt_alone) {
            *trust += TRUST_REGAINED * (1.0 - *trust);
        }
    }

    pub(super) fn attained(&self) -> f64 {
        self.attained.unwrap_or(ATTAINED_FIRST)
    }

    /// A plan was predicted to bring `gain` where nothing could have brought more than `best`.
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

    /// A plan that was expected to cost `estimate` by its bytes has cost `actual`.
    pub(super) fn cost(&mut self, estimate: Duration, actual: Duration) {
        let [estimate, actual] = [estimate, actual].map(|time| time.as_secs_f64());
        if estimate > 0.0 {
            let factor = (actual / estimate).clamp(1.0 / COST_FACTOR_MAX, COST_FACTOR_MAX);
            let known = self.cost_factor.unwrap_or(factor);
            self.cost_factor = Some(known + NEWS * (factor - known));
        }
    }

    /// The usual relative difference between two steps when nothing moves.
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

    /// Something has moved, so that the next step differs for a reason.
    pub(super) fn forget_step(&mut self) {
        self.last_step = None;
    }

    pub(super) fn episode_ended(&mut self, length: Duration) {
        if self.episodes.len() == EPISODES_MAX {
            self.episodes.remove(0);
        }
        self.episodes.push(length);
    }

    /// How much longer an episode of this age lasts, judged by those that lasted as long; `None` if
    /// none did.
    pub(super) fn rest_of_episode(&self, age: Duration) -> Option<Duration> {
        let longer: Vec<Duration> =
            self.episodes.iter().filter(|length| **length > age).map(|l| *l - age).collect();
        let sum: Duration = longer.iter().sum();
        (!longer.is_empty()).then(|| sum / longer.len() as u32)
    }

    /// The part of the cost that must have been lost before a plan passes.
    pub(super) fn wait(&self, config: &GateConfig) -> f64 {
        if self.episodes.len() < 2 { config.wait } else { config.wait_when_known }
    }
}
