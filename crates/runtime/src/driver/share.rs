//! Which share of a processor a thread got when it wanted one.
//!
//! Linux counts for each thread how long it ran and how long it waited to run while others had its
//! processor; elsewhere the share counts as whole.

use std::time::{Duration, Instant};

/// How often the counts are read.
const EVERY: Duration = Duration::from_millis(500);
/// A thread that wanted less than this in the meantime tells nothing.
const WANTED_MIN: Duration = Duration::from_millis(5);

/// The counts of the calling thread.
pub(super) struct Share {
    last: Option<(u64, u64)>,
    read: Instant,
}

impl Share {
    pub(super) fn new() -> Self {
        Self { last: counts(), read: Instant::now() }
    }

    /// The share since the last time, at most twice a second, where it is known. For the thread
    /// that made it.
    pub(super) fn look(&mut self, now: Instant) -> Option<f64> {
        if now.duration_since(self.read) < EVERY {
            return None;
        }
        self.read = now;
        let (ran, waited) = counts()?;
        let (ran_before, waited_before) = self.last.replace((ran, waited))?;
        share(ran.saturating_sub(ran_before), waited.saturating_sub(waited_before))
    }
}

fn share(ran_ns: u64, waited_ns: u64) -> Option<f64> {
    let wanted = ran_ns + waited_ns;
    (wanted >= WANTED_MIN.as_nanos() as u64).then(|| ran_ns as f64 / wanted as f64)
}

/// Nanoseconds that the calling thread ran, and that it waited to run.
fn counts() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let mut numbers = text.split_ascii_whitespace().map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_waited_as_long_as_it_ran_got_half() {
        assert_eq!(share(10_000_000, 10_000_000), Some(0.5));
        assert_eq!(share(1_000, 9_000), None, "too little to tell");
    }

    #[test]
    fn running_shows_where_the_system_counts() {
        let Some((before, _)) = counts() else {
            println!("skipped: this system does not count");
            return;
        };
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(50) {
            std::hint::black_box(0);
        }
        let (after, _) = counts().unwrap();
        assert!(after > before);
    }
}
