//! The use of a PE's time, for balancing.
//!
//! A PE without work uses no processor. So if other programs slow a PE and all actors leave it, the
//! PE would seem slow forever. It therefore makes a trial now and then: it computes for a moment,
//! only to measure its share of a processor.

use gridspan_balance::PeLoad;
use gridspan_topology::Time;
use std::time::Duration;

/// The use of a PE's time, as measured by the driver, since its last report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Time in which the PE had a processor.
    pub ran: Duration,
    /// Time in which it was ready to run while other threads had the processor.
    pub waited: Duration,
    /// The part of `ran` that went into sending and receiving, if the driver knows it. Otherwise
    /// `ran` less the time of handlers counts.
    pub communication: Option<Duration>,
}

/// Minimum wanted time (`ran` plus `waited`) after which a share is compared with the reported one.
/// A share that is measured over less time is noise.
pub(super) const WANTED_MIN: Duration = Duration::from_millis(300);
/// Change of the share that is reported if it is seen twice in a row, or in a trial.
const CHANGE: f64 = 0.2;

/// Minimum wanted time in a whole window, or in a trial, for which a share is computed.
const WINDOW_MIN: Duration = Duration::from_millis(5);
/// Share below which a trial is worthwhile.
const SLOWED: f64 = 0.95;
/// Time since the last measured share or trial after which a slowed PE makes a trial.
const DOUBT: Duration = Duration::from_secs(1);
/// Lower bound of the share. A PE with less than a hundredth no longer computes, and times must
/// stay finite.
const SHARE_MIN: f64 = 0.01;

/// Time for which an idle PE computes in a trial, to find its share of a processor: several time
/// slices of a scheduler, so that other programs get theirs meanwhile.
pub const TRIAL: Duration = Duration::from_millis(20);

/// The use of time since it was last taken.
pub(crate) struct Timesheet {
    since: Time,
    /// The speed of the PE without load from other programs; 1.0 for an ordinary PE.
    speed: f64,
    sum: Spent,
    /// The part of `sum` after the last change of the share.
    present: Spent,
    /// Time that does not suffice yet to compute a share.
    recent: Spent,
    /// The last reported share.
    reported: f64,
    /// Whether the last share differed from `reported` and was not reported.
    differs: bool,
    /// The last known share.
    share: f64,
    /// The time of the last measured share or trial.
    heard: Time,
    /// Whether the share comes from a trial, and the PE has wanted too little time since to measure
    /// another one.
    is_tried: bool,
}

impl Default for Timesheet {
    fn default() -> Self {
        let nothing = Spent::default();
        Self {
            since: Time::ZERO,
            speed: 1.0,
            sum: nothing,
            present: nothing,
            recent: nothing,
            reported: 1.0,
            differs: false,
            share: 1.0,
            heard: Time::ZERO,
            is_tried: false,
        }
    }
}

impl Timesheet {
    /// Sets the speed that the driver has measured. Values that are not positive and finite are
    /// ignored.
    pub(crate) fn set_speed(&mut self, speed: f64) {
        if speed > 0.0 && speed.is_finite() {
            self.speed = speed;
        }
    }

    /// Notes time. Returns whether a changed share of the processor should be reported.
    pub(crate) fn note(&mut self, now: Time, spent: Spent) -> bool {
        for sum in [&mut self.sum, &mut self.present, &mut self.recent] {
            add(sum, spent);
        }
        if wanted(self.recent) < WANTED_MIN {
            return false;
        }
        let recent = std::mem::take(&mut self.recent);
        let share = share_of(recent);
        (self.share, self.heard, self.is_tried) = (share, now, false);
        let differs = (share - self.reported).abs() > CHANGE;
        let is_news = differs && self.differs;
        self.differs = differs && !is_news;
        if is_news {
            (self.reported, self.present) = (share, recent);
        }
        is_news
    }

    /// Notes the time of a trial. Returns whether a changed share should be reported.
    pub(crate) fn note_trial(&mut self, now: Time, spent: Spent) -> bool {
        self.heard = now;
        self.recent = Spent::default();
        if wanted(spent) < WINDOW_MIN {
            return false;
        }
        (self.share, self.is_tried) = (share_of(spent), true);
        let is_news = (self.share - self.reported).abs() > CHANGE;
        self.differs = false;
        if is_news {
            (self.reported, self.present) = (self.share, Spent::default());
        }
        is_news
    }

    /// Time at which the PE should make a trial, if it is idle then.
    pub(crate) fn next_trial(&self) -> Option<Time> {
        (self.share < SLOWED).then(|| self.heard + DOUBT)
    }

    /// The share of a processor that the PE got in the whole window when it wanted one, or the last
    /// known share if it wanted none.
    pub(crate) fn share(&self) -> f64 {
        self.share_in(self.sum)
    }

