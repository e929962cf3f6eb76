//! The client's choice of the lengths of time steps.
//!
//! A *window* is a number of calls that are mapped together. The client chooses the steps of a
//! window at once, from the largest speed at the end of the preceding window.

use super::expansion::{growth_at, scale_at, time_of};
use super::problem::Problem;
use serde::{Deserialize, Serialize};

/// Largest growth of the logarithm of the scale factor in a step, approximately.
const GROWTH: f64 = 0.05;

/// Largest motion in a step, in cells, at the foreseen speed.
const MOVED: f64 = 0.5;

/// The parameters of a step, for all three tasks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct HydroStep {
    /// The computed problem.
    pub problem: Problem,
    /// Number of the step, from 0.
    pub number: u32,
    /// Scale factor at the beginning of the step.
    pub scale: f64,
    /// Length of the preceding step in super-comoving time; 0 for the first.
    pub before: f64,
    /// Length of the step in super-comoving time.
    pub time: f64,
}

/// Decides steps, window by window.
#[derive(Clone, Debug)]
pub struct Clock {
    plan: HydroRun,
    number: u32,
    time: f64,
    before: f64,
}

/// The problem and the length of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct HydroRun {
    /// The computed problem.
    pub problem: Problem,
    /// Maximum number of steps; fewer if the run reaches its end before.
    pub steps: u32,
    /// Number of steps in a window, at least 1.
    pub window: u32,
}

impl Clock {
    /// Creates a clock at the beginning of the run.
    pub fn new(plan: HydroRun) -> Self {
        Self { plan, number: 0, time: time_of(plan.problem.begins_at), before: 0.0 }
    }

    /// Current scale factor.
    pub fn scale(&self) -> f64 {
        scale_at(self.time)
    }

    /// Returns the steps of the next window; none at the end. `speed` is the largest current speed,
    /// in cells per super-comoving time. The speed of matter that falls into a growing wave
    /// increases with the scale factor to the power of 3/2, as long as the wave is small
    /// (Zel'dovich).
    pub fn window(&mut self, speed: f64) -> Vec<HydroStep> {
        let HydroRun { problem, steps, window } = self.plan;
        let most = window.min(steps - self.number);
        let (begin, end) = (self.scale(), time_of(problem.ends_at));
        let mut decided = Vec::new();
        // A shorter rest may be a rounding error.
        while decided.len() < most as usize && end - self.time > 1e-9 {
            let scale = self.scale();
            let foreseen = speed * (scale / begin).powf(1.5);
            let time = (GROWTH / growth_at(scale)).min(MOVED / foreseen).min(end - self.time);
            let Self { number, before, .. } = *self;
            decided.push(HydroStep { problem, number, scale, before, time });
            (self.number, self.time, self.before) = (number + 1, self.time + time, time);
        }
        decided
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_reach_the_end_and_are_shorter_at_higher_speed() {
        let plan = HydroRun { problem: Problem::cube(8, 8), steps: 1000, window: 5 };
        let mut clock = Clock::new(plan);

        let [slow, fast] = [1e-3, 100.0].map(|speed| clock.window(speed));
        let mut rest = 0;
        while clock.window(1e-3).len() == 5 {
            rest += 5;
        }

        assert_eq!([slow.len(), fast.len()], [5, 5]);
        assert_eq!((slow[0].before, slow[1].before), (0.0, slow[0].time));
        // Half a cell at a hundred cells per time.
        assert_eq!(fast[0].time, 0.005);
        assert!(fast[4].time < 0.005 && fast[4].number == 9);
        assert!(rest < 100 && (clock.scale() - 0.8).abs() < 1e-9);
        assert_eq!(clock.window(1e-3), []);
    }

    #[test]
    fn the_number_of_steps_is_limited() {
        let mut clock = Clock::new(HydroRun { problem: Problem::cube(8, 8), steps: 8, window: 5 });
        let windows = [0, 0, 0].map(|_| clock.window(1.0).len());
        assert_eq!(windows, [5, 3, 0]);
    }
}
