//! Puts single nodes right that the clustering left with the wrong group.

use super::pairs::{Pairs, median};

/// A node moves only to a group that is this much nearer than its own.
const CLEARLY_NEARER: f32 = 0.75;
/// Each round puts right what the one before made visible; more than a few would be an oscillation.
const MOST_ROUNDS: usize = 3;

/// Moves each node to the group whose members it is nearest to by the median, if that is nearer
/// than `limit` and clearly nearer than its own group. `pairs` are distances, not logarithms.
pub(super) fn refine(pairs: &Pairs, groups: &mut [u32], limit: f32) {
    for _ in 0..MOST_ROUNDS {
        let count = groups.iter().max().map_or(0, |&last| last as usize + 1);
        let mut moves = Vec::new();
        let mut by_group = vec![Vec::new(); count];
        for item in 0..groups.len() {
            by_group.iter_mut().for_each(Vec::clear);
            for (other, &value) in pairs.row(item).iter().enumerate() {
                if !value.is_nan() {
                    by_group[groups[other] as usize].push(value);
                }
            }
            let own = median(&mut by_group[groups[item] as usize]).unwrap_or(f32::INFINITY);
            let medians = by_group
                .iter_mut()
                .enumerate()
                .map(|(g, values)| (median(values).unwrap_or(f32::INFINITY), g as u32));
            let best = medians.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            if let Some((nearest, group)) = best
                && group != groups[item]
                && nearest <= limit
                && nearest < CLEARLY_NEARER * own
            {
                moves.push((item, group));
            }
        }
        if moves.is_empty() {
            return;
        }
        moves.into_iter().for_each(|(item, group)| groups[item] = group);
    }
}
