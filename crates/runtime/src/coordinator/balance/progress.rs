//! Causes of rebalances, and the job's pace after them.
//!
//! **Start.** With the first collection a periodic timer starts, if the job is to be balanced
//! periodically. A change of a link, or of the share of its processor that a PE gets, is an event.
//! After an event the coordinator also asks the strategy, if the strategy predicts the time of a
//! step: at most once a second, and less often while this has no effect.
//!
//! **Steady state.** The coordinator regularly asks all PEs for the number of messages that they
//! have handled, often at first and after each plan. So the balancer knows the pace before a plan.
//! When it has observed the pace after the plan for long enough, it judges the plan, and may have
//! it undone by one more rebalance while the job continues. The pace is measured in the job's own
//! time, which main's PE keeps (`pe/own_time`).
//!
//! **Failure.** If a job handles no message for long, it waits for something other than messages,
//! and its last plan is not judged. Reports of loads count as messages of the job. So while the job
//! handles no other messages, the coordinator does not measure loads after a period or, in a job
//! that is watched for stalls, after an event. Otherwise other programs that use the processors now
//! and then, or links whose round trips vary, would hide a stall.

use crate::address::id::MAIN_PE;
use crate::coordinator::event::FollowUp;
use crate::coordinator::machine::Coordinator;
use crate::coordinator::state::balance::{Look, ProgressProbe};
use crate::coordinator::state::timers::Timer;
use crate::message::Control;
use gridspan_balance::{Cause, Occasion, Refusal};
use gridspan_topology::{PeId, Time};
use std::time::Duration;

/// First pause between two progress probes, doubled after every [`PROBES_PER_PAUSE`] probes. After
/// a plan, the first pause is as long as the window that led to the plan, but at least this and at
/// most [`FIRST_PAUSE_MAX`], so that jobs of short steps are judged soon.
const PAUSE_MIN: Duration = Duration::from_millis(5);
/// Longest first pause after a plan.
const FIRST_PAUSE_MAX: Duration = Duration::from_millis(10);
/// Longest pause between two progress probes.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Number of progress probes after which the pause is doubled.
const PROBES_PER_PAUSE: u32 = 4;
/// The first pause is at least `PAUSE_MIN` for each group of this many PEs, because the coordinator
/// handles one answer from each PE.
const PES_PER_PAUSE: u32 = 16;
/// Number of consecutive probes without a handled message after which probing stops while a plan is
/// judged: half a minute at the longest pause.
const EMPTY_MAX: u32 = 30;
/// The same limit while no plan is judged.
const EMPTY_MAX_BEFORE: u32 = 8;
/// Time for which loads are measured after an event before a strategy is asked about it, and the
/// minimum time between two looks at events.
const EVENT_PAUSE: Duration = Duration::from_secs(1);
/// Longest time between two looks at an event for which the gate does not accept a plan yet.
const EVENT_PAUSE_MAX: Duration = Duration::from_secs(30);

impl Coordinator {
    /// Starts to measure the pace and, if the job wants it, to balance periodically.
    pub(in crate::coordinator) fn begin_periods(&mut self) {
        self.begin_pace();
        let Some(every) = self.common.balancing.every else { return };
        if self.balancer.is_active() && !std::mem::replace(&mut self.balances.is_periodic, true) {
            self.run_after(every, Timer::Period(every));
        }
    }

    pub(in crate::coordinator) fn tick(&mut self, every: Duration) {
        let may_balance = self.may_balance();
        if !may_balance {
            return self.run_after(every, Timer::Period(every));
        }
        if !self.balances.was_idle {
            // The timer is set again when the rebalance is over, so that other causes get their
            // turn.
            return self.queue_balance(Cause::Period);
        }
        self.balances.idle_tick = Some(every);
        if !self.balances.progress.is_on {
            self.begin_progress_probes(PAUSE_MIN);
        }
    }

    /// Ends a period that waits for the number of messages handled. While no message has been
    /// handled since the last window, loads are not measured: reports of loads count as messages of
    /// the job, so that it would never become quiescent, and a stall would stay hidden. Progress
    /// probes do not count.
    fn end_idle_tick(&mut self, handled: u64) {
        let Some(every) = self.balances.idle_tick.take() else { return };
        if handled > self.balances.window.1 {
            self.balances.was_idle = false;
        }
        match self.balances.was_idle {
            true => self.run_after(every, Timer::Period(every)),
            false => self.tick(every),
        }
    }

    /// Queues a rebalance behind earlier ones. A plan may move every actor of the job, so two
    /// concurrent plans would contradict each other.
    pub(in crate::coordinator) fn queue_balance(&mut self, cause: Cause) {
        self.balances.queue.push_back(cause);
        if self.balances.queue.len() == 1 {
            self.follow_ups.push_back(FollowUp::BeginRebalance);
        }
    }

    /// Whether the strategy may be asked without a request from the job.
    fn may_balance(&self) -> bool {
        self.balances.queue.is_empty() && self.balancer.may_begin(self.now)
    }

