//! Speeds of PEs, from the time of actors per message before and after they move.
//!
//! Start: each PE has measured itself with a short kernel, which says little about memory-bound
//! work. Steady state: an actor that has moved has a time per message on both PEs, and so compares
//! the two ([`Evidence`]). The actors that stayed on the old PE show the drift: a change of the
//! time per message that the move did not cause. The scatter of their changes limits how much a
//! comparison counts.
//! [`SpeedEstimate`] joins the comparisons of all windows by weighted least squares over the graph
//! of compared PEs. The kernel is a prior with heavy tails (Student's t; Lange, Little and Taylor,
//! "Robust statistical modeling using the t distribution", 1989, section 2): small deviations from
//! it need strong evidence, and a kernel that is far off has little weight. Failure: without moves,
//! the kernel alone decides.
//!
//! Foreign load has no influence: loads are processor time, which other programs do not lengthen.

use crate::snapshot::PeLoad;
use crate::snapshot::actor::ActorLoad;
use gridspan_topology::PeId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Minimum time per message that counts: the measured time of shorter handlers is mostly overhead.
const PER_MESSAGE_MIN: Duration = Duration::from_micros(1);
/// Number of actors that must have stayed on a PE to derive its drift; with fewer, all actors that
/// stayed on any PE are used.
const STAYED_MIN: usize = 3;
/// Minimum relative error of a comparison, even if actors agree better.
const NOISE_MIN: f64 = 0.02;
/// Relative error of a kernel.
const KERNEL_ERROR: f64 = 0.1;
/// Difference of logarithms from the median kernel below which a kernel counts as equal to it.
const KERNEL_NOISE: f64 = 0.05;
/// Factor on the weight of earlier windows when a later one compares the same PEs.
const MEMORY: f64 = 0.7;
/// Maximum number of pairs of PEs that an estimate stores. Above it, the half with the most weight
/// is kept.
const PAIRS_MAX: usize = 1 << 16;
/// Maximum number of sweeps over all pairs. They begin with the last estimate, so few are enough if
/// little has changed.
const SWEEPS_MAX: u32 = 300;
/// Sweeps end when no speed changes by more than this fraction.
const SWEEP_END: f64 = 1e-4;
/// Logarithm of the maximum relative speed: factors above a hundred are errors of measurement.
const LOG_SPEED_MAX: f64 = 4.6;

/// Comparisons of PEs, from the actors that have moved since an earlier window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    compared: Vec<Compared>,
}

/// Comparison of two PEs, from the actors that have moved from one to the other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Compared {
    from: PeId,
    to: PeId,
    /// Natural logarithm of the speed of `to`, relative to that of `from`.
    log_ratio: f64,
    /// Standard error of the logarithm.
    error: f64,
}

impl Evidence {
    /// Derives the evidence from `actors`, in any order.
    pub fn of<'a>(actors: impl IntoIterator<Item = &'a ActorLoad>) -> Self {
        let mut stayed: BTreeMap<PeId, Vec<f64>> = BTreeMap::new();
        let mut moved: BTreeMap<(PeId, PeId), Vec<f64>> = BTreeMap::new();
        for actor in actors {
            let Some(pace) = actor.pace else { continue };
            if pace.now.min(pace.before) < PER_MESSAGE_MIN {
                continue;
            }
            let change = (pace.now.as_secs_f64() / pace.before.as_secs_f64()).ln();
            match pace.pe_before == actor.pe {
                true => stayed.entry(actor.pe).or_default().push(change),
                false => moved.entry((pace.pe_before, actor.pe)).or_default().push(change),
            }
        }
        if moved.is_empty() {
            return Self::default();
        }
        let all: Vec<f64> = stayed.values().flatten().copied().collect();
        let anywhere = Usual::of(&all);
        let usual: BTreeMap<PeId, Usual> =
            stayed.iter().filter_map(|(&pe, all)| Some((pe, Usual::of(all)?))).collect();
        let compare = |((from, to), changes): ((PeId, PeId), Vec<f64>)| {
            let count = changes.len() as f64;
            let found = Usual::of_any(&changes);
            let drift = usual.get(&from).or(anywhere.as_ref());
            let (drift, scatter) = drift.map_or((0.0, found.scatter), |d| (d.median, d.scatter));
            let scatter = scatter.max(found.scatter / count.sqrt());
            let error = (scatter * scatter * (1.0 + 1.0 / count)).sqrt().max(NOISE_MIN);
            Compared { from, to, log_ratio: drift - found.median, error }
        };
        Self { compared: moved.into_iter().map(compare).collect() }
    }
}

