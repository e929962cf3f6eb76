//! Emulated work: waiting that stands for computing, exact on average.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Shorter waits are gathered: a thread cannot sleep for less than about 50 µs, and wakes some 50
/// µs late.
const SHORTEST: Duration = Duration::from_micros(200);

thread_local! {
    /// What this thread still has to wait, and what it has waited too long.
    static OWED: Cell<(Duration, Duration)> = const { Cell::new((Duration::ZERO, Duration::ZERO)) };
}

/// Has the calling thread wait for `time`, on average: short waits are made up for by a later one,
/// and so is what a wait took too long.
pub(crate) fn emulate(time: Duration) {
    let (mut owed, mut ahead) = OWED.get();
    owed += time;
    let settled = owed.min(ahead);
    owed -= settled;
    ahead -= settled;
    if owed >= SHORTEST {
        let begin = Instant::now();
        std::thread::sleep(owed);
        ahead += begin.elapsed().saturating_sub(owed);
        owed = Duration::ZERO;
    }
    OWED.set((owed, ahead));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_short_waits_take_as_long_as_they_should_together() {
        let begin = Instant::now();
        (0..1000).for_each(|_| emulate(Duration::from_micros(20)));
        let elapsed = begin.elapsed();
        assert!(elapsed >= Duration::from_micros(20_000) - SHORTEST, "{elapsed:?}");
    }
}
