//! The agreement of two partitions of the same items.

use std::collections::BTreeMap;

/// Returns the adjusted Rand index of two partitions (Hubert and Arabie, 1985): 1 for equal ones,
/// about 0 for unrelated ones. Both give the group of each item by its position.
///
/// Panics if the lengths differ.
///
/// ```
/// use gridspan_topology::adjusted_rand_index;
///
/// assert_eq!(adjusted_rand_index(&[0, 0, 1, 1], &[7, 7, 3, 3]), 1.0);
/// assert!(adjusted_rand_index(&[0, 0, 1, 1], &[0, 1, 0, 1]) < 0.0);
/// ```
pub fn adjusted_rand_index(one: &[u32], other: &[u32]) -> f64 {
    assert_eq!(one.len(), other.len(), "both partitions are of the same items");
    let mut cells = BTreeMap::new();
    let (mut rows, mut columns) = (BTreeMap::new(), BTreeMap::new());
    for (&a, &b) in one.iter().zip(other) {
        *cells.entry((a, b)).or_insert(0_u64) += 1;
        *rows.entry(a).or_insert(0_u64) += 1;
        *columns.entry(b).or_insert(0_u64) += 1;
    }
    let pairs = |count: u64| (count * count.saturating_sub(1)) as f64 / 2.0;
    let together: f64 = cells.values().map(|&count| pairs(count)).sum();
    let in_one: f64 = rows.values().map(|&count| pairs(count)).sum();
    let in_other: f64 = columns.values().map(|&count| pairs(count)).sum();
    let all = pairs(one.len() as u64);
    let expected = if all > 0.0 { in_one * in_other / all } else { 0.0 };
    let best = (in_one + in_other) / 2.0;
    // Both are a single group, or both only single items.
    if best == expected { 1.0 } else { (together - expected) / (best - expected) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_agrees_with_published_values() {
        // The example in the documentation of scikit-learn's `adjusted_rand_score`.
        assert!((adjusted_rand_index(&[0, 0, 1, 2], &[0, 0, 1, 1]) - 0.571_428).abs() < 1e-5);
        assert!((adjusted_rand_index(&[0, 0, 1, 1], &[0, 1, 0, 1]) + 0.5).abs() < 1e-12);
        assert_eq!(adjusted_rand_index(&[0, 0, 0, 0], &[0, 1, 2, 3]), 0.0);
    }

    #[test]
    fn trivial_partitions_agree_with_themselves() {
        assert_eq!(adjusted_rand_index(&[], &[]), 1.0);
        assert_eq!(adjusted_rand_index(&[4, 4], &[0, 0]), 1.0);
        assert_eq!(adjusted_rand_index(&[0, 1], &[5, 6]), 1.0);
    }
}
