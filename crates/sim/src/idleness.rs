//! Since when a job has done nothing.

use gridspan_topology::Time;
use std::time::Duration;

/// As long as the coordinator of a job in real time is idle before it is found to have stalled: no
/// upkeep of which anybody waits for the outcome pauses for longer.
const QUIET: Duration = Duration::from_secs(4);
/// The pause between two looks at how much has been done.
const LOOK: Duration = Duration::from_secs(1);

/// How much a job had done when it was last looked at, and since when that has been so.
#[derive(Default)]
pub(crate) struct Idleness {
    next: Time,
    activity: u64,
    since: Time,
}

impl Idleness {
    /// Whether a job has done nothing for long. `activity`: how much it has done by now.
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
