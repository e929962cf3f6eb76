//! Measures for how long a job has been idle.

use gridspan_topology::Time;
use std::time::Duration;

/// Idle time after which a job counts as stalled. An actor may wait for the outcome of the
/// runtime's periodic work. That work never pauses for so long, unless one of its packets is on its
/// way, for example in an outage.
const QUIET: Duration = Duration::from_secs(4);
/// Time between two checks of the job's activity.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// The state of a job at a check.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    /// How much the job has done so far.
    pub(crate) activity: u64,
    /// The lowest number of a queued event that is neither a turn of a PE nor of the coordinator,
    /// such as the arrival of a packet.
    pub(crate) oldest: Option<u64>,
    /// The number that the next event gets.
    pub(crate) next_event: u64,
}

/// The state of a job at the last check, and the time since which it has been idle.
#[derive(Default)]
pub(crate) struct Idleness {
    next: Time,
    last: Sample,
    since: Time,
    is_long: bool,
}

impl Idleness {
    /// Makes a check if one is due, and returns whether the job had been idle for `QUIET` at the
    /// last check: it had done nothing, and no packet was on its way from one check to the next.
    /// Calls `sample` only for a check, since it asks all PEs. The caller calls this before each
    /// event, and then has to ask whether the job [is still idle](Self::is_unchanged).
    pub(crate) fn was_long(&mut self, now: Time, sample: impl FnOnce() -> Sample) -> bool {
        if now >= self.next {
            let sample = sample();
            let last = std::mem::replace(&mut self.last, sample);
            // The caller calls this before each event. So if this check is a whole interval late,
            // no event came in that interval, and every queued event was queued before it.
            let is_late = now >= self.next + CHECK_EVERY;
            let is_delayed =
                sample.oldest.is_some_and(|oldest| is_late || oldest < last.next_event);
            if is_delayed || sample.activity != last.activity {
                self.since = now;
            }
            self.is_long = now.since(self.since) >= QUIET;
            self.next = now + CHECK_EVERY;
        }
        self.is_long
    }

    /// Whether the job has done nothing since the last check.
    pub(crate) fn is_unchanged(&self, activity: u64) -> bool {
        self.last.activity == activity
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn the_activity_of_an_idle_job_is_asked_for_once_a_second() {
        let (mut idleness, asked) = (Idleness::default(), Cell::new(0));
        let mut was_long = |ms: u64| {
            let sample = || {
                asked.set(asked.get() + 1);
                Sample { activity: 7, ..Sample::default() }
            };
            let now = Time::default() + Duration::from_millis(ms);
            idleness.was_long(now, sample)
        };

        let long: Vec<u64> = (0..10_000).filter(|&ms| was_long(ms)).collect();

        // Activity was found at the first check, at 0 s.
        assert_eq!((long.first(), long.len()), (Some(&4000), 6000));
        assert_eq!(asked.get(), 10);
        assert!(idleness.is_unchanged(7) && !idleness.is_unchanged(8));
    }

    #[test]
    fn a_job_is_not_idle_while_a_packet_is_on_its_way_for_long() {
        let mut idleness = Idleness::default();
        let mut first = None;
        for second in 0..20 {
            // One event a second, and from 2 to 9 s event 2 is queued.
            let oldest = (2..=9).contains(&second).then_some(2);
            let sample = Sample { activity: 0, oldest, next_event: second + 1 };
            let now = Time::default() + Duration::from_secs(second);
            if idleness.was_long(now, || sample) {
                first = first.or(Some(second));
            }
        }
        assert_eq!(first, Some(13), "4 s after the last check that saw the packet");
    }

    #[test]
    fn a_job_is_not_idle_after_a_packet_that_came_alone_and_late() {
        let mut idleness = Idleness::default();
        let mut was_long = |second, oldest, next_event| {
            let now = Time::default() + Duration::from_secs(second);
            idleness.was_long(now, || Sample { activity: 0, oldest, next_event })
        };

        assert!(!was_long(0, None, 3));
        // Event 3 was queued soon after, and is the only one until it comes.
        assert!(!was_long(10, Some(3), 4));
        assert!(!was_long(12, None, 5));
        assert!(was_long(14, None, 6));
    }
}
