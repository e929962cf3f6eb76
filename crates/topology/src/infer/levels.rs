//! Determines the number of levels of a hierarchy, and their limits.
//!
//! Within a level groups join at similar distances; between two levels few groups join. So the
//! density of the logarithms of these distances has a peak for each level and a valley between any
//! two. A valley counts if it is deep enough compared with the lower of its peaks (topological
//! persistence, with a ratio instead of a difference) and each peak consists of more than a few
//! stray nodes.

/// The limit between a level and the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::infer) struct Cut {
    /// The natural logarithm of the distance.
    pub(in crate::infer) at: f32,
    /// Emptiness of the valley: 1 means that the limit is certain.
    pub(in crate::infer) confidence: f32,
}

/// A merge or a pair: the natural logarithm of its distance, and its weight.
pub(in crate::infer) type Weighted = (f32, f32);

/// Width of a kernel, as a natural logarithm: levels 2.2 times apart (0.79) are over four widths
/// apart.
const WIDTH: f32 = 0.18;
/// Distance between the points at which the density is computed, as a natural logarithm.
const STEP: f32 = 0.03;
/// Maximum density in a valley, as a fraction of the lower peak beside it.
const SHALLOW: f32 = 0.55;
/// Minimum weight of a peak, as a fraction of all weight.
const LEAST_PART: f32 = 0.05;
/// Minimum distance of a remote peak from the nearest other peak, as a natural logarithm: a factor
/// of five. Its weight only has to reach [`LEAST_REMOTE_PART`], so that even a single remote node
/// makes a level, unless there are thousands of nodes.
const REMOTE: f32 = 1.6;
/// Minimum weight of a remote peak, as a fraction of all weight.
const LEAST_REMOTE_PART: f32 = 0.005;

/// Returns the cuts between levels, nearest first.
pub(in crate::infer) fn cuts(weighted: &[Weighted]) -> Vec<Cut> {
    let Some(density) = Density::new(weighted) else { return Vec::new() };
    let mut peaks = density.peaks();
    while let Some(weakest) = weakest(&density, &peaks, weighted) {
        // Removing a peak joins it with the neighbour across the shallower valley.
        peaks.remove(weakest);
    }
    let cut = |pair: &[usize]| {
        let floor = density.floor(pair[0], pair[1]);
        let lower = density.values[pair[0]].min(density.values[pair[1]]);
        let confidence = 1.0 - (density.values[floor] / lower).min(1.0);
        Cut { at: density.at(floor), confidence }
    };
    peaks.windows(2).map(cut).collect()
}

/// Returns the weakest peak that fails a criterion, if any.
fn weakest(density: &Density, peaks: &[usize], weighted: &[Weighted]) -> Option<usize> {
    if peaks.len() < 2 {
        return None;
    }
    let ratio_of = |pair: usize| {
        let (a, b) = (peaks[pair], peaks[pair + 1]);
        density.values[density.floor(a, b)] / density.values[a].min(density.values[b])
    };
    let shallowest =
        (0..peaks.len() - 1).map(|pair| (ratio_of(pair), pair)).max_by(|a, b| a.0.total_cmp(&b.0));
    if let Some((ratio, pair)) = shallowest
        && ratio > SHALLOW
    {
        let lower = density.values[peaks[pair]] < density.values[peaks[pair + 1]];
        return Some(if lower { pair } else { pair + 1 });
    }
    let all: f32 = weighted.iter().map(|&(_, weight)| weight).sum();
    let bounds: Vec<f32> =
        peaks.windows(2).map(|pair| density.at(density.floor(pair[0], pair[1]))).collect();
    (0..peaks.len()).find(|&peak| {
        let low = if peak == 0 { f32::NEG_INFINITY } else { bounds[peak - 1] };
        let high = bounds.get(peak).copied().unwrap_or(f32::INFINITY);
        let part: f32 =
            weighted.iter().filter(|&&(x, _)| x > low && x <= high).map(|&(_, w)| w).sum();
        let gap = |other: usize| (density.at(peaks[peak]) - density.at(peaks[other])).abs();
        let near = peak
            .checked_sub(1)
            .map(gap)
            .into_iter()
            .chain((peak + 1 < peaks.len()).then(|| gap(peak + 1)));
        let is_remote = near.fold(f32::INFINITY, f32::min) >= REMOTE;
        part < if is_remote { LEAST_REMOTE_PART } else { LEAST_PART } * all
    })
}

/// A density on equidistant points.
struct Density {
    first: f32,
    values: Vec<f32>,
}

impl Density {
    fn new(weighted: &[Weighted]) -> Option<Self> {
        let least = weighted.iter().map(|&(x, _)| x).reduce(f32::min)?;
        let most = weighted.iter().map(|&(x, _)| x).reduce(f32::max)?;
        let first = least - 4.0 * WIDTH;
        let points = ((most - least + 8.0 * WIDTH) / STEP) as usize + 2;
        let mut values = vec![0.0; points];
        for &(x, weight) in weighted {
            let begin = ((x - 4.0 * WIDTH - first) / STEP).max(0.0) as usize;
            let end = (((x + 4.0 * WIDTH - first) / STEP) as usize + 1).min(points);
            for (point, value) in values.iter_mut().enumerate().take(end).skip(begin) {
                let z = (first + point as f32 * STEP - x) / WIDTH;
                *value += weight * (-0.5 * z * z).exp();
            }
        }
        Some(Self { first, values })
    }

    fn at(&self, point: usize) -> f32 {
        self.first + point as f32 * STEP
    }

    fn peaks(&self) -> Vec<usize> {
        let values = &self.values;
        let is_peak = |&p: &usize| {
            values[p] > 0.0
                && (p == 0 || values[p - 1] < values[p])
                && (p + 1 == values.len() || values[p + 1] <= values[p])
        };
        (0..values.len()).filter(is_peak).collect()
    }

    /// Returns the middle of the lowest stretch between two points.
    fn floor(&self, from: usize, to: usize) -> usize {
        let least = self.values[from..=to].iter().copied().fold(f32::INFINITY, f32::min);
        let lowest: Vec<usize> = (from..=to).filter(|&p| self.values[p] <= least).collect();
        lowest[lowest.len() / 2]
    }
}
