//! Inference from a full matrix.

use super::labels::{Labelled, SiteNames, merge};
use super::nested::nested;
use super::pairs::Pairs;
use crate::hierarchy::{Draft, Hierarchy, Partition};
use crate::id::NodeId;
use crate::matrix::RttMatrix;
use std::collections::BTreeMap;

/// Maximum number of samples: more do not improve a median.
const MOST_SAMPLES: usize = 1 << 21;

/// Infers the hierarchy in a matrix of round-trip times, with as many levels as the matrix shows.
/// Takes O(n² log n) time, about 15 ms for 256 nodes, and O(n²) memory.
///
/// The method tolerates jitter, single slow pairs, busy hosts (up to 0.5 ms), asymmetry and missing
/// entries as long as most pairs are sound; `cargo bench --bench topology` measures how well. If
/// latencies form a continuum, it separates levels at the rarest ones, with a low confidence.
/// The method follows the "robust" one of this project's study: average linkage on repaired
/// distances, levels by persistent valleys.
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
    draft(&pairs).build(samples(&pairs))
}

/// Infers the hierarchy as [`infer`] does, but the user's site names override the measurements.
/// Nodes with the same name are in one group of the level that matches the names best, and nodes
/// with different names are in different groups. Measurements place the nodes without a name. The
/// time and memory are those of [`infer`].
///
/// ```
/// use gridspan_topology::{NodeId, RttMatrix, SiteNames, infer_labelled};
/// use std::time::Duration;
///
/// let matrix = RttMatrix::from_fn(8, |a, b| {
///     Some(Duration::from_micros(if a.0 % 2 == b.0 % 2 { 100 } else { 80_000 }))
/// });
/// let names = [(0, "delft"), (2, "delft"), (1, "bern"), (3, "delft")];
/// let names: SiteNames = names.map(|(node, name)| (NodeId(node), name.to_owned())).into();
///
/// let labelled = infer_labelled(&matrix, &names);
///
/// let hierarchy = &labelled.hierarchy;
/// assert_eq!(hierarchy.group_of(NodeId(3), 1), hierarchy.group_of(NodeId(0), 1));
/// assert_eq!(
///     labelled.contradictions[0].to_string(),
///     "node3 is said to be in site `delft`, but is 80.0ms from node0 there; \
///      correct its site, or the name if these are two sites"
/// );
/// ```
pub fn infer_labelled(matrix: &RttMatrix, names: &SiteNames) -> Labelled {
    let pairs = Pairs::symmetrised(matrix);
    let draft = draft(&pairs);
    merge(&draft, &draft.build(samples(&pairs)), names, || samples(&pairs))
}

fn draft(pairs: &Pairs) -> Draft {
    let found = nested(pairs);
    let partition = |(groups, (cut_ms, confidence)): (Vec<u32>, (f32, f32))| Partition {
        groups,
        cut_ms,
        confidence: f64::from(confidence),
        names: BTreeMap::new(),
    };
    Draft {
        nodes: (0..pairs.items()).map(NodeId::from).collect(),
        partitions: found.levels.into_iter().zip(found.cuts).map(partition).collect(),
        added_ms: found.heights.iter().map(|height| height.added).collect(),
    }
}

/// Returns all pairs, or every n-th if there are very many.
fn samples(pairs: &Pairs) -> impl Iterator<Item = (usize, usize, f32)> + '_ {
    let items = pairs.items();
    let step = (items * items / 2).div_ceil(MOST_SAMPLES).max(1);
    (0..items).flat_map(move |a| {
        // The first pair differs from row to row, so that no column is left out.
        let known = move |b| Some((a, b, pairs.known(a, b)?));
        (a % step..a).step_by(step).filter_map(known)
    })
}