    /// Notes a change that may be worth a rebalance.
    pub(in crate::coordinator) fn balance_after(&mut self, cause: Cause) {
        // Measurements from before a change of the foreign load do not show its effect.
        self.note_change(cause, cause == Cause::ForeignLoad);
    }

    /// Notes a change of the foreign load whose effect is in the present window.
    pub(in crate::coordinator) fn balance_late(&mut self) {
        self.note_change(Cause::ForeignLoad, false);
    }

    /// `is_fresh_wanted`: whether the present window says nothing about the change.
    fn note_change(&mut self, cause: Cause, is_fresh_wanted: bool) {
        let is_alone = self.common.layout.pe_count() < 2;
        if is_alone || !self.balancer.is_active() || !self.balancer.predicts() {
            return;
        }
        let events = &mut self.balances.events;
        events.waiting = Some(cause);
        events.pause = EVENT_PAUSE;
        if self.is_to_await_work() {
            return self.await_work();
        }
        let events = &mut self.balances.events;
        // A look postponed for an earlier event would be too late for this one.
        if events.look.is_none_or(|look| look.is_retry) {
            if is_fresh_wanted && self.may_balance() {
                self.forget_window();
            }
            self.look_after(EVENT_PAUSE, false);
        }
    }

    /// Whether the job is watched for stalls and has handled no message in the last window.
    fn is_to_await_work(&self) -> bool {
        self.stall.is_on && self.balances.was_idle
    }

    /// Postpones an event until a progress probe finds that the job has handled messages, and
    /// probes now and again later.
    fn await_work(&mut self) {
        let events = &mut self.balances.events;
        events.awaits_work = true;
        events.pause = (events.pause * 2).clamp(EVENT_PAUSE, EVENT_PAUSE_MAX);
        let pause = events.pause;
        if events.look.is_none() {
            self.look_after(pause, true);
        }
        if !self.balances.progress.is_on {
            self.begin_progress_probes(PAUSE_MIN);
        }
    }

    /// Looks at an event that was postponed, if messages were handled since the last window.
    fn end_idle_event(&mut self, handled: u64) {
        let has_worked = handled > self.balances.window.1;
        let events = &mut self.balances.events;
        if has_worked && std::mem::take(&mut events.awaits_work) {
            let cause = events.waiting.take();
            self.balances.was_idle = false;
            cause.into_iter().for_each(|cause| self.balance_after(cause));
        }
    }

    /// Starts a new measurement window, by a rebalance that moves nothing.
    fn forget_window(&mut self) {
        self.balances.events.is_fresh_wanted = true;
        self.queue_balance(Cause::ForeignLoad);
    }

    /// Schedules a look at an event, which replaces any pending one.
    fn look_after(&mut self, pause: Duration, is_retry: bool) {
        let events = &mut self.balances.events;
        events.looks += 1;
        let number = events.looks;
        events.look = Some(Look { number, is_retry });
        self.run_after(pause, Timer::LookAtEvent(number));
    }

    pub(in crate::coordinator) fn look_at_event(&mut self, number: u64) {
        let may_balance = self.may_balance();
        let events = &mut self.balances.events;
        if events.look.is_none_or(|look| look.number != number) {
            return;
        }
        events.look = None;
        if events.waiting.is_none() {
            return;
        }
        if self.is_to_await_work() {
            return self.await_work();
        }
        let events = &mut self.balances.events;
        if may_balance && let Some(cause) = events.waiting.take() {
            return self.queue_balance(cause);
        }
        self.look_after(EVENT_PAUSE, false);
    }

    /// Schedules another look at an event, since the gate may accept a plan later.
    fn look_again(&mut self, cause: Cause) {
        let events = &mut self.balances.events;
        events.waiting.get_or_insert(cause);
        events.pause = (events.pause * 2).clamp(EVENT_PAUSE, EVENT_PAUSE_MAX);
        if events.look.is_none() {
            let pause = events.pause;
            self.look_after(pause, true);
        }
    }

    /// Called after a rebalance. `was_judging`: whether the balancer was judging an earlier plan
    /// before.
    pub(in crate::coordinator) fn after_balance(
        &mut self,
        cause: Option<Cause>,
        was_judging: bool,
    ) {
        if let (Some(Cause::Period), Some(every)) = (cause, self.common.balancing.every) {
            self.run_after(every, Timer::Period(every));
        }
        let refusal = self.tell_balances();
        if self.balancer.is_judging() && !was_judging {
            let pause = self.balances.measured.clamp(PAUSE_MIN, FIRST_PAUSE_MAX);
            self.begin_progress_probes(pause);
        }
        let may_pass = !matches!(refusal, None | Some(Refusal::TooLittle { .. }));
        if let Some(cause @ (Cause::Link | Cause::ForeignLoad)) = cause.filter(|_| may_pass) {
            self.look_again(cause);
        }
    }

    /// Reports the outcome of rebalances to the listeners. Returns why the last one was refused, if
    /// it was.
    fn tell_balances(&mut self) -> Option<Refusal> {
        let mut refusal = None;
        while let Some(report) = self.balancer.take_report() {
            tracing::info!(cause = ?report.cause, refusal = ?report.refusal, "rebalance: {report}");
            for tell in &self.common.balancing.on_balance {
                tell(&report);
            }
            refusal = report.refusal;
        }
        refusal
    }

