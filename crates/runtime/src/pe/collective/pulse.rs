//! When to balance, and how the job gets on afterwards.
//!
//! **Start.** With the first collection a clock begins to tick, if the job wants to be balanced now and then. Changes of
//! links, and PEs that get another share of their processor than before, are events after which a strategy
//! that predicts is asked too, at most once a second and less often while that leads to nothing.
//!
//! **Steady state.** After a plan that is to be judged, the root asks all PEs again and again how many messages
//! they have handled. When the balancer has seen enough, it says how the plan turned out, and may want
//! it undone, which is one more rebalance while everybody goes on.
//!
//! **Failure.** A job that handles nothing for long waits for something else; its plan is not judged.

use crate::pe::core::Core;
use crate::pe::state::{Balances, Pulse};
use crate::wire::Control;
use gridspan_balance::{Cause, Refusal};
use std::time::Duration;

/// The first pause between two questions about the pace of the job; each is twice as long as the one before. It is
/// as long as the window that led to the plan, within these bounds: jobs of short steps are judged soon.
const PULSE_MIN: Duration = Duration::from_millis(5);
const PULSE_FIRST_MAX: Duration = Duration::from_millis(50);
/// The longest.
const PULSE_MAX: Duration = Duration::from_secs(1);
/// So many answers in a row that nothing was handled, and nobody asks any more: half a minute.
const EMPTY_MAX: u32 = 30;
/// For how long an event is measured before a strategy is asked about it, and the least time between two.
const EVENT_PAUSE: Duration = Duration::from_secs(1);
/// The longest time between two looks at an event that the gate does not think worth it yet.
const EVENT_PAUSE_MAX: Duration = Duration::from_secs(30);

impl Core {
    /// Begins to balance now and then, if the job wants it. Runs on the root.
    pub(super) fn begin_periods(&mut self) {
        let Some(every) = self.common.balancing.every else { return };
        let Some(root) = &mut self.root else { return };
        if root.balancer.is_active() && !std::mem::replace(&mut root.balances.is_periodic, true) {
            self.run_upkeep_after(every, move |core| core.tick(every));
        }
    }

    fn tick(&mut self, every: Duration) {
        match self.may_balance() {
            // The clock goes on when that is over, so that others have their time in between.
            true => self.queue_balance(Balances::<Self>::ALL, Cause::Period),
            false => self.run_upkeep_after(every, move |core| core.tick(every)),
        }
    }

    /// Whether the strategy may be asked unasked.
    fn may_balance(&self) -> bool {
        let may = |root: &crate::pe::state::Root<Self>| {
            root.balances.queue.is_empty() && root.balancer.may_begin(self.now)
        };
        self.root.as_ref().is_some_and(|root| may(root))
    }

    /// Something has changed that may be worth a rebalance. Runs on the root.
    pub(in crate::pe) fn balance_after(&mut self, cause: Cause) {
        let Some(root) = &mut self.root else { return };
        let is_alone = self.common.layout.pe_count() < 2;
        if is_alone || !root.balancer.is_active() || !root.balancer.predicts() {
            return;
        }
        let events = &mut root.balances.events;
        events.waiting = Some(cause);
        events.pause = EVENT_PAUSE;
        if !std::mem::replace(&mut events.is_timed, true) {
            // What was measured before the foreign load changed says nothing of it.
            let is_news = cause == Cause::ForeignLoad;
            if is_news && self.may_balance() {
                self.forget_window();
            }
            self.run_upkeep_after(EVENT_PAUSE, Self::look_at_event);
        }
    }

    /// Begins a window that knows of what has changed.
    fn forget_window(&mut self) {
        let Some(root) = &mut self.root else { return };
        root.balances.events.is_fresh_wanted = true;
        self.queue_balance(Balances::<Self>::ALL, Cause::ForeignLoad);
    }

    fn look_at_event(&mut self) {
        let may_balance = self.may_balance();
        let Some(root) = &mut self.root else { return };
        let events = &mut root.balances.events;
        events.is_timed = false;
        if events.waiting.is_none() {
            return;
        }
        if may_balance && let Some(cause) = events.waiting.take() {
            return self.queue_balance(Balances::<Self>::ALL, cause);
        }
        events.is_timed = true;
        self.run_upkeep_after(EVENT_PAUSE, Self::look_at_event);
    }

