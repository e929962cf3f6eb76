//! The recent pace of a job: the number of messages that its actors handled per unit of time.

use crate::gate::step_times::StepTimes;
use std::collections::VecDeque;
use std::time::Duration;

/// Pieces of time since actors last moved, with the number of messages handled in each.
#[derive(Debug, Default)]
pub(crate) struct RecentPace {
    pieces: VecDeque<(Duration, u64)>,
    /// Number of pieces that belong to the present window.
    fresh: usize,
    /// Whether the job began in the first piece.
    has_begin: bool,
    /// Whether the next piece began before actors moved.
    is_moving: bool,
}

/// Only this number of the latest pieces counts; if the present window has more pieces, all of them
/// count. Older pieces do not count, because the pace at the beginning of a job is not typical.
const PIECES: usize = 16;
/// Maximum number of pieces kept, for windows that never end.
const PIECES_MAX: usize = 256;
/// Minimum number of samples from which the spread of steps can be derived.
const SAMPLES_MIN: usize = 3;
/// Factor by which steps must be longer to count as slower where the spread of steps is unknown.
const UNKNOWN_DIFFERENCE: f64 = 1.25;

/// Time that a step usually takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct UsualStep {
    pub(crate) median: Duration,
    /// Only steps longer than this count as slower.
    pub(crate) slow: Duration,
}

impl RecentPace {
    /// Creates the pace of a job that has not begun.
    pub(crate) fn of_new_job() -> Self {
        Self { has_begin: true, ..Self::default() }
    }

    /// Creates the pace of a job after a move of its actors.
    pub(crate) fn after_a_move() -> Self {
        Self { is_moving: true, ..Self::default() }
    }

    /// Adds a piece of time in which `handled` messages were handled. Returns whether actors moved
    /// in it; such a piece is dropped, because its pace is not that of steps.
    pub(crate) fn add(&mut self, time: Duration, handled: u64) -> bool {
        if std::mem::take(&mut self.is_moving) {
            return true;
        }
        if self.pieces.len() == PIECES_MAX {
            self.pieces.pop_front();
            self.has_begin = false;
        }
        self.pieces.push_back((time, handled));
        self.fresh = (self.fresh + 1).min(self.pieces.len());
        false
    }

    pub(crate) fn end_window(&mut self) {
        self.fresh = 0;
    }

    /// Returns the usual time of a step of `messages` messages. `window` is the average time of a
    /// step in the present window.
    pub(crate) fn usual_step(&self, messages: f64, window: Duration) -> UsualStep {
        let wanted = self.fresh.max(PIECES);
        let is_first = |at: usize| self.has_begin && at == 0 && self.pieces.len() > SAMPLES_MIN;
        let skipped = self.pieces.len().saturating_sub(wanted);
        let mut times = StepTimes::default();
        for (at, &(time, handled)) in self.pieces.iter().enumerate().skip(skipped) {
            if !is_first(at) {
                times.add(time.as_secs_f64(), handled as f64 / messages.max(1.0));
            }
        }
        if times.len() < SAMPLES_MIN {
            return UsualStep { median: window, slow: window.mul_f64(UNKNOWN_DIFFERENCE) };
        }
        let [median, slow] =
            [0.5, 0.75].map(|part| Duration::try_from_secs_f64(times.quantile(part)));
        let [median, slow] = [median, slow].map(|time| time.unwrap_or(Duration::MAX));
        UsualStep { median, slow }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_beginning_of_a_job_and_single_outliers_do_not_count() {
        let mut pace = RecentPace::of_new_job();
        for ms in [900, 40, 42, 38, 300, 41, 39] {
            pace.add(MS * ms, 100);
        }

        let step = pace.usual_step(100.0, MS * 200);

        assert_eq!((step.median, step.slow), (MS * 40, MS * 42));
    }

    #[test]
    fn with_one_piece_a_step_is_slower_if_it_takes_a_quarter_more() {
        let mut pace = RecentPace::of_new_job();
        pace.add(MS * 900, 900);

        let step = pace.usual_step(100.0, MS * 100);

        assert_eq!((step.median, step.slow), (MS * 100, MS * 125));
    }
}
