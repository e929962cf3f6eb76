//! Units of figures, goals, and verdicts.

use super::interval::Interval;
use gridspan_jobs::paired::three_digits;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// The unit that shows the measured time of an operation, and determines whether more is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FigureUnit {
    /// The time of an operation; less is better.
    Time,
    /// Operations per second; more is better.
    Rate,
    /// Bits per second, given the number of bytes of an operation; more is better.
    Bits(u64),
}

impl FigureUnit {
    /// Formats the time of an operation, given in nanoseconds, in this unit.
    pub fn show(self, time_ns: f64) -> String {
        match self {
            Self::Time => show_time(time_ns),
            Self::Rate => match 1e9 / time_ns {
                rate if rate >= 1e6 => format!("{} M/s", three_digits(rate / 1e6)),
                rate if rate >= 1e3 => format!("{} k/s", three_digits(rate / 1e3)),
                rate => format!("{} /s", three_digits(rate)),
            },
            Self::Bits(bytes) => match 8e3 * bytes as f64 / time_ns {
                megabits if megabits >= 1e3 => format!("{} Gbit/s", three_digits(megabits / 1e3)),
                megabits => format!("{} Mbit/s", three_digits(megabits)),
            },
        }
    }

    /// Whether a small ratio of ours to theirs is good.
    pub fn is_less_better(self) -> bool {
        self == Self::Time
    }

    /// Returns the ratio of our value to theirs in this unit, given the times in nanoseconds.
    pub fn ratio_of_times(self, ours_ns: f64, theirs_ns: f64) -> f64 {
        if self.is_less_better() { ours_ns / theirs_ns } else { theirs_ns / ours_ns }
    }
}

fn show_time(time_ns: f64) -> String {
    match time_ns {
        ns if ns < 1e3 => format!("{} ns", three_digits(ns)),
        ns if ns < 1e6 => format!("{} µs", three_digits(ns / 1e3)),
        ns if ns < 1e9 => format!("{} ms", three_digits(ns / 1e6)),
        ns => format!("{} s", three_digits(ns / 1e9)),
    }
}

/// The value that a figure should reach.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FigureGoal {
    /// The ratio of ours to theirs: at most for times, at least for rates. A goal of 1 means to be
    /// faster.
    Ratio(f64),
    /// The longest time of our operation, in nanoseconds.
    Limit(u64),
}

impl FigureGoal {
    /// The goal that an operation takes at most `limit`.
    pub fn limit(limit: Duration) -> Self {
        Self::Limit(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Judges the interval of the ratio, or of the time in nanoseconds.
    pub fn judge(self, unit: FigureUnit, interval: Interval) -> FigureVerdict {
        let (goal, is_at_most) = match self {
            Self::Ratio(goal) => (goal, unit.is_less_better()),
            Self::Limit(limit_ns) => (limit_ns as f64, true),
        };
        let is_met = |value: f64| if is_at_most { value <= goal } else { value >= goal };
        match (is_met(interval.low), is_met(interval.high)) {
            (true, true) => FigureVerdict::Met,
            (false, false) if self == Self::Ratio(1.0) => FigureVerdict::Lost,
            (false, false) => FigureVerdict::Missed,
            _ => FigureVerdict::NotDecided,
        }
    }

    /// Formats the goal with the verdict on an interval.
    pub fn show(self, unit: FigureUnit, interval: Interval) -> String {
        format!("{}: {}", self.text(unit), self.judge(unit, interval))
    }

    /// Formats the goal.
    pub fn text(self, unit: FigureUnit) -> String {
        match self {
            Self::Ratio(1.0) => "faster".to_owned(),
            Self::Ratio(goal) if unit.is_less_better() => format!("at most {goal}"),
            Self::Ratio(goal) => format!("at least {goal}"),
            Self::Limit(limit_ns) => {
                let bound = if unit.is_less_better() { "at most" } else { "at least" };
                format!("{bound} {}", unit.show(limit_ns as f64))
            }
        }
    }
}

/// Whether a goal is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FigureVerdict {
    /// The whole interval is on the right side of the goal.
    Met,
    /// The whole interval is on the wrong side.
    Missed,
    /// The goal is to be faster, and the whole interval is on the wrong side.
    Lost,
    /// The goal is inside of the interval.
    NotDecided,
}

impl FigureVerdict {
    /// The verdict on a value that has no interval.
    pub fn of(is_met: bool) -> Self {
        if is_met { Self::Met } else { Self::Missed }
    }
}

impl fmt::Display for FigureVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Met => "met",
            Self::Missed => "**missed**",
            Self::Lost => "**we lose**",
            Self::NotDecided => "not decided",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(low: f64, high: f64) -> Interval {
        Interval { median: (low + high) / 2.0, low, high }
    }

    #[test]
    fn a_goal_is_met_or_missed_only_by_the_whole_interval() {
        let most = FigureGoal::Ratio(1.25);
        let judge = |low, high| most.judge(FigureUnit::Time, interval(low, high));
        assert_eq!(judge(1.1, 1.25), FigureVerdict::Met);
        assert_eq!(judge(1.2, 1.3), FigureVerdict::NotDecided);
        assert_eq!(judge(1.26, 1.3), FigureVerdict::Missed);

        let least = FigureGoal::Ratio(2.0);
        let judge = |low, high| least.judge(FigureUnit::Rate, interval(low, high));
        assert_eq!(judge(2.0, 2.3), FigureVerdict::Met);
        assert_eq!(judge(1.2, 1.3), FigureVerdict::Missed);
    }

    #[test]
    fn a_missed_goal_to_be_faster_is_a_loss() {
        let shown = FigureGoal::Ratio(1.0).show(FigureUnit::Rate, interval(0.8, 0.9));
        assert_eq!(shown, "faster: **we lose**");
    }

    #[test]
    fn limits_are_of_times_and_shown_in_the_unit() {
        let limit = FigureGoal::limit(Duration::from_millis(55));
        let times = interval(36e6, 37e6);
        assert_eq!(limit.show(FigureUnit::Time, times), "at most 55.0 ms: met");
        assert_eq!(limit.show(FigureUnit::Rate, times), "at least 18.2 /s: met");
    }

    #[test]
    fn values_have_the_unit_of_their_size() {
        assert_eq!(FigureUnit::Time.show(1750.0), "1.75 µs");
        assert_eq!(FigureUnit::Time.show(2.5e9), "2.50 s");
        // 32.7 million a second are one each 30.6 ns.
        assert_eq!(FigureUnit::Rate.show(1e9 / 32.7e6), "32.7 M/s");
        assert_eq!(FigureUnit::Rate.show(1e9 / 380e3), "380 k/s");
        // A mebibyte in 405 µs.
        assert_eq!(FigureUnit::Bits(1 << 20).show(405e3), "20.7 Gbit/s");
        assert_eq!(FigureUnit::Bits(1 << 20).show(14.5e6), "579 Mbit/s");
    }
}