    /// Looks at an event again after a while, if the gate may think otherwise then.
    fn look_again(&mut self, cause: Cause) {
        let Some(root) = &mut self.root else { return };
        let events = &mut root.balances.events;
        events.waiting.get_or_insert(cause);
        events.pause = (events.pause * 2).clamp(EVENT_PAUSE, EVENT_PAUSE_MAX);
        let pause = events.pause;
        if !std::mem::replace(&mut events.is_timed, true) {
            self.run_upkeep_after(pause, Self::look_at_event);
        }
    }

    /// A rebalance is over. `was_judging`: an earlier plan was being judged, and still is.
    pub(super) fn after_balance(&mut self, cause: Option<Cause>, was_judging: bool) {
        if let (Some(Cause::Period), Some(every)) = (cause, self.common.balancing.every) {
            self.run_upkeep_after(every, move |core| core.tick(every));
        }
        let refusal = self.tell_balances();
        let Some(root) = &mut self.root else { return };
        if root.balancer.is_judging() && !was_judging {
            let number = root.balances.pulse.number;
            let pause = root.balances.measured.clamp(PULSE_MIN, PULSE_FIRST_MAX);
            root.balances.pulse = Pulse { number, pause, ..Pulse::default() };
            self.pulse();
        }
        let may_pass = !matches!(refusal, None | Some(Refusal::TooLittle { .. }));
        if let Some(cause @ (Cause::Link | Cause::ForeignLoad)) = cause.filter(|_| may_pass) {
            self.look_again(cause);
        }
    }

    /// Tells whoever wants to know what became of rebalances. Returns why the last was refused, if it was.
    fn tell_balances(&mut self) -> Option<Refusal> {
        let mut refusal = None;
        while let Some(report) = self.root.as_mut().and_then(|root| root.balancer.take_report()) {
            tracing::info!(cause = ?report.cause, refusal = ?report.refusal, "rebalance: {report}");
            for tell in &self.common.balancing.on_balance {
                tell(&report);
            }
            refusal = report.refusal;
        }
        refusal
    }

    /// The job ends, and nobody will know any more what the last plan has brought.
    pub(in crate::pe) fn conclude_balances(&mut self) {
        if let Some(root) = &mut self.root {
            root.balancer.give_up();
            self.tell_balances();
        }
    }

    /// Asks all PEs how many messages they have handled.
    fn pulse(&mut self) {
        let (now, pes) = (self.now, self.common.layout.pes());
        let Some(root) = &mut self.root else { return };
        if !root.balancer.is_judging() {
            return;
        }
        let pulse = &mut root.balances.pulse;
        pulse.number += 1;
        (pulse.missing, pulse.handled, pulse.asked) = (pes.len() as u32, 0, now);
        let number = pulse.number;
        for pe in pes {
            self.post(pe, Control::Pulse { number });
        }
    }

    pub(in crate::pe) fn handle_pulse(&mut self, number: u64) {
        let handled = self.handled_once();
        self.post(Self::ROOT, Control::Beat { number, handled });
    }

    pub(in crate::pe) fn handle_beat(&mut self, number: u64, handled: u64) {
        let now = self.now;
        let Some(root) = &mut self.root else { return };
        let pulse = &mut root.balances.pulse;
        if number != pulse.number || pulse.missing == 0 {
            return;
        }
        pulse.handled += handled;
        pulse.missing -= 1;
        if pulse.missing > 0 {
            return;
        }
        if let Some((asked, before)) = pulse.last.replace((pulse.asked, pulse.handled)) {
            let news = pulse.handled.saturating_sub(before);
            pulse.empty = if news == 0 { pulse.empty + 1 } else { 0 };
            root.balancer.progress(now, pulse.asked.since(asked), news);
            if pulse.empty == EMPTY_MAX {
                root.balancer.give_up();
            }
        }
        if root.balancer.is_judging() {
            let pause = pulse.pause;
            pulse.pause = (pause * 2).min(PULSE_MAX);
            return self.run_upkeep_after(pause, Self::pulse);
        }
        // The window goes on that began with the plan, since loads are measured from then on.
        let is_undo = root.balancer.wants_undo();
        self.tell_balances();
        if is_undo {
            self.queue_balance(Balances::<Self>::ALL, Cause::Undo);
        }
    }
}