    /// The share that the PE gets now: that since the last change. Windows are long if actors can
    /// move only now and then, and a plan must not count foreign load that has ended meanwhile.
    fn present_share(&self) -> f64 {
        self.share_in(self.present)
    }

    fn share_in(&self, spent: Spent) -> f64 {
        let is_better_known = self.is_tried || wanted(spent) < WINDOW_MIN;
        if is_better_known { self.share } else { share_of(spent) }
    }

    /// Takes the use of time until now, of which `handlers` was spent in handlers.
    pub(crate) fn take(&mut self, now: Time, handlers: Duration) -> PeLoad {
        let available = self.present_share();
        self.present = Spent::default();
        let window = now.since(std::mem::replace(&mut self.since, now));
        let Spent { ran, waited, communication } = std::mem::take(&mut self.sum);
        let busy = ran.max(handlers);
        let mut pe = PeLoad::new(self.speed);
        pe.available = available;
        pe.idle = window.saturating_sub(busy.saturating_add(waited));
        pe.communication = communication.unwrap_or(ran.saturating_sub(handlers));
        pe
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

fn share_of(spent: Spent) -> f64 {
    let [ran, waited] = [spent.ran, spent.waited].map(|time| time.as_secs_f64());
    if waited > 0.0 { (ran / (ran + waited)).max(SHARE_MIN) } else { 1.0 }
}

fn wanted(spent: Spent) -> Duration {
    spent.ran.saturating_add(spent.waited)
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
    fn time_that_no_program_used_is_idle() {
        let mut sheet = Timesheet::default();
        sheet.note(Time::ZERO, spent(500, 200));

        let load = sheet.take(Time::ZERO + ms(1000), ms(400));

        assert_eq!((load.idle, load.communication), (ms(300), ms(100)));
        assert!((load.available - 5.0 / 7.0).abs() < 1e-9, "{load:?}");
        let next = sheet.take(Time::ZERO + ms(1500), ms(100));
        assert_eq!(next.idle, ms(400));
        assert!((next.available - 5.0 / 7.0).abs() < 1e-9, "the last known share");
    }

    #[test]
    fn the_share_of_a_long_window_is_that_after_the_last_change() {
        let mut sheet = Timesheet::default();
        for _ in 0..10 {
            sheet.note(Time::ZERO, spent(200, 200));
        }
        for _ in 0..5 {
            sheet.note(Time::ZERO, spent(400, 0));
        }

        // 2 s of 4 s, and then 2 s of 2 s.
        assert!((sheet.share() - 4.0 / 6.0).abs() < 1e-9, "what actors got on average");
        assert_eq!(sheet.take(Time::ZERO + ms(6000), ms(4000)).available, 1.0);
    }

    #[test]
    fn the_share_after_a_trial_is_without_the_load_that_has_ended_before_it() {
        let mut sheet = Timesheet::default();
        for _ in 0..10 {
            sheet.note(Time::ZERO, spent(200, 200));
        }

        assert!(sheet.note_trial(Time::ZERO + ms(6000), spent(20, 0)), "the other load has ended");
        sheet.note(Time::ZERO + ms(7000), spent(400, 0));

        assert_eq!(sheet.take(Time::ZERO + ms(7000), ms(2400)).available, 1.0);
    }

    #[test]
    fn a_lasting_change_of_the_share_is_reported_once() {
        let mut sheet = Timesheet::default();
        let news = |sheet: &mut Timesheet, all: &[Spent]| {
            all.iter().filter(|&&spent| sheet.note(Time::ZERO, spent)).count()
        };

        assert_eq!(news(&mut sheet, &[spent(300, 0), spent(200, 200), spent(300, 0)]), 0, "once");
        assert_eq!(news(&mut sheet, &[spent(200, 200); 5]), 1);
        assert_eq!(news(&mut sheet, &[spent(10, 0); 20]), 0, "not enough to tell");
        assert_eq!(news(&mut sheet, &[spent(400, 0); 5]), 1, "the PE has a whole processor again");
    }

    #[test]
    fn an_idle_slowed_pe_makes_a_trial_each_second_until_it_is_not_slowed() {
        let mut sheet = Timesheet::default();
        let at = |millis| Time::ZERO + ms(millis);
        assert_eq!(sheet.next_trial(), None);
        sheet.note(at(500), spent(250, 250));
        assert_eq!(sheet.next_trial(), Some(at(1500)));

        assert!(sheet.note_trial(at(1520), spent(10, 10)), "the change was not known");
        assert_eq!(sheet.next_trial(), Some(at(2520)));
        assert!(!sheet.note_trial(at(2540), spent(10, 10)));
        assert!(sheet.note_trial(at(3560), spent(20, 0)), "the PE has a whole processor again");

        assert_eq!((sheet.next_trial(), sheet.take(at(9000), ms(0)).available), (None, 1.0));
    }
}
