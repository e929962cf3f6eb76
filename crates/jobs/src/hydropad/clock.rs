//! The client's part: how long the steps of time are.
//!
//! Steps are decided for some of them at once, the *window* of calls that are mapped together, from
//! how fast anything was at the end of the window before.

use super::expansion::{growth_at, scale_at, time_of};
use super::problem::Problem;
use serde::{Deserialize, Serialize};

/// The box grows by no more than about this part in a step.
const GROWTH: f64 = 0.05;

/// Nothing moves further than this part of a cell in a step, if it goes on as foreseen.
const MOVED: f64 = 0.5;

/// What all three tasks are told of a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct HydroStep {
    /// What is computed.
    pub problem: Problem,
    /// Which step, from 0.
    pub number: u32,
    /// The scale factor at its beginning.
    pub scale: f64,
    /// How long the step before was; 0 at first.
    pub before: f64,
    /// How long it is, in super-comoving time.
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

/// How far to go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HydroRun {
    /// What is computed.
    pub problem: Problem,
    /// So many steps, or less where the end comes before.
    pub steps: u32,
    /// Steps of a window, from 1.
    pub window: u32,
}

impl Clock {
    /// A clock that stands at the beginning.
    pub fn new(plan: HydroRun) -> Self {
        Self { plan, number: 0, time: time_of(plan.problem.begins_at), before: 0.0 }
    }

    /// The scale factor now.
    pub fn scale(&self) -> f64 {
        scale_at(self.time)
    }

    /// The steps of the next window; none at the end. The fastest moves `speed` cells per time now;
    /// what falls into a growing wave gets faster with the scale factor to the power of 3/2, as
    /// long as the wave is small (Zel'dovich).
    pub fn window(&mut self, speed: f64) -> Vec<HydroStep> {
        let HydroRun { problem, steps, window } = self.plan;
        let most = window.min(steps - self.number);
        let (begin, end) = (self.scale(), time_of(problem.ends_at));
        let mut decided = Vec::new();
        // An end that is nearer than rounding is reached.
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
    fn steps_reach_the_end_and_are_short_where_things_are_fast() {
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
    fn no_more_steps_are_made_than_were_asked_for() {
        let mut clock = Clock::new(HydroRun { problem: Problem::cube(8, 8), steps: 8, window: 5 });
        let windows = [0, 0, 0].map(|_| clock.window(1.0).len());
        assert_eq!(windows, [5, 3, 0]);
    }
}
