//! What the coordinator does later.

use super::event::CoordinatorCommand;
use super::machine::Coordinator;
use super::state::timers::{Timer, Timers};
use gridspan_topology::Time;
use std::time::Duration;

impl Coordinator {
    /// Does what is due by now.
    pub fn wake(&mut self, now: Time) -> Vec<CoordinatorCommand> {
        self.now = self.now.max(now);
        while self.outcome.is_none()
            && let Some(timer) = self.timers.take_due(self.now)
        {
            self.fire(timer);
        }
        std::mem::take(&mut self.out)
    }

    pub(super) fn run_after(&mut self, delay: Duration, timer: Timer) {
        let Timers { due, set } = &mut self.timers;
        due.insert((self.now + delay, *set), timer);
        *set += 1;
    }

    pub(super) fn fire(&mut self, timer: Timer) {
        match timer {
            Timer::BeginQuiescenceRound => self.begin_quiescence_round(),
            Timer::Period(every) => self.tick(every),
            Timer::LookAtEvent(number) => self.look_at_event(number),
            Timer::ProbeProgress(last) => self.probe_progress(last),
            Timer::Decide => self.decide_and_carry_out(),
            Timer::LookAtLinks => self.look_at_links(),
            Timer::BeginPlanning => self.begin_planning(),
            Timer::CheckStall => self.check_stall(),
            Timer::TimeIsUp => self.time_is_up(),
            Timer::EndAtLimit => self.end_at_limit(),
        }
    }
}
