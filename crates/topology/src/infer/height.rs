//! Estimates the delay that a busy host adds to each of its round trips.
//!
//! A busy host `i` adds `h(i)` to all of its round trips (the "height" of Vivaldi's coordinates,
//! Dabek et al., SIGCOMM 2004). So for a neighbour `j` of `i` and any third node `k`, the distances
//! `d` satisfy `d(i,k) - d(j,k) = h(i) - h(j)`. The estimate is the median of these differences
//! over many `k`, with weights inversely proportional to the distance of `k`, since long round
//! trips vary more. It assumes that the quietest neighbours have no height. A node in a separate
//! cluster looks like a busy host to its nearest neighbours, but not to nodes further away. So a
//! height counts only if subtracting it makes the round trips of the node more like those of its
//! neighbours.

use super::pairs::{LEAST_MS, Pairs, median, quantile};

/// Maximum delay of a busy host. The delays that the scheduler of an operating system adds are only
/// a fraction of this. A node with a longer delay is in a different place.
pub(in crate::infer) const MOST_MS: f32 = 0.5;
/// Number of nearest neighbours in the comparison: few enough to be in one small cluster.
const NEIGHBOURS: usize = 6;
/// Number of nearest third nodes in the comparison.
const THIRDS: usize = 48;
/// Ratio of two round trips that jitter alone does not explain.
const CLEAR: f32 = 1.6;
/// Minimum height as a fraction of the nearest round trip.
const LEAST_PART: f32 = 0.2;
/// Minimum height in standard errors.
const LEAST_ERRORS: f32 = 3.0;
/// Assumed jitter of a round trip, as a fraction of it.
const JITTER: f32 = 0.15;

/// The delay that one item adds to its pairs, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::infer) struct Height {
    /// Delay of the item; 0 for most.
    pub(in crate::infer) added: f32,
    /// A low quantile of the nearest round trips of its neighbours.
    quiet: f32,
}

/// Returns the height of each item.
pub(in crate::infer) fn heights(pairs: &Pairs) -> Vec<Height> {
    let near: Vec<Vec<usize>> = (0..pairs.items()).map(|item| nearest(pairs, item)).collect();
    let closest = |item: usize| near[item].first().map_or(f32::INFINITY, |&j| pairs.value(item, j));
    let height = |item: usize| {
        let around = &near[item][..near[item].len().min(NEIGHBOURS)];
        let (mut added, mut errors): (Vec<f32>, Vec<f32>) =
            around.iter().filter_map(|&j| difference(pairs, &near[item], item, j)).unzip();
        let added = quantile(&mut added, 0.7)?;
        let error = median(&mut errors)?;
        let clear = (LEAST_PART * closest(item)).max(LEAST_ERRORS * error);
        let mut quiet: Vec<f32> = around.iter().map(|&j| closest(j)).collect();
        let quiet = quantile(&mut quiet, 0.3)?;
        (added > clear && added <= MOST_MS && explains(pairs, item, around, added))
            .then_some(Height { added, quiet })
    };
    (0..pairs.items()).map(|item| height(item).unwrap_or_default()).collect()
}

/// Returns how much further `item` is than `other` from third nodes, and the standard error.
fn difference(pairs: &Pairs, thirds: &[usize], item: usize, other: usize) -> Option<(f32, f32)> {
    let mut weighted: Vec<(f32, f32)> = thirds
        .iter()
        .filter(|&&third| third != other)
        .filter_map(|&third| Some((pairs.known(item, third)?, pairs.known(other, third)?)))
        .map(|(from_item, from_other)| (from_item - from_other, 1.0 / from_item.max(from_other)))
        .collect();
    weighted.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let half: f32 = weighted.iter().map(|&(_, weight)| weight).sum::<f32>() / 2.0;
    let precision: f32 = weighted.iter().map(|&(_, weight)| weight * weight).sum();
    let mut below = 0.0;
    let middle = weighted.iter().find(|&&(_, weight)| {
        below += weight;
        below >= half
    })?;
    Some((middle.0, JITTER / precision.sqrt()))
}

/// Subtracts the heights from all pairs.
pub(in crate::infer) fn without_heights(pairs: &Pairs, heights: &[Height]) -> Pairs {
    let mut lowered = pairs.clone();
    for a in 0..pairs.items() {
        for b in 0..a {
            let Some(value) = pairs.known(a, b) else { continue };
            let added = heights[a].added + heights[b].added;
            if added > 0.0 {
                // An error of the estimate must not make a pair closer than any quiet pair.
                let floor = heights[a].quiet.max(heights[b].quiet).max(LEAST_MS);
                lowered.set(a, b, (value - added).max(floor.min(value)));
            }
        }
    }
    lowered
}

fn nearest(pairs: &Pairs, item: usize) -> Vec<usize> {
    let row = pairs.row(item);
    let mut known: Vec<usize> = (0..row.len()).filter(|&j| !row[j].is_nan()).collect();
    let order = |a: &usize, b: &usize| row[*a].total_cmp(&row[*b]).then(a.cmp(b));
    if known.len() > THIRDS {
        known.select_nth_unstable_by(THIRDS - 1, order);
        known.truncate(THIRDS);
    }
    known.sort_unstable_by(order);
    known
}

/// Whether subtracting the height makes the item's round trips to nodes beyond its neighbours more
/// like those of its neighbours.
fn explains(pairs: &Pairs, item: usize, near: &[usize], height: f32) -> bool {
    let closest = &near[..near.len().min(3)];
    let within = closest
        .iter()
        .filter_map(|&j| closest.iter().filter_map(|&k| pairs.known(j, k)).reduce(f32::min))
        .reduce(f32::min)
        .unwrap_or(0.0);
    let (mut raw, mut lowered) = (Vec::new(), Vec::new());
    for other in (0..pairs.items()).filter(|other| !near.contains(other)) {
        let Some(own) = pairs.known(item, other) else { continue };
        let mut theirs: Vec<f32> = closest.iter().filter_map(|&j| pairs.known(j, other)).collect();
        let Some(their) = median(&mut theirs) else { continue };
        // At long distances jitter exceeds the height; within the neighbours' cluster any height
        // fits.
        if own < 10.0 * height && their > CLEAR * within {
            raw.push((own / their).ln().abs());
            lowered.push(((own - height).max(LEAST_MS) / their).ln().abs());
        }
    }
    match (median(&mut raw), median(&mut lowered)) {
        (Some(raw), Some(lowered)) => lowered < raw,
        _ => true,
    }
}
