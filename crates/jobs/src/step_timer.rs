//! The times at which steps were completed, in bounded memory.

use std::time::Duration;

use gridspan_runtime::Time;
use serde::{Deserialize, Serialize};

/// Maximum number of times that an actor keeps besides that of the start. They take 8 KB.
const TIMES_MAX: u64 = 1000;

/// The times at which an actor completed every `stride`-th step. Their reduction with
/// [`Op::Max`](gridspan_runtime::Op) gives the times at which all actors had completed these steps.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StepTimer {
    stride: u64,
    /// Times in ns since the job began.
    done_ns: Vec<f64>,
}

impl StepTimer {
    /// Creates a timer for `steps` steps.
    pub fn new(steps: u64) -> Self {
        Self { stride: stride(steps), done_ns: Vec::new() }
    }

    /// Records the completion of `step`; 0 is the start. Steps must be in order.
    pub fn note(&mut self, step: u64, now: Time) {
        if step.is_multiple_of(self.stride) {
            self.done_ns.push(now.as_nanos() as f64);
        }
    }

    /// Takes the times, for a contribution.
    pub fn take(&mut self) -> Vec<f64> {
        std::mem::take(&mut self.done_ns)
    }
}

/// Returns the median time of a step and the total time, from the latest times of all actors.
pub fn median_and_total(steps: u64, done_ns: &[f64]) -> (Duration, Duration) {
    let mut strides: Vec<f64> = done_ns.windows(2).map(|pair| pair[1] - pair[0]).collect();
    strides.sort_unstable_by(f64::total_cmp);
    let median = strides.get(strides.len() / 2).copied().unwrap_or_default();
    let total = done_ns.last().zip(done_ns.first()).map_or(0.0, |(last, first)| last - first);
    let duration = |ns: f64| Duration::from_nanos(ns.max(0.0) as u64);
    (duration(median / stride(steps) as f64), duration(total))
}

fn stride(steps: u64) -> u64 {
    steps.div_ceil(TIMES_MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_step_and_the_total_are_computed_from_the_times() {
        let mut timer = StepTimer::new(4);
        for (step, ns) in [(0, 100), (1, 110), (2, 130), (3, 140), (4, 160)] {
            timer.note(step, Time(ns));
        }
        let times = timer.take();
        let expected = (Duration::from_nanos(20), Duration::from_nanos(60));
        assert_eq!(median_and_total(4, &times), expected);
        assert_eq!(median_and_total(0, &[5.0]), (Duration::ZERO, Duration::ZERO));
    }

    #[test]
    fn many_steps_take_little_memory() {
        let steps = 1_000_000;
        let mut timer = StepTimer::new(steps);
        (0..=steps).for_each(|step| timer.note(step, Time(3 * step)));
        let times = timer.take();
        assert_eq!(times.len() as u64, TIMES_MAX + 1);
        assert_eq!(median_and_total(steps, &times).0, Duration::from_nanos(3));
    }
}
