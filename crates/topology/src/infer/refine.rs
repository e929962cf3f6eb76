//! Moves single nodes that the clustering left in the wrong group.

use super::height::MOST_MS;
use super::pairs::{Pairs, median};

/// A node moves if the ratio of its distances to another group and to its own is below this.
const CLEARLY_NEARER: f32 = 0.75;
/// A node that is alone in its group counts as busy, and moves, if the ratio of its distances to
/// the nearest and the second group is at most this, and it is no further away than busy hosts are.
const LIKELY_BUSY: f32 = 0.5;
/// Maximum number of rounds: each corrects errors that the previous one revealed, and more than a
/// few would be an oscillation.
const MOST_ROUNDS: usize = 3;

/// Moves each node to the group with the least median distance to its members, if that is less than
/// `limit` and clearly less than the distance to its own group. `pairs` are distances, not
/// logarithms.
pub(super) fn refine(pairs: &Pairs, groups: &mut [u32], limit: f32) {
    for _ in 0..MOST_ROUNDS {
        let count = groups.iter().max().map_or(0, |&last| last as usize + 1);
        let mut moves = Vec::new();
        let mut sizes = vec![0; count];
        groups.iter().for_each(|&group| sizes[group as usize] += 1);
        let mut by_group = vec![Vec::new(); count];
        for item in 0..groups.len() {
            by_group.iter_mut().for_each(Vec::clear);
            for (other, &value) in pairs.row(item).iter().enumerate() {
                if !value.is_nan() {
                    by_group[groups[other] as usize].push(value);
                }
            }
            let own = median(&mut by_group[groups[item] as usize]).unwrap_or(f32::INFINITY);
            let mut medians: Vec<(f32, u32)> = by_group
                .iter_mut()
                .zip(0..)
                .map(|(values, group)| (median(values).unwrap_or(f32::INFINITY), group))
                .filter(|&(_, group)| group != groups[item])
                .collect();
            medians.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let Some(&(nearest, group)) = medians.first() else { continue };
            let second = medians.get(1).map_or(f32::INFINITY, |&(ms, _)| ms);
            // Only one of two single nodes moves, because otherwise they would swap groups.
            let is_alone =
                own == f32::INFINITY && (sizes[group as usize] > 1 || group < groups[item]);
            let is_busy = is_alone && nearest <= limit + MOST_MS && nearest <= LIKELY_BUSY * second;
            if nearest < CLEARLY_NEARER * own && (nearest <= limit || is_busy) {
                moves.push((item, group));
            }
        }
        if moves.is_empty() {
            return;
        }
        moves.into_iter().for_each(|(item, group)| groups[item] = group);
    }
}