/// Median and scatter of some changes.
struct Usual {
    median: f64,
    scatter: f64,
}

impl Usual {
    fn of(changes: &[f64]) -> Option<Self> {
        (changes.len() >= STAYED_MIN).then(|| Self::of_any(changes))
    }

    fn of_any(changes: &[f64]) -> Self {
        /// The standard deviation of a normal distribution, in median absolute deviations.
        const DEVIATIONS: f64 = 1.4826;
        let center = median(changes.to_vec());
        let scatter = median(changes.iter().map(|change| (change - center).abs()).collect());
        Self { median: center, scatter: scatter * DEVIATIONS }
    }
}

/// Returns the median; 0 of an empty list.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.len().saturating_sub(1) / 2, values.len() / 2);
    match (values.get(low), values.get(high)) {
        (Some(low), Some(high)) => f64::midpoint(*low, *high),
        _ => 0.0,
    }
}

/// Speeds of PEs, estimated from the evidence of all windows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpeedEstimate {
    /// For each pair of PEs, the lower first: the logarithm of the second's speed relative to the
    /// first's, and its weight, the inverse square of its error.
    pairs: BTreeMap<(PeId, PeId), (f64, f64)>,
    /// The last estimate, as logarithms relative to the kernels.
    known: Vec<f64>,
}

impl SpeedEstimate {
    /// Adds the evidence of a window.
    pub fn learn(&mut self, evidence: &Evidence) {
        for &Compared { from, to, log_ratio, error } in &evidence.compared {
            let news = 1.0 / (error * error);
            // The evidence may come from the network, so its values are checked. The square of a
            // large error is infinite.
            if !(log_ratio.abs() <= 2.0 * LOG_SPEED_MAX && error >= NOISE_MIN && news > 0.0) {
                continue;
            }
            let ratio = if from < to { log_ratio } else { -log_ratio };
            let (known, weight) = self.pairs.entry((from.min(to), from.max(to))).or_default();
            *weight *= MEMORY;
            *known = (*known * *weight + ratio * news) / (*weight + news);
            *weight += news;
        }
        if self.pairs.len() > PAIRS_MAX {
            self.drop_least();
        }
    }

    /// Drops the pairs with the least weight, and of equal ones the first.
    fn drop_least(&mut self) {
        let weight = |(&pair, &(_, weight)): (&(PeId, PeId), &(f64, f64))| (weight, pair);
        let mut ranked: Vec<(f64, (PeId, PeId))> = self.pairs.iter().map(weight).collect();
        let excess = ranked.len().saturating_sub(PAIRS_MAX / 2);
        // Many weights are equal, since errors have a minimum.
        ranked.sort_unstable_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        for (_, pair) in &ranked[..excess] {
            self.pairs.remove(pair);
        }
    }

    /// Replaces the kernel speeds of all PEs by the estimates.
    pub fn apply(&mut self, pes: &mut [PeLoad]) {
        // The speeds may come from the network, so a value that is not finite counts as 1.
        let log = |pe: &PeLoad| Some(pe.speed.ln()).filter(|log| log.is_finite()).unwrap_or(0.0);
        let usual = median(pes.iter().map(log).collect());
        let kernels: Vec<f64> = pes
            .iter()
            .map(|pe| log(pe) - usual)
            .map(|log| if log.abs() < KERNEL_NOISE { 0.0 } else { log })
            .collect();
        self.known.resize(pes.len(), 0.0);
        self.solve(&kernels);
        for ((pe, kernel), beside) in pes.iter_mut().zip(kernels).zip(&self.known) {
            pe.speed = (kernel + beside).clamp(-LOG_SPEED_MAX, LOG_SPEED_MAX).exp();
        }
    }

