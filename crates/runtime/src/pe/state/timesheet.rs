//! Where the time of a PE went, for balancing.

use gridspan_balance::PeLoad;
use gridspan_topology::Time;
use std::time::Duration;

/// What the driver has found of a PE's time since it told last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// The PE had a processor.
    pub ran: Duration,
    /// It wanted one, and others had it.
    pub waited: Duration,
    /// The part of `ran` that went into sending and receiving, where the driver knows; else it is what
    /// handlers leave of it.
    pub communication: Option<Duration>,
}

/// A share of the processor is told of once so much time was wanted: less is noise.
const WANTED_MIN: Duration = Duration::from_millis(300);
/// A change of the share by this much, twice in a row, is one that others should know of.
const CHANGE: f64 = 0.2;

/// The time since it was last taken.
pub(crate) struct Timesheet {
    since: Time,
    sum: Spent,
    /// What is not enough yet to tell a share.
    recent: Spent,
    /// The share that others know of.
    told: f64,
    differs: bool,
}

impl Default for Timesheet {
    fn default() -> Self {
        let nothing = Spent::default();
        Self { since: Time::ZERO, sum: nothing, recent: nothing, told: 1.0, differs: false }
    }
}

impl Timesheet {
    /// Notes time. Says whether others should know that the share of the processor is another.
    pub(crate) fn note(&mut self, spent: Spent) -> bool {
        add(&mut self.sum, spent);
        add(&mut self.recent, spent);
        if self.recent.ran.saturating_add(self.recent.waited) < WANTED_MIN {
            return false;
        }
        let share = share(std::mem::take(&mut self.recent));
        let differs = (share - self.told).abs() > CHANGE;
        let is_news = differs && self.differs;
        self.differs = differs && !is_news;
        if is_news {
            self.told = share;
        }
        is_news
    }

    /// The share of a processor that the PE got when it wanted one.
    pub(crate) fn share(&self) -> f64 {
        share(self.sum)
    }

    /// Takes the time until now, of which handlers had `handlers`.
    pub(crate) fn take(&mut self, now: Time, handlers: Duration) -> PeLoad {
        let window = now.since(std::mem::replace(&mut self.since, now));
        let Spent { ran, waited, communication } = std::mem::take(&mut self.sum);
        let busy = ran.max(handlers);
        PeLoad {
            speed: 1.0,
            background: waited,
            idle: window.saturating_sub(busy.saturating_add(waited)),
            communication: communication.unwrap_or(ran.saturating_sub(handlers)),
        }
    }
}

fn add(sum: &mut Spent, spent: Spent) {
    sum.ran = sum.ran.saturating_add(spent.ran);
    sum.waited = sum.waited.saturating_add(spent.waited);
    if let Some(more) = spent.communication {
        let known = sum.communication.unwrap_or_default();
        sum.communication = Some(known.saturating_add(more));
    }
}

fn share(spent: Spent) -> f64 {
    let [ran, waited] = [spent.ran, spent.waited].map(|time| time.as_secs_f64());
    if waited > 0.0 { ran / (ran + waited) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn spent(ran: u64, waited: u64) -> Spent {
        Spent { ran: ms(ran), waited: ms(waited), communication: None }
    }

    #[test]
    fn what_nobody_used_was_idle() {
        let mut sheet = Timesheet::default();
        sheet.note(spent(500, 200));

        let load = sheet.take(Time::ZERO + ms(1000), ms(400));

        assert_eq!((load.background, load.idle, load.communication), (ms(200), ms(300), ms(100)));
        let next = sheet.take(Time::ZERO + ms(1500), ms(100));
        assert_eq!((next.background, next.idle), (ms(0), ms(400)));
    }

    #[test]
    fn a_share_that_stays_another_is_news_once() {
        let mut sheet = Timesheet::default();
        let news = |sheet: &mut Timesheet, all: &[Spent]| {
            all.iter().filter(|&&spent| sheet.note(spent)).count()
        };

        assert_eq!(news(&mut sheet, &[spent(300, 0), spent(200, 200), spent(300, 0)]), 0, "once");
        assert_eq!(news(&mut sheet, &[spent(200, 200); 5]), 1);
        assert_eq!(news(&mut sheet, &[spent(10, 0); 20]), 0, "not enough to tell");
        assert_eq!(news(&mut sheet, &[spent(400, 0); 5]), 1, "it ends");
    }
}
