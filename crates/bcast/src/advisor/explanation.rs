//! Infers from the times of broadcasts which capacities transfers between sites share.
//!
//! A single transfer does not show the capacities that it would share with others; a broadcast has
//! many transfers at once. The explanation is the [`Sharing`] that predicts the last broadcasts
//! best.

use crate::model::{Draft, NetworkEstimate, Sharing};
use std::collections::VecDeque;

/// Number of broadcasts that are remembered.
const HISTORY: usize = 6;
/// With fewer broadcasts nothing is inferred: one may have met other load.
const HISTORY_MIN: usize = 2;
/// The present sharing is kept if its predictions are wrong by less than this factor on average.
const RIGHT: f64 = 1.15;
/// Another sharing replaces it if its error is less than this part of the present error.
const BETTER: f64 = 0.5;

/// The last broadcasts.
#[derive(Clone, Debug, Default)]
pub(super) struct Explanation {
    /// Draft, bytes and measured seconds of each.
    seen: VecDeque<(Draft, u64, f64)>,
}

impl Explanation {
    /// Notes that a message of `bytes` took `took_s` seconds.
    pub(super) fn note(&mut self, draft: &Draft, bytes: u64, took_s: f64) {
        if took_s <= 0.0 {
            return;
        }
        if self.seen.len() == HISTORY {
            self.seen.pop_front();
        }
        self.seen.push_back((draft.clone(), bytes, took_s));
    }

    /// Forgets all broadcasts, since they show nothing about changed links.
    pub(super) fn forget(&mut self) {
        self.seen.clear();
    }

    /// Returns the sharing that explains the broadcasts much better than the present one, if any.
    pub(super) fn better(&self, estimate: &NetworkEstimate) -> Option<Sharing> {
        if self.seen.len() < HISTORY_MIN {
            return None;
        }
        let wrong = self.wrong(estimate);
        if wrong < RIGHT.ln() {
            return None;
        }
        let all = [Sharing::SitePairs, Sharing::SiteUplinks, Sharing::ClusterPairs];
        let others = all.into_iter().filter(|&sharing| sharing != estimate.sharing());
        let judged = others.map(|sharing| (self.wrong(&estimate.with_sharing(sharing)), sharing));
        let best = judged.min_by(|one, other| one.0.total_cmp(&other.0))?;
        (best.0 < BETTER * wrong).then_some(best.1)
    }

    /// Error of the predictions: the mean absolute logarithm of measured to predicted time.
    fn wrong(&self, estimate: &NetworkEstimate) -> f64 {
        let network = estimate.network();
        let errors = self.seen.iter().map(|(draft, bytes, took_s)| {
            let predicted_s = draft.simulate(&network, *bytes).completion_s;
            (took_s / predicted_s.max(f64::MIN_POSITIVE)).ln().abs()
        });
        errors.sum::<f64>() / self.seen.len().max(1) as f64
    }
}
