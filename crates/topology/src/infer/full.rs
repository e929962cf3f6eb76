//! Inference from a full matrix.

use super::nested::nested;
use super::pairs::Pairs;
use crate::hierarchy::{Draft, Hierarchy, Partition};
use crate::id::NodeId;
use crate::matrix::RttMatrix;
use std::collections::BTreeMap;

/// More samples than this add nothing to a median.
const MOST_SAMPLES: usize = 1 << 21;

/// The hierarchy in a matrix of round-trip times, with as many levels as there are. Takes O(n²
/// log n) time, about 15 ms for 256 nodes, and O(n²) memory.
///
/// Jitter, single slow pairs, busy hosts (up to 0.5 ms), asymmetry and missing entries do not mislead it while
/// most pairs are sound; `cargo bench --bench topology` shows how well. Where latencies form a
/// continuum, levels are where it is thinnest, with a low confidence. The method follows the "robust" one of this
/// project's study: average linkage on repaired distances, levels by persistent valleys.
///
/// ```
/// use gridspan_topology::{NodeId, RttMatrix, infer};
/// use std::time::Duration;
///
/// let near = |a: NodeId, b: NodeId| a.0 % 2 == b.0 % 2;
/// let matrix = RttMatrix::from_fn(8, |a, b| {
///     Some(Duration::from_micros(if near(a, b) { 100 } else { 30_000 }))
/// });
///
/// let hierarchy = infer(&matrix);
///
/// assert_eq!(hierarchy.depth(), 2);
/// assert_eq!(hierarchy.group_of(NodeId(0), 1), hierarchy.group_of(NodeId(6), 1));
/// ```
pub fn infer(matrix: &RttMatrix) -> Hierarchy {
    let pairs = Pairs::symmetrised(matrix);
    let found = nested(&pairs);
    let partition = |(groups, (cut_ms, confidence)): (Vec<u32>, (f32, f32))| Partition {
        groups,
        cut_ms,
        confidence: f64::from(confidence),
        names: BTreeMap::new(),
    };
    let draft = Draft {
        nodes: (0..pairs.items()).map(NodeId::from).collect(),
        partitions: found.levels.into_iter().zip(found.cuts).map(partition).collect(),
        added_ms: found.heights.iter().map(|height| height.added).collect(),
    };
    draft.build(samples(&pairs))
}

/// All pairs, or of very many every n-th.
fn samples(pairs: &Pairs) -> impl Iterator<Item = (usize, usize, f32)> + '_ {
    let items = pairs.items();
    let step = (items * items / 2).div_ceil(MOST_SAMPLES).max(1);
    (0..items).flat_map(move |a| {
        // The first pair differs from row to row, so that no column is left out.
        let known = move |b| Some((a, b, pairs.known(a, b)?));
        (a % step..a).step_by(step).filter_map(known)
    })
}
