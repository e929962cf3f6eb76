//! The job's own time, by which its pace is measured. It pauses while the job waits for main: while
//! main waits for nothing from the job and main's PE is idle.
//!
//! Main's PE, [`MAIN_PE`], keeps it if the job is balanced. That PE does not see whether other PEs
//! work. If actors live on it, the time pauses whenever that PE is idle and main waits for nothing,
//! even if other PEs work. If collections exist and none of their members lives on it, the time
//! never pauses.

pub(in crate::pe) mod state;

use crate::address::id::{COORDINATOR, MAIN_PE};
use crate::message::Control;
use crate::pe::core::Core;
use gridspan_topology::Time;
use std::time::Duration;

impl Core {
    /// The job's own time now.
    pub(in crate::pe) fn own_now(&self) -> Time {
        let own = self.own_time.as_ref();
        own.map_or(self.now, |own| own.at(self.now, self.is_main_inside()))
    }

    /// Reports to the coordinator the job's own time, and how long this PE has spent on measuring,
    /// which began at `begin`, in nanoseconds. Only main's PE reports.
    pub(in crate::pe) fn report_own_time(&mut self, begin: u64) {
        if self.me == MAIN_PE {
            let measuring_ns = self.stopwatch_ns().saturating_sub(begin);
            self.post(COORDINATOR, Control::OwnTime { at: self.own_now(), measuring_ns });
        }
    }

    /// Reports the number of messages that were handled here, and the job's own time.
    pub(in crate::pe) fn handle_progress_probe(&mut self, number: u64) {
        let (handled, own) = (self.handled_once(), self.own_now());
        self.post(COORDINATOR, Control::Progress { number, handled, own });
    }

    /// Notes that main makes a request.
    pub(crate) fn main_goes_on(&mut self) {
        let now = self.now;
        let was_waiting = self.own_time.is_some() && self.is_main_inside();
        if let Some(own) = &mut self.own_time {
            own.main_goes_on(now, was_waiting);
        }
    }

    /// The time of the stopwatch in nanoseconds, and the charged time so far.
    pub(in crate::pe) fn work_begins(&self) -> (u64, Duration) {
        (self.stopwatch_ns(), self.charged)
    }

    /// Notes that messages have been handled since `begin`.
    pub(in crate::pe) fn work_ends(&mut self, (begin, charged): (u64, Duration)) {
        let timed = Duration::from_nanos(self.stopwatch_ns().saturating_sub(begin));
        self.note_busy(timed.max(self.charged.saturating_sub(charged)));
    }

    /// Notes that the PE is busy for `time` from now on.
    pub(in crate::pe) fn note_busy(&mut self, time: Duration) {
        let until = self.now + time;
        if let Some(own) = &mut self.own_time {
            own.busy_until(until);
        }
    }

    /// Whether main waits for the job, or the job may continue without main and without this PE.
    fn is_main_inside(&self) -> bool {
        let is_unseen = self.collections.values().next().is_some()
            && !self.members.iter().flatten().any(Option::is_some);
        is_unseen || self.waits.is_any()
    }
}
