//! Time that a PE's thread ran, and time that it waited while other threads had its processor.
//!
//! Linux counts both for each thread; other systems yield nothing.

use super::inbox::Inbox;
use crate::pe::{Spent, TRIAL};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Period of reading the counts, which takes 1 µs, or 10 µs if the code is not in the processor's
/// caches.
const EVERY: Duration = Duration::from_millis(100);
/// Bytes of a line: room for two numbers of 20 digits and a third.
const LINE_BYTES_MAX: usize = 80;

/// The counts of one thread.
pub(super) struct Share {
    file: Option<File>,
    last: Option<(u64, u64)>,
    read: Instant,
}

impl Share {
    /// Creates the counts of the calling thread.
    pub(super) fn new() -> Self {
        let file = File::open("/proc/thread-self/schedstat").ok();
        let mut share = Self { file, last: None, read: Instant::now() };
        share.last = share.counts();
        share
    }

    /// Returns the times since the last reading, at most ten times a second; `None` in between or
    /// where the system does not count them.
    pub(super) fn look(&mut self, now: Instant) -> Option<Spent> {
        if now.duration_since(self.read) < EVERY {
            return None;
        }
        self.read = now;
        let counts = self.counts()?;
        let before = self.last?;
        Some(self.since(before, counts))
    }

    /// Spins until something arrives in the inbox or [`TRIAL`] is over. Returns the times of the
    /// spin, if the system counts them.
    pub(super) fn try_out(&mut self, inbox: &Inbox) -> Option<Spent> {
        self.last = self.counts();
        self.read = Instant::now();
        while self.read.elapsed() < TRIAL && !inbox.is_ready() {
            std::hint::spin_loop();
        }
        let before = self.last?;
        Some(self.since(before, self.counts()?))
    }

    /// Returns how long the thread has run, and how long it has waited to run, since it began;
    /// `None` where the system does not count that.
    pub(super) fn totals(&self) -> Option<(Duration, Duration)> {
        self.counts().map(durations)
    }

    /// Returns the [`totals`](Self::totals) of the last reading, or reads them again if it is older
    /// than [`EVERY`]. Does not change the result of the next [`look`](Self::look).
    pub(super) fn last_totals(&self) -> Option<(Duration, Duration)> {
        match self.read.elapsed() < EVERY {
            true => self.last.map(durations),
            false => self.totals(),
        }
    }

    fn since(&mut self, before: (u64, u64), (ran, waited): (u64, u64)) -> Spent {
        self.last = Some((ran, waited));
        Spent {
            ran: Duration::from_nanos(ran.saturating_sub(before.0)),
            waited: Duration::from_nanos(waited.saturating_sub(before.1)),
            communication: None,
        }
    }

    /// Nanoseconds that the thread ran, and that it waited to run.
    fn counts(&self) -> Option<(u64, u64)> {
        let mut line = [0; LINE_BYTES_MAX];
        let length = self.file.as_ref()?.read_at(&mut line, 0).ok()?;
        counts(line.get(..length)?)
    }
}

fn durations((ran, waited): (u64, u64)) -> (Duration, Duration) {
    (Duration::from_nanos(ran), Duration::from_nanos(waited))
}

fn counts(line: &[u8]) -> Option<(u64, u64)> {
    let mut numbers = str::from_utf8(line).ok()?.split_ascii_whitespace().map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_two_numbers_of_a_line_are_read() {
        assert_eq!(counts(b"1200 34 5\n"), Some((1200, 34)));
        assert_eq!(counts(b"nonsense"), None);
    }

    #[test]
    fn running_time_is_measured_where_the_system_counts_it() {
        let mut share = Share::new();
        if share.last.is_none() {
            println!("skipped: this system does not count");
            return;
        }
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(150) {
            std::hint::black_box(0);
        }
        let spent = share.look(Instant::now()).unwrap();
        let all = spent.ran + spent.waited;
        assert!(all > Duration::from_millis(100) && all < begin.elapsed() * 2, "{spent:?}");
        assert_eq!(share.look(Instant::now()), None, "too soon");
        let (last, now) = (share.last_totals().unwrap(), share.totals().unwrap());
        assert!(Duration::ZERO < last.0 && last.0 <= now.0 && last.1 <= now.1, "{last:?} {now:?}");
    }

    #[test]
    fn totals_of_a_thread_that_has_not_looked_for_long_are_new_and_the_next_look_has_all() {
        let mut share = Share::new();
        let Some(first) = share.last else {
            println!("skipped: this system does not count");
            return;
        };
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(150) {
            std::hint::black_box(0);
        }

        let totals = share.last_totals().unwrap();

        let since = totals.0 + totals.1 - Duration::from_nanos(first.0 + first.1);
        assert!(since > Duration::from_millis(100), "{since:?}");
        assert_eq!(share.last, Some(first));
        let spent = share.look(Instant::now()).unwrap();
        assert!(spent.ran + spent.waited >= since, "{spent:?} {since:?}");
    }
}
