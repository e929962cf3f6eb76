//! The difference between two clocks, from questions and answers (F. Cristian, "Probabilistic clock
//! synchronization", 1989).
//!
//! An answer was given between its question and its arrival. So each answer bounds the difference
//! from both sides, and all answers together bound it best.

/// One question and its answer. All times are in nanoseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockSample {
    /// When it was asked, by the clock of this host.
    pub(super) asked: u64,
    /// The answer: the time of the other clock.
    pub(super) answer: u64,
    /// When the answer came, by the clock of this host.
    pub(super) came: u64,
}

/// How much another clock is ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClockOffset {
    /// Nanoseconds by which it is ahead; negative if it is behind.
    pub(super) ahead_ns: i128,
    /// Largest error of that number.
    pub(super) uncertainty_ns: u128,
}

/// Returns how much the other clock is ahead; `None` without samples.
pub(super) fn offset(samples: &[ClockSample]) -> Option<ClockOffset> {
    let all = || samples.iter().map(bounds);
    let common = all().reduce(|(a, b), (c, d)| (a.max(c), b.min(d))).filter(|(a, b)| a <= b);
    // If the bounds have nothing in common, one of the clocks was set, and the fastest answer is
    // the most exact one.
    let (least, greatest) = common.or_else(|| all().min_by_key(|(a, b)| (b - a).unsigned_abs()))?;
    let width = greatest - least;
    Some(ClockOffset {
        ahead_ns: least + width / 2,
        uncertainty_ns: width.unsigned_abs().div_ceil(2),
    })
}

/// Returns the least and the greatest difference that a sample allows.
fn bounds(sample: &ClockSample) -> (i128, i128) {
    let [asked, answer, came] = [sample.asked, sample.answer, sample.came].map(i128::from);
    (answer - came.max(asked), answer - asked)
}

impl ClockOffset {
    /// Nanoseconds by which the clocks differ at least.
    pub(super) fn certain_ns(self) -> u128 {
        self.ahead_ns.unsigned_abs().saturating_sub(self.uncertainty_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(asked: u64, answer: u64, came: u64) -> ClockSample {
        ClockSample { asked, answer, came }
    }

    #[test]
    fn the_middle_of_a_round_trip_is_the_best_guess() {
        // The other clock shows 1000 + 500, and the round trip takes 100.
        let found = offset(&[sample(1000, 1550, 1100)]);
        assert_eq!(found, Some(ClockOffset { ahead_ns: 500, uncertainty_ns: 50 }));
        let behind = offset(&[sample(1000, 50, 1100)]);
        assert_eq!(behind, Some(ClockOffset { ahead_ns: -1000, uncertainty_ns: 50 }));
        assert_eq!(offset(&[]), None);
    }

    #[test]
    fn several_answers_narrow_each_other() {
        // Bounds of 400 to 500, and of 450 to 650.
        let found = offset(&[sample(1000, 1500, 1100), sample(2000, 2650, 2200)]);
        assert_eq!(found, Some(ClockOffset { ahead_ns: 475, uncertainty_ns: 25 }));
    }

    #[test]
    fn the_fastest_answer_counts_if_a_clock_was_set() {
        let found = offset(&[sample(1000, 1550, 1100), sample(2000, 9005, 2010)]);
        assert_eq!(found, Some(ClockOffset { ahead_ns: 7000, uncertainty_ns: 5 }));
    }

    #[test]
    fn impossible_times_do_no_harm() {
        let found = offset(&[sample(u64::MAX, 0, 0)]).unwrap();
        assert_eq!(found.ahead_ns, -i128::from(u64::MAX));
        assert!(offset(&[sample(0, u64::MAX, u64::MAX)]).is_some());
        let certain =
            |ahead_ns, uncertainty_ns| ClockOffset { ahead_ns, uncertainty_ns }.certain_ns();
        assert_eq!((certain(-70, 20), certain(10, 20)), (50, 0));
    }
}
