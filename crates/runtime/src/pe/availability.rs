//! Which part of a processor a PE gets when it wants one, from what its driver counts.
//!
//! Start: all of it. Steady state: the driver shows its counts now and then, and what the PE got of what
//! it wanted since the last time is its part. Failure: a PE with nothing to do wants nothing, so that one
//! that others' work slowed, and from which all actors have gone therefore, would seem slow for ever. It tries
//! now and then: it computes for nothing for a moment, and counts.

use gridspan_topology::Time;
use std::time::Duration;

/// How often counts are read: often enough to react within a second, seldom enough to cost nothing.
const EVERY: Duration = Duration::from_millis(500);
/// A PE that wanted less than this in the meantime tells nothing.
const WANTED_MIN: Duration = Duration::from_millis(5);
/// A part below this is worth a trial.
const SLOWED: f64 = 0.95;
/// How long a PE that was slowed waits for a verdict before it tries.
const DOUBT: Duration = Duration::from_secs(1);

/// What a driver counts for a PE since its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorTime {
    /// How long it had a processor.
    pub ran: Duration,
    /// How long it wanted one while others had it.
    pub waited: Duration,
}

/// What is known of a PE's part of a processor.
#[derive(Clone, Debug)]
pub struct Availability {
    last: ProcessorTime,
    /// When counts are to be read next.
    due: Time,
    share: f64,
    /// When there last was a verdict or a trial.
    heard: Time,
}

impl Default for Availability {
    fn default() -> Self {
        let last = ProcessorTime::default();
        Self { last, due: Time::ZERO + EVERY, share: 1.0, heard: Time::ZERO }
    }
}

impl Availability {
    /// How long a trial takes: several of a scheduler's time slices, so that others get theirs meanwhile.
    pub const TRIAL: Duration = Duration::from_millis(12);

    /// Whether counts should be read now. They cost a system call.
    pub fn is_due(&self, now: Time) -> bool {
        now >= self.due
    }

    /// Reads counts. Returns the part since the last time, above zero and at most 1.0, if they tell.
    pub fn read(&mut self, now: Time, counts: ProcessorTime) -> Option<f64> {
        self.due = now + EVERY;
        let ProcessorTime { ran, waited } = std::mem::replace(&mut self.last, counts);
        let (ran, waited) = (counts.ran.saturating_sub(ran), counts.waited.saturating_sub(waited));
        let wanted = ran + waited;
        if wanted < WANTED_MIN {
            return None;
        }
        self.heard = now;
        self.share = (ran.as_secs_f64() / wanted.as_secs_f64()).clamp(SHARE_MIN, 1.0);
        Some(self.share)
    }

    /// When an idle PE should compute for [`Self::TRIAL`] and have its counts read, if nothing is heard
    /// until then.
    pub fn next_trial(&self) -> Option<Time> {
        (self.share < SLOWED).then(|| self.heard + DOUBT)
    }

    /// A trial is over.
    pub fn tried(&mut self, now: Time) {
        self.heard = now;
        self.due = now;
    }
}

/// Whoever gets less than a hundredth does not compute any more, and times must stay finite.
const SHARE_MIN: f64 = 0.01;

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(ran_ms: u64, waited_ms: u64) -> ProcessorTime {
        ProcessorTime {
            ran: Duration::from_millis(ran_ms),
            waited: Duration::from_millis(waited_ms),
        }
    }

    fn at(millis: u64) -> Time {
        Time(millis * 1_000_000)
    }

    #[test]
    fn a_pe_that_waited_as_long_as_it_ran_got_half() {
        let mut availability = Availability::default();
        assert!(!availability.is_due(at(499)) && availability.is_due(at(500)));

        assert_eq!(availability.read(at(500), counts(250, 250)), Some(0.5));

        assert!(!availability.is_due(at(999)));
        assert_eq!(availability.read(at(1000), counts(252, 252)), None, "too little to tell");
        assert_eq!(availability.read(at(1500), counts(752, 252)), Some(1.0));
    }

    #[test]
    fn a_slowed_pe_that_has_nothing_to_do_tries_each_second_until_it_is_quiet() {
        let mut availability = Availability::default();
        assert_eq!(availability.next_trial(), None);
        availability.read(at(500), counts(250, 250));
        assert_eq!(availability.next_trial(), Some(at(1500)));

        availability.tried(at(1512));
        assert_eq!(availability.read(at(1512), counts(256, 256)), Some(0.5));
        assert_eq!(availability.next_trial(), Some(at(2512)));
        availability.tried(at(2524));
        assert_eq!(availability.read(at(2524), counts(268, 256)), Some(1.0));

        assert_eq!(availability.next_trial(), None);
    }
}
