//! Computes nested partitions from measured pairs: runs the steps of inference from a full matrix
//! in order.

use super::dendrogram::{Dendrogram, Merge, renumbered};
use super::height::{Height, heights, without_heights};
use super::levels::{Weighted, cuts};
use super::pairs::Pairs;
use super::refine::refine;
use super::smooth::smoothed;
use std::collections::BTreeMap;

/// The partitions of one set of items, each finer than the previous one.
#[derive(Clone, Debug, Default)]
pub(in crate::infer) struct Nested {
    /// The group of each item at each level below the whole, coarsest first.
    pub(in crate::infer) levels: Vec<Vec<u32>>,
    /// For each of `levels`, the round trip in milliseconds that separates it from the level above,
    /// and the confidence in that separation.
    pub(in crate::infer) cuts: Vec<(f32, f32)>,
    /// The delay that each item adds to its round trips.
    pub(in crate::infer) heights: Vec<Height>,
}

/// Finds all levels in pairs given in milliseconds.
pub(in crate::infer) fn nested(pairs: &Pairs) -> Nested {
    let heights = heights(pairs);
    let lowered = without_heights(pairs, &heights);
    let dendrogram = Dendrogram::new(smoothed(&lowered), vec![1.0; pairs.items()]);
    let weighted: Vec<Weighted> = dendrogram.merges().iter().map(weigh).collect();
    let mut found = cuts(&weighted);
    found.reverse();
    let mut levels: Vec<Vec<u32>> = found.iter().map(|cut| dendrogram.cut(cut.at)).collect();
    if let (Some(finest), Some(cut)) = (levels.last().cloned(), found.last()) {
        let mut moved = finest.clone();
        refine(&lowered, &mut moved, cut.at.exp());
        follow(&mut levels, &finest, &moved);
    }
    let cuts = found.iter().map(|cut| (cut.at.exp(), cut.confidence)).collect();
    Nested { levels, cuts, heights }
}

/// Weighs a merge by the harmonic mean of its sides, so that the merges of each level together
/// weigh about as much as the number of nodes; weights by pairs would give almost all weight to the
/// top.
pub(in crate::infer) fn weigh(merge: &Merge) -> Weighted {
    let [small, large] = merge.sizes;
    (merge.height, 2.0 * small * large / (small + large))
}

/// Applies moves between the finest groups to the levels above.
fn follow(levels: &mut [Vec<u32>], before: &[u32], after: &[u32]) {
    let Some((finest, above)) = levels.split_last_mut() else { return };
    for level in above {
        let of_group: BTreeMap<u32, u32> =
            before.iter().zip(level.iter()).map(|(&group, &parent)| (group, parent)).collect();
        let moved: Vec<u32> = after.iter().map(|group| of_group[group]).collect();
        *level = renumbered(&moved);
    }
    *finest = renumbered(after);
}