    /// Ends the judgement of the last plan at the end of the job. The plan is reported with an
    /// unknown effect.
    pub(in crate::coordinator) fn conclude_balances(&mut self) {
        self.balancer.give_up();
        self.tell_balances();
    }

    /// Starts progress probes if the balancer wants the pace, none are running and the job has
    /// several PEs.
    fn begin_pace(&mut self) {
        let pes = self.common.layout.pe_count();
        if pes > 1 && self.balancer.wants_pace() && !self.balances.progress.is_on {
            self.begin_progress_probes(PAUSE_MIN);
        }
    }

    fn begin_progress_probes(&mut self, pause: Duration) {
        let pause = pause.max(PAUSE_MIN * self.common.layout.pe_count().div_ceil(PES_PER_PAUSE));
        let ProgressProbe { number, last, .. } = self.balances.progress;
        self.balances.progress =
            ProgressProbe { is_on: true, number, last, pause, ..ProgressProbe::default() };
        self.probe_progress(number);
    }

    /// Asks all PEs for the number of messages that they have handled, unless another probe was
    /// sent after probe `last`.
    pub(in crate::coordinator) fn probe_progress(&mut self, last: u64) {
        let pes = self.common.layout.pes();
        let progress = &mut self.balances.progress;
        if progress.number != last {
            return;
        }
        progress.number += 1;
        (progress.missing, progress.handled) = (pes.len() as u32, 0);
        let number = progress.number;
        for pe in pes {
            self.post(pe, Control::ProgressProbe { number });
        }
    }

    /// Handles a PE's report of the number of messages that it has handled. Main's PE adds the
    /// clock of the job's own time.
    pub(in crate::coordinator) fn handle_progress(
        &mut self,
        from: PeId,
        number: u64,
        (handled, own): (u64, Time),
    ) {
        let progress = &mut self.balances.progress;
        if number != progress.number || progress.missing == 0 {
            return;
        }
        if from == MAIN_PE {
            progress.asked = own;
            self.learn_own_time(own);
        }
        let progress = &mut self.balances.progress;
        progress.handled = progress.handled.saturating_add(handled);
        progress.missing -= 1;
        if progress.missing > 0 {
            return;
        }
        let (asked, all) = (progress.asked, progress.handled);
        let is_empty = progress.last.is_some_and(|(_, before)| before == all);
        progress.empty = if is_empty { progress.empty + 1 } else { 0 };
        let was_judging = self.balancer.is_judging();
        self.note_pace(asked, all);
        let (progress, balancer) = (&mut self.balances.progress, &mut self.balancer);
        let empty_max = if balancer.is_judging() { EMPTY_MAX } else { EMPTY_MAX_BEFORE };
        if progress.empty >= empty_max && !balancer.is_moving() {
            progress.is_on = false;
            balancer.give_up();
        } else if balancer.is_judging() || balancer.wants_pace() {
            progress.count += 1;
            if progress.count.is_multiple_of(PROBES_PER_PAUSE) {
                progress.pause = (progress.pause * 2).min(PAUSE_MAX);
            }
            let pause = progress.pause;
            self.run_after(pause, Timer::ProbeProgress(number));
        } else {
            progress.is_on = false;
        }
        if was_judging {
            self.after_judging();
        }
        self.end_idle_tick(all);
        self.end_idle_event(all);
    }

    /// Estimates the clock of the job's own time, from the last report of main's PE.
    pub(super) fn own_now(&self) -> Time {
        Time(self.now.0.saturating_sub(self.balances.own_lag.as_nanos() as u64))
    }

    pub(super) fn learn_own_time(&mut self, at: Time) {
        self.balances.own_lag = self.now.since(at);
    }

    /// Continues after the balancer may have judged a plan.
    pub(super) fn after_judging(&mut self) {
        // The window that began with the plan continues, because loads are measured since then.
        let is_undo = self.balancer.wants_undo();
        self.tell_balances();
        if is_undo {
            self.queue_balance(Cause::Undo);
        }
    }

    /// Ends the measurement window at the time when the PEs were asked, and starts the next one.
    /// Called when all measurements have arrived.
    pub(super) fn end_window(&mut self) -> Option<Occasion> {
        let (asked, handled) = (self.balances.asked_own, self.balances.handled);
        let occasion = self.balances.end_window(self.now);
        self.note_pace(asked, handled);
        self.begin_pace();
        occasion
    }

    /// Reports to the balancer that the job had handled `handled` messages since its start, at time
    /// `at` of the job's clock.
    fn note_pace(&mut self, at: Time, handled: u64) {
        let now = self.now;
        let progress = &mut self.balances.progress;
        // Answers to two probes may overtake each other.
        let is_new = progress.last.is_none_or(|(last, before)| at > last && handled >= before);
        if is_new && let Some((last, before)) = progress.last.replace((at, handled)) {
            self.balancer.progress(now, at.since(last), handled - before);
        }
    }
}
