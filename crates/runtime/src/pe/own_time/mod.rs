//! The job's own time, by which its pace is measured: while main waits for nothing of the job and
//! its PE has nothing to do, the job waits for main.
//!
//! Kept beside main, on [`MAIN_PE`], where jobs are balanced. A job that goes on without main and
//! without that PE is taken for one that waits, unless actors live there.

pub(in crate::pe) mod state;

use crate::address::id::{COORDINATOR, MAIN_PE};
use crate::message::Control;
use crate::pe::core::Core;
use gridspan_topology::Time;
use std::time::Duration;

impl Core {
    /// What the clock of the job's own time shows here.
    pub(in crate::pe) fn own_now(&self) -> Time {
        let (now, is_waiting) = (self.now, self.is_main_inside());
        self.own_time.as_ref().map_or(now, |own| own.at(now, is_waiting))
    }

    /// Tells the coordinator when this PE was asked for its loads, and that it has measured since
    /// `begin`.
    pub(in crate::pe) fn report_own_time(&mut self, begin: u64) {
        if self.me == MAIN_PE {
            let measuring_ns = self.stopwatch_ns().saturating_sub(begin);
            self.post(COORDINATOR, Control::OwnTime { at: self.own_now(), measuring_ns });
        }
    }

    /// Reports how many messages were handled here.
    pub(in crate::pe) fn handle_progress_probe(&mut self, number: u64) {
        let (handled, own) = (self.handled_once(), self.own_now());
        self.post(COORDINATOR, Control::Progress { number, handled, own });
    }

    /// Main asks for something.
    pub(crate) fn main_goes_on(&mut self) {
        let (now, was_waiting) = (self.now, self.is_main_inside());
        if let Some(own) = &mut self.own_time {
            own.main_goes_on(now, was_waiting);
        }
    }

    /// How much this PE has done until now, if that matters: by the stopwatch, and by what was
    /// charged.
    pub(in crate::pe) fn work_begins(&self) -> Option<(u64, Duration)> {
        self.own_time.as_ref().map(|_| (self.stopwatch_ns(), self.charged))
    }

    /// Messages have been handled since.
    pub(in crate::pe) fn work_ends(&mut self, begin: Option<(u64, Duration)>) {
        if let Some((begin, charged)) = begin {
            let timed = Duration::from_nanos(self.stopwatch_ns().saturating_sub(begin));
            self.note_busy(timed.max(self.charged.saturating_sub(charged)));
        }
    }

    /// The PE is busy for so long from now on.
    pub(in crate::pe) fn note_busy(&mut self, time: Duration) {
        let until = self.now + time;
        if let Some(own) = &mut self.own_time {
            own.busy_until(until);
        }
    }

    /// Whether main waits for the job, or the job goes on without it for all that is known here.
    fn is_main_inside(&self) -> bool {
        let is_unseen = self.collections.values().next().is_some()
            && !self.members.iter().flatten().any(Option::is_some);
        is_unseen || self.waits.is_any()
    }
}
