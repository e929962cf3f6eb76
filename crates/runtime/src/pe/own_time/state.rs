//! The job's own time, as main's PE keeps it.

use gridspan_topology::Time;
use std::time::Duration;

/// Time without the pauses of main, and without those in which a rebalance keeps a sync point
/// closed.
#[derive(Default)]
pub(crate) struct OwnTime {
    /// How long all pauses were together.
    pauses: Duration,
    /// When the PE has done anything last.
    busy: Time,
}

impl OwnTime {
    /// What its clock shows; `is_waiting`: main waits for something inside of the job. If it does
    /// not, and the PE has nothing to do, the clock stands.
    pub(crate) fn at(&self, now: Time, is_waiting: bool) -> Time {
        let until = if is_waiting { now } else { self.busy };
        Time(until.0.saturating_sub(self.pauses.as_nanos() as u64))
    }

    /// The PE is busy until then.
    pub(crate) fn busy_until(&mut self, time: Time) {
        self.busy = self.busy.max(time);
    }

    /// Main has asked for something. If it waited for nothing before, the job has waited for it.
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
        assert_eq!(own.at(ms(110), true), ms(50), "it asked for one more thing");
    }
}
