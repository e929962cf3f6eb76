//! Which part of a processor the thread of a PE gets when it wants one.
//!
//! Linux counts for each thread how long it ran and how long it waited to run while others had its
//! processor; elsewhere the part counts as whole.

use super::inbox::Inbox;
use crate::pe::{Availability, ProcessorTime};
use gridspan_topology::Time;
use std::time::{Duration, Instant};

/// The counts of the calling thread.
pub(super) struct Share {
    availability: Availability,
    begin: Instant,
}

impl Share {
    /// For the thread that made it; `begin` is when time began.
    pub(super) fn new(begin: Instant) -> Self {
        Self { availability: Availability::default(), begin }
    }

    /// The part since the last time, at most twice a second, where it is known.
    pub(super) fn look(&mut self) -> Option<f64> {
        let now = self.now();
        if !self.availability.is_due(now) {
            return None;
        }
        self.availability.read(now, counts()?)
    }

    /// How long an idle PE may sleep before it should try again how much it gets; zero if it should now.
    pub(super) fn patience(&self) -> Option<Duration> {
        Some(self.availability.next_trial()?.since(self.now()))
    }

    /// Computes for nothing, until something comes or it is known.
    pub(super) fn try_out(&mut self, inbox: &Inbox) {
        let begin = Instant::now();
        while begin.elapsed() < Availability::TRIAL && !inbox.is_ready() {
            std::hint::spin_loop();
        }
        self.availability.tried(self.now());
    }

    fn now(&self) -> Time {
        Time(self.begin.elapsed().as_nanos() as u64)
    }
}

/// How long the calling thread ran, and how long it waited to run.
fn counts() -> Option<ProcessorTime> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let mut numbers = text.split_ascii_whitespace().map(str::parse);
    let [ran, waited] = [numbers.next()?.ok()?, numbers.next()?.ok()?].map(Duration::from_nanos);
    Some(ProcessorTime { ran, waited })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_shows_where_the_system_counts() {
        let Some(before) = counts() else {
            println!("skipped: this system does not count");
            return;
        };
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(50) {
            std::hint::black_box(0);
        }
        let after = counts().unwrap();
        assert!(after.ran > before.ran);
    }
}
