//! Repairs round trips with those of the neighbours at either end.
//!
//! Nodes of one cluster have the same distances to the rest of the grid, so a pair that is slow for
//! a reason outside the network differs from the pairs beside it. Each pair is replaced by the
//! median over the *natural neighbours* of its ends. Two nodes are natural neighbours if their
//! round trip is little longer than the round trip of each to its nearest node. This needs neither
//! a fixed threshold nor a number of clusters.

use super::pairs::{Pairs, median};

/// Maximum distance of a natural neighbour relative to the nearest node: below the 2.2 by which two
/// levels may differ, above the jitter within one.
const REACH: f32 = 1.6;
/// Maximum number of neighbours; more add work and no certainty.
const MOST_NEIGHBOURS: usize = 6;
/// Maximum number of nodes near each end from which a missing pair is estimated.
const MOST_THIRDS: usize = 16;

/// Returns the natural logarithms of the repaired pairs; none is missing.
pub(super) fn smoothed(pairs: &Pairs) -> Pairs {
    let near = natural_neighbours(pairs);
    let mut smooth = Pairs::new(pairs.items());
    let mut around = Vec::with_capacity((MOST_NEIGHBOURS + 1) * (MOST_NEIGHBOURS + 1));
    let mut holes = Vec::new();
    for a in 0..pairs.items() {
        for b in 0..a {
            around.clear();
            for &i in &near[a] {
                let row = pairs.row(i);
                around.extend(near[b].iter().map(|&j| row[j]).filter(|value| !value.is_nan()));
            }
            match median(&mut around) {
                Some(value) => smooth.set(a, b, value.ln()),
                None => holes.push((a, b)),
            }
        }
    }
    fill(&mut smooth, &holes);
    smooth
}

/// Returns the natural neighbours of each item, and the item itself.
fn natural_neighbours(pairs: &Pairs) -> Vec<Vec<usize>> {
    let nearest: Vec<f32> = (0..pairs.items())
        .map(|item| pairs.row(item).iter().copied().fold(f32::INFINITY, f32::min))
        .collect();
    let of = |item: usize| {
        let row = pairs.row(item);
        // Comparisons with NaN are false. Both ends must agree: a single node is no neighbour of
        // the cluster that happens to be nearest to it.
        let is_near = |&j: &usize| row[j] <= REACH * nearest[item].min(nearest[j]);
        let mut near: Vec<usize> = (0..row.len()).filter(is_near).collect();
        near.sort_unstable_by(|&j, &k| row[j].total_cmp(&row[k]).then(j.cmp(&k)));
        near.truncate(MOST_NEIGHBOURS);
        near.push(item);
        near
    };
    (0..pairs.items()).map(of).collect()
}

/// Fills the pairs between whose neighbours nothing was measured: in a hierarchy two nodes are no
/// further apart than the further of the two is from any third node.
fn fill(smooth: &mut Pairs, holes: &[(usize, usize)]) {
    let furthest = smooth
        .row(0)
        .iter()
        .chain((1..smooth.items()).flat_map(|item| smooth.row(item)))
        .copied()
        .fold(f32::NEG_INFINITY, f32::max);
    // Without any measurement, all pairs are equal.
    let furthest = if furthest.is_finite() { furthest } else { 0.0 };
    let thirds: Vec<Vec<usize>> = if holes.is_empty() {
        Vec::new()
    } else {
        (0..smooth.items()).map(|item| closest(smooth, item)).collect()
    };
    let bound = |&(a, b): &(usize, usize)| {
        let through = |&third: &usize| smooth.value(a, third).max(smooth.value(b, third));
        let bounds = thirds[a]
            .iter()
            .chain(&thirds[b])
            .filter(|&&third| !smooth.value(a, third).is_nan() && !smooth.value(b, third).is_nan());
        bounds.map(through).reduce(f32::min).unwrap_or(furthest)
    };
    let filled: Vec<f32> = holes.iter().map(bound).collect();
    for (&(a, b), value) in holes.iter().zip(filled) {
        smooth.set(a, b, value);
    }
}

fn closest(pairs: &Pairs, item: usize) -> Vec<usize> {
    let row = pairs.row(item);
    let mut known: Vec<usize> = (0..row.len()).filter(|&j| !row[j].is_nan()).collect();
    known.sort_unstable_by(|&j, &k| row[j].total_cmp(&row[k]).then(j.cmp(&k)));
    known.truncate(MOST_THIRDS);
    known
}
