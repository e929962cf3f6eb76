//! What the gate has learned of predictions and of how long disturbances last.

use super::verdict::GateConfig;
use std::time::Duration;

#[derive(Clone, Debug, Default)]
pub(super) struct Learned {
    /// The part of predicted gains that came true.
    trust: Option<f64>,
    /// The lengths of the last episodes.
    episodes: Vec<Duration>,
}

/// A prediction that came true half the time is trusted by a bit more than half.
const NEWS: f64 = 0.4;
/// Trust never falls so low that nothing can pass and nothing can be learned any more.
const TRUST_MIN: f64 = 0.1;
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

    pub(super) fn episode_ended(&mut self, length: Duration) {
        if self.episodes.len() == EPISODES_MAX {
            self.episodes.remove(0);
        }
        self.episodes.push(length);
    }

    /// How much longer an episode of this age lasts, judged by those that lasted as long; `None` if none did.
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
