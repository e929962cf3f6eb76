//! Emulated work: waiting in place of computing, exact on average.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Shortest sleep. Shorter waits are accumulated, because a thread cannot sleep for less than about
/// 50 µs and wakes some 50 µs late.
const SHORTEST: Duration = Duration::from_micros(200);

thread_local! {
    /// The time that this thread still has to wait, and the excess of its earlier sleeps.
    static OWED: Cell<(Duration, Duration)> = const { Cell::new((Duration::ZERO, Duration::ZERO)) };
}

/// Makes the calling thread wait for `time` on average: waits that are too short to sleep are added
/// to a later one, and the excess of a sleep is deducted from later waits.
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
    fn many_short_waits_take_at_least_their_sum() {
        let begin = Instant::now();
        (0..1000).for_each(|_| emulate(Duration::from_micros(20)));
        let elapsed = begin.elapsed();
        assert!(elapsed >= Duration::from_micros(20_000) - SHORTEST, "{elapsed:?}");
    }
}