    /// Minimizes the weighted squares of the residuals of all pairs and of the differences from
    /// kernels.
    fn solve(&mut self, kernels: &[f64]) {
        let mut neighbors: BTreeMap<usize, Vec<(usize, f64, f64)>> = BTreeMap::new();
        for (&(a, b), &(ratio, weight)) in &self.pairs {
            let (a, b) = (a.index(), b.index());
            if b < kernels.len() {
                let beside = ratio - (kernels[b] - kernels[a]);
                neighbors.entry(a).or_default().push((b, -beside, weight));
                neighbors.entry(b).or_default().push((a, beside, weight));
            }
        }
        for _ in 0..SWEEPS_MAX {
            let mut most = 0.0_f64;
            for (&pe, others) in &neighbors {
                let off = self.known[pe] / KERNEL_ERROR;
                let prior = 1.0 / (KERNEL_ERROR * KERNEL_ERROR * (1.0 + off * off));
                let sum: f64 = others.iter().map(|(at, d, w)| w * (self.known[*at] + d)).sum();
                let weight: f64 = others.iter().map(|(_, _, weight)| weight).sum();
                let next = (sum / (weight + prior)).clamp(-LOG_SPEED_MAX, LOG_SPEED_MAX);
                most = most.max((next - std::mem::replace(&mut self.known[pe], next)).abs());
            }
            if most < SWEEP_END {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::actor;
    use crate::snapshot::actor::HandlingTime;
    use gridspan_topology::dice::Dice;

    /// An actor that was on one PE and is on another, with its work in nanoseconds before and now.
    fn seen(work: [f64; 2], pe_before: usize, pe: usize, speeds: &[f64]) -> ActorLoad {
        let takes = |work: f64, pe: usize| Duration::from_nanos((work / speeds[pe]) as u64);
        let (before, now) = (takes(work[0], pe_before), takes(work[1], pe));
        ActorLoad {
            id: actor(0),
            pe: PeId::from(pe),
            load: now * 10,
            bytes: 0,
            migratable: true,
            pace: Some(HandlingTime { now, before, pe_before: PeId::from(pe_before) }),
        }
    }

    fn estimate(kernels: &[f64], windows: &[Vec<ActorLoad>]) -> Vec<f64> {
        let mut estimate = SpeedEstimate::default();
        let mut found = Vec::new();
        for window in windows {
            estimate.learn(&Evidence::of(window));
            let mut pes: Vec<PeLoad> =
                kernels.iter().map(|&speed| PeLoad { speed, ..PeLoad::default() }).collect();
            estimate.apply(&mut pes);
            found = pes.iter().map(|pe| pe.speed).collect();
        }
        found
    }

    /// The greatest relative error, up to a common factor.
    fn error(found: &[f64], speeds: &[f64]) -> f64 {
        let logs: Vec<f64> = found.iter().zip(speeds).map(|(a, b)| (a / b).ln()).collect();
        let middle = median(logs.clone());
        logs.iter().map(|log| (log - middle).abs()).fold(0.0, f64::max)
    }

    #[test]
    fn a_few_moved_actors_correct_the_kernels() {
        let speeds = [1.0, 1.0 / 3.0, 1.0, 1.0 / 3.0];
        let mut window = Vec::new();
        for pe in 0..4 {
            window.extend((0..10).map(|_| seen([1e6; 2], pe, pe, &speeds)));
        }
        for pe in [1, 3] {
            window.extend((0..5).map(|n| seen([1e6; 2], pe, [0, 2][n % 2], &speeds)));
        }

        let found = estimate(&[1.0; 4], &[window]);

        assert!(error(&found, &speeds) < 0.02, "{found:?}");
    }

    #[test]
    fn a_drift_of_loads_does_not_make_a_pe_slow() {
        // All actors on PE 0 become heavier by half, as do those that have moved from there.
        let speeds = [1.0; 4];
        let mut window: Vec<_> = (0..8).map(|_| seen([1e6, 1.5e6], 0, 0, &speeds)).collect();
        window.extend((0..8).map(|_| seen([1e6; 2], 1, 1, &speeds)));
        window.extend((0..8).map(|_| seen([1e6, 1.5e6], 0, 2, &speeds)));

        let found = estimate(&[1.0; 4], &[window]);

        assert!(error(&found, &speeds) < 0.02, "{found:?}");
    }

    #[test]
    fn random_scatter_with_equal_kernels_gives_equal_speeds() {
        let mut dice = Dice::new(3);
        let mut noisy = || 1e6 * (0.7 + dice.below(600_u32) as f64 * 1e-3);
        let speeds = [1.0; 4];
        let mut windows = Vec::new();
        for _ in 0..10 {
            let mut window = Vec::new();
            for n in 0..64 {
                let to = if n % 4 == 0 { (n / 4 + 1) % 4 } else { n % 4 };
                window.push(seen([noisy(), noisy()], n % 4, to, &speeds));
            }
            windows.push(window);
        }

        assert!(error(&estimate(&[1.0; 4], &windows), &speeds) < 0.1);
    }

    #[test]
    fn speeds_from_one_to_four_are_found_within_a_tenth_from_noisy_loads() {
        for seed in 0..20 {
            let mut dice = Dice::new(seed);
            let speeds: Vec<f64> =
                (0..8).map(|_| 1.0 + dice.below(3001_u32) as f64 * 1e-3).collect();
            // Loads vary by up to 15 % around their mean, and one of eight kernels does not show
            // the speed of its PE.
            let mut kernels = speeds.clone();
            kernels[dice.below(8)] = 1.0;
            let mut windows = Vec::new();
            for _ in 0..4 {
                let mut window = Vec::new();
                for n in 0..256 {
                    let mut noisy = || 1e6 * (0.85 + dice.below(300_u32) as f64 * 1e-3);
                    let work = [noisy(), noisy()];
                    let to = if n % 5 == 0 { dice.below(8) } else { n % 8 };
                    window.push(seen(work, n % 8, to, &speeds));
                }
                windows.push(window);
            }

            let found = estimate(&kernels, &windows);

            assert!(error(&found, &speeds) < 0.1, "seed {seed}: {found:?} of {speeds:?}");
        }
    }

    #[test]
    fn without_moves_the_kernels_decide_and_small_differences_do_not_count() {
        let found = estimate(&[1.02, 0.98, 1.0, 0.5, 1.0], &[Vec::new()]);

        assert_eq!(found, [1.0, 1.0, 1.0, 0.5, 1.0]);
    }

    #[test]
    fn invalid_evidence_does_not_change_the_estimate() {
        let compared =
            |to, log_ratio, error| Compared { from: PeId(0), to: PeId(to), log_ratio, error };
        let compared = vec![
            compared(1, f64::NAN, 1.0),
            compared(1, 1e300, 1.0),
            compared(1, 1.0, 0.0),
            compared(1, 1.0, f64::NAN),
            compared(1, 1.0, f64::INFINITY),
            compared(1, 1.0, 1e200),
            // There is no PE 9.
            compared(9, 1.0, 1.0),
        ];
        let mut estimate = SpeedEstimate::default();
        estimate.learn(&Evidence { compared });
        let mut pes = [PeLoad::default(); 2];

        estimate.apply(&mut pes);

        assert_eq!(pes, [PeLoad::default(); 2]);
    }

    #[test]
    fn half_of_the_pairs_is_left_if_there_are_too_many_of_equal_weight() {
        let mut estimate = SpeedEstimate::default();
        let compared = |to: u32| {
            let error = if to == 1 { NOISE_MIN } else { 2.0 * NOISE_MIN };
            Compared { from: PeId(0), to: PeId(to), log_ratio: 0.5, error }
        };

        estimate.learn(&Evidence { compared: (1..=PAIRS_MAX as u32).map(compared).collect() });
        assert_eq!(estimate.pairs.len(), PAIRS_MAX);
        estimate.learn(&Evidence { compared: vec![compared(PAIRS_MAX as u32 + 1)] });

        assert_eq!(estimate.pairs.len(), PAIRS_MAX / 2);
        assert!(estimate.pairs.contains_key(&(PeId(0), PeId(1))), "it has the most weight");
    }
}
