//! Measures for how long a job has been idle.

use gridspan_topology::Time;
use std::time::Duration;

/// Idle time after which a job counts as stalled. Upkeep for whose outcome an actor waits never
/// pauses for that long.
const QUIET: Duration = Duration::from_secs(4);
/// Time between two checks of the job's activity.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// The activity of a job at the last check, and the time since which it has not changed.
#[derive(Default)]
pub(crate) struct Idleness {
    next: Time,
    activity: u64,
    since: Time,
    is_long: bool,
}

impl Idleness {
    /// Whether a job had been idle for `QUIET` at the last check, which is now if one is due.
    /// `activity` returns how much the job has done so far; it is called only for a check, since it
    /// asks all PEs. The caller has to ask whether the job [is still idle](Self::is_unchanged).
    pub(crate) fn was_long(&mut self, now: Time, activity: impl FnOnce() -> u64) -> bool {
        if now >= self.next {
            let activity = activity();
            if std::mem::replace(&mut self.activity, activity) != activity {
                self.since = now;
            }
            self.is_long = now.since(self.since) >= QUIET;
            self.next = now + CHECK_EVERY;
        }
        self.is_long
    }

    /// Whether the job has done nothing since the last check.
    pub(crate) fn is_unchanged(&self, activity: u64) -> bool {
        self.activity == activity
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
            let activity = || {
                asked.set(asked.get() + 1);
                7
            };
            let now = Time::default() + Duration::from_millis(ms);
            idleness.was_long(now, activity)
        };

        let long: Vec<u64> = (0..10_000).filter(|&ms| was_long(ms)).collect();

        // Activity was found at the first check, at 0 s.
        assert_eq!((long.first(), long.len()), (Some(&4000), 6000));
        assert_eq!(asked.get(), 10);
        assert!(idleness.is_unchanged(7) && !idleness.is_unchanged(8));
    }
}
