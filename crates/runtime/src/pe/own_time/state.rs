//! The clock of the job on main's PE, without the pauses in which the job waits for main.

use gridspan_topology::Time;
use std::time::Duration;

/// A clock that stops while the job waits for main.
#[derive(Default)]
pub(crate) struct OwnTime {
    /// Total time for which the clock has stopped.
    pauses: Duration,
    /// The time until which the PE was last busy.
    busy: Time,
}

impl OwnTime {
    /// Returns the time of the clock. `is_waiting` states whether main waits for the job. If it
    /// does not, the clock stops while the PE is idle.
    pub(crate) fn at(&self, now: Time, is_waiting: bool) -> Time {
        let until = if is_waiting { now } else { self.busy };
        Time(until.0.saturating_sub(self.pauses.as_nanos() as u64))
    }

    /// Records that the PE is busy until `time`.
    pub(crate) fn busy_until(&mut self, time: Time) {
        self.busy = self.busy.max(time);
    }

    /// Records a request of main. If main did not wait for the job, the idle time before the
    /// request was a pause.
    pub(crate) fn main_goes_on(&mut self, now: Time, was_waiting: bool) {
        if !was_waiting {
            self.pauses += now.since(self.busy);
        }
        self.busy_until(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Time {
        Time(ms * 1_000_000)
    }

    #[test]
    fn the_clock_stands_while_the_job_waits_for_main() {
        let mut own = OwnTime::default();
        own.main_goes_on(ms(10), false);
        assert_eq!(own.at(ms(10), true), ms(0));
        own.busy_until(ms(30));
        assert_eq!(own.at(ms(35), true), ms(25), "it waits for messages");
        own.busy_until(ms(40));

        assert_eq!(own.at(ms(60), false), ms(30), "main pauses");
        own.main_goes_on(ms(90), false);
        assert_eq!(own.at(ms(100), true), ms(40));
        own.main_goes_on(ms(100), true);
        assert_eq!(own.at(ms(110), true), ms(50), "main waited for the job");
    }
}
