//! Finds the period of a series that repeats itself.

/// Maximum period, in values.
const PERIOD_MAX: usize = 32;
/// Relative difference up to which values count as equal.
const TOLERANCE: f64 = 0.05;

/// Returns the shortest period of which the last values contain at least two.
pub(super) fn period(values: &[f64]) -> Option<usize> {
    let is_same =
        |one: f64, other: f64| (one - other).abs() <= TOLERANCE * one.abs().max(other.abs());
    (1..=PERIOD_MAX.min(values.len() / 2)).find(|&period| {
        // Short periods must repeat more often, so that a coincidence does not count as a period.
        let shown = (2 * period).max(period + 3);
        values.len() >= shown
            && (values.len() - (shown - period)..values.len())
                .all(|place| is_same(values[place], values[place - period]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_period_is_found() {
        let values: Vec<f64> = [8.0, 1.0, 1.0].into_iter().cycle().take(12).collect();

        assert_eq!(period(&values), Some(3));
        assert_eq!(period(&[5.0; 4]), Some(1));
        assert_eq!(period(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), None);
        assert_eq!(period(&[1.0, 2.0]), None);
    }
}
