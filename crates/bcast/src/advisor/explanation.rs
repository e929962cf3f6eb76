//! What transfers between sites share, judged by how long broadcasts took.
//!
//! A single transfer does not show what it would share with others; a broadcast has many at once.
//! The explanation that predicts the last broadcasts best is believed.

use crate::model::{Draft, NetworkEstimate, Sharing};
use std::collections::VecDeque;

/// Broadcasts that are looked back on.
const HISTORY: usize = 6;
/// Fewer say nothing: one may have met something else.
const HISTORY_MIN: usize = 2;
/// An explanation is right if it is wrong by less than this factor on average.
const RIGHT: f64 = 1.15;
/// Another one has to be wrong by this part of that at most.
const BETTER: f64 = 0.5;

/// The last broadcasts.
#[derive(Clone, Debug, Default)]
pub(super) struct Explanation {
    /// How each went, its bytes, and how long it took in seconds.
    seen: VecDeque<(Draft, u64, f64)>,
}

impl Explanation {
    /// A message of so many bytes took so long.
    pub(super) fn note(&mut self, draft: &Draft, bytes: u64, took_s: f64) {
        if took_s <= 0.0 {
            return;
        }
        if self.seen.len() == HISTORY {
            self.seen.pop_front();
        }
        self.seen.push_back((draft.clone(), bytes, took_s));
    }

    /// Links have changed: what was seen says nothing any more.
    pub(super) fn forget(&mut self) {
        self.seen.clear();
    }

    /// What is shared, if something else than what is believed explains much better what was seen.
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

    /// How far predictions are from what was seen: the mean logarithm of the ratio.
    fn wrong(&self, estimate: &NetworkEstimate) -> f64 {
        let network = estimate.network();
        let errors = self.seen.iter().map(|(draft, bytes, took_s)| {
            let predicted_s = draft.simulate(&network, *bytes).completion_s;
            (took_s / predicted_s.max(f64::MIN_POSITIVE)).ln().abs()
        });
        errors.sum::<f64>() / self.seen.len().max(1) as f64
    }
}
