//! Measures the speed of a processor with a short kernel that each PE runs at its start.
//!
//! The shortest of many runs counts, each far shorter than a scheduler's time slice, so that other
//! programs on the processor do not make it seem slow. Effects outside the kernel, such as slow
//! memory, show when actors move ([`SpeedEstimate`](gridspan_balance::SpeedEstimate)).

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Time of one run on an ordinary processor. Only ratios matter.
const ORDINARY: Duration = Duration::from_micros(100);
/// Largest number of runs.
const RUNS_MAX: u32 = 20;
/// Time after which no further run begins.
const TIME_MAX: Duration = Duration::from_millis(10);
/// Numbers that one run updates: they fit into any first-level cache.
const NUMBERS: usize = 1024;
/// Number of passes over these numbers in one run.
const ROUNDS: u64 = 50;

/// The speed of the processor that the calling thread runs on; 1 is an ordinary one. Takes a few
/// milliseconds.
pub(super) fn speed() -> f64 {
    let begin = Instant::now();
    let mut shortest = Duration::MAX;
    for _ in 0..RUNS_MAX {
        let run = Instant::now();
        black_box(compute(black_box(ROUNDS)));
        shortest = shortest.min(run.elapsed());
        if begin.elapsed() > TIME_MAX {
            break;
        }
    }
    ORDINARY.as_secs_f64() / shortest.as_secs_f64().max(1e-9)
}

/// Integer and floating-point work in which each step depends on the one before, as in most
/// programs.
fn compute(rounds: u64) -> f64 {
    let mut numbers = [0.0_f64; NUMBERS];
    let mut state = rounds;
    for _ in 0..rounds {
        for number in &mut numbers {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Not `mul_add`, which calls the C library where the target has no such instruction.
            *number = *number * 0.5 + (state >> 40) as f64;
        }
    }
    numbers.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_has_a_speed_within_bounds() {
        let speed = speed();

        assert!((1e-3..1e3).contains(&speed), "{speed}");
    }
}
