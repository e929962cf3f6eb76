//! One PE in virtual time: its machine, what waits for it, and when it is free.

use crate::options::SimOptions;
use gridspan_runtime::pe::{Action, Pe};
use gridspan_runtime::wire::Packet;
use gridspan_runtime::{JobError, PeId, Time};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// A PE and its place in time.
pub(crate) struct Station {
    pub(crate) machine: Pe,
    pub(crate) inbox: Vec<(PeId, Packet)>,
    /// What main wants the PE to do.
    pub(crate) actions: Vec<Action>,
    /// When the PE has done what it is doing.
    pub(crate) busy_until: Time,
    /// When its next turn is, and the number of the event that stands for it.
    pub(crate) next_turn: Option<(Time, u64)>,
}

impl Station {
    pub(crate) fn new(machine: Pe) -> Self {
        Self {
            machine,
            inbox: Vec::new(),
            actions: Vec::new(),
            busy_until: Time::ZERO,
            next_turn: None,
        }
    }

    /// Takes what has come and handles one message. Returns how long taking and how long handling takes.
    pub(crate) fn turn(&mut self, now: Time, options: &SimOptions) -> (Duration, Duration) {
        let Self { machine, inbox, actions, .. } = self;
        let me = machine.id();
        let others = inbox.iter().filter(|(from, _)| *from != me).count() as u32;
        let handled = catch_unwind(AssertUnwindSafe(|| {
            machine.set_now(now);
            for action in actions.drain(..) {
                machine.act(action);
            }
            for (from, packet) in inbox.drain(..) {
                machine.handle(from, packet);
            }
            let handled = machine.run(1);
            machine.finish_turn();
            handled
        }));
        let charged = machine.take_charged();
        let handling = match handled {
            Ok(0) => charged,
            Ok(_) if charged.is_zero() => options.message_cost,
            Ok(_) => charged,
            Err(panic) => {
                let (actor, place) = machine.running();
                let (actor, reason) = (actor.to_owned(), panic_message(&*panic));
                machine.fail(JobError::Panicked { actor, pe: me, place, reason });
                charged
            }
        };
        (options.packet_cost * others, handling)
    }

    /// When the PE has something to do next, if nothing else comes.
    pub(crate) fn wakeup(&self) -> Option<Time> {
        // A PE that has failed handles nothing more and only waits for the end of the job.
        let ready = self.machine.has_work() && !self.machine.has_failed();
        if ready || !self.inbox.is_empty() || !self.actions.is_empty() {
            return Some(self.busy_until);
        }
        Some(self.machine.next_wakeup()?.max(self.busy_until))
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
