//! Measures for how long a job has been idle.

use gridspan_topology::Time;
use std::time::Duration;

/// Idle time after which a job counts as stalled. Upkeep for whose outcome an actor waits never
/// pauses for that long.
const QUIET: Duration = Duration::from_secs(4);
/// Time between two checks of the job's activity.
const LOOK: Duration = Duration::from_secs(1);

/// The activity of a job at the last check, and the time since which it has not changed.
#[derive(Default)]
pub(crate) struct Idleness {
    next: Time,
    activity: u64,
    since: Time,
}

impl Idleness {
    /// Whether a job has been idle for `QUIET`. `activity` returns how much it has done so far.
    /// Between two checks the answer is no.
    pub(crate) fn is_long(&mut self, now: Time, activity: impl FnOnce() -> u64) -> bool {
        if now < self.next {
            return false;
        }
        let activity = activity();
        if std::mem::replace(&mut self.activity, activity) != activity {
            self.since = now;
        }
        let is_long = now.since(self.since) >= QUIET;
        if !is_long {
            self.next = now + LOOK;
        }
        is_long
    }
}
