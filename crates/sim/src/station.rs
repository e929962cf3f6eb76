//! One PE in virtual time: its machine, its inbox, and the time at which it is free.

use crate::options::SimOptions;
use gridspan_runtime::message::Packet;
use gridspan_runtime::pe::{Action, Pe, Spent, TRIAL};
use gridspan_runtime::{JobError, PeId, Time};
use gridspan_topology::Speed;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// A PE and its place in time.
pub(crate) struct Station {
    pub(crate) machine: Pe,
    pub(crate) speed: Speed,
    pub(crate) inbox: Vec<(PeId, Packet)>,
    /// Actions for the PE, such as those of main.
    pub(crate) actions: Vec<Action>,
    /// When the PE has finished its current turn.
    pub(crate) busy_until: Time,
    /// When its next turn is, and the number of the event for that.
    pub(crate) next_turn: Option<(Time, u64)>,
    /// The current turn on a shared processor.
    pub(crate) held: Option<Held>,
}

/// A turn on a shared processor.
pub(crate) struct Held {
    begin: Time,
    /// Time that it takes on a processor without sharing.
    takes: Duration,
    /// The part of that time for accepting packets.
    taking: Duration,
    /// Whether an idle PE uses the turn to measure its share.
    is_trial: bool,
    /// Packets that leave when the turn has ended.
    packets: Vec<(PeId, Packet)>,
}

impl Station {
    /// A PE on processors of this speed, which it learns exactly.
    pub(crate) fn new(mut machine: Pe, speed: Speed) -> Self {
        machine.set_pace(speed);
        machine.set_speed(speed.factor());
        Self {
            machine,
            speed,
            inbox: Vec::new(),
            actions: Vec::new(),
            busy_until: Time::ZERO,
            next_turn: None,
            held: None,
        }
    }

    /// Accepts the packets in the inbox and handles one message. Returns the times for accepting
    /// and for handling.
    pub(crate) fn turn(&mut self, now: Time, options: &SimOptions) -> (Duration, Duration) {
        let Self { machine, inbox, actions, speed, .. } = self;
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
            Ok(_) if charged.is_zero() => speed.takes(options.message_cost),
            Ok(_) => charged,
            Err(panic) => {
                let (actor, place) = machine.running();
                let (actor, reason) = (actor.to_owned(), panic_message(&*panic));
                machine.fail(JobError::Panicked { actor, pe: me, place, reason });
                charged
            }
        };
        (speed.takes(options.packet_cost) * others, handling)
    }

    /// Holds the packets of a turn back until the PE has got the time that it needs on a shared
    /// processor. Returns that time, which is longer if an idle PE uses the turn to measure its
    /// share.
    pub(crate) fn hold(
        &mut self,
        begin: Time,
        (taking, handling): (Duration, Duration),
        packets: Vec<(PeId, Packet)>,
    ) -> Duration {
        let is_idle = (taking + handling).is_zero() && !self.machine.has_work();
        let is_trial = is_idle && self.machine.next_trial().is_some_and(|at| at <= begin);
        let takes = if is_trial { TRIAL } else { taking + handling };
        self.held = Some(Held { begin, takes, taking, is_trial, packets });
        takes
    }

    /// Ends the turn on a shared processor. Returns the PE's packets.
    pub(crate) fn release(&mut self, now: Time) -> Vec<(PeId, Packet)> {
        let Some(held) = self.held.take() else { return Vec::new() };
        let Held { begin, takes, taking, is_trial, mut packets } = held;
        let waited = now.since(begin).saturating_sub(takes);
        let spent = Spent { ran: takes, waited, communication: Some(taking) };
        self.machine.set_now(now);
        match is_trial {
            true => self.machine.note_trial(now, spent),
            false => self.machine.note_time(spent),
        }
        packets.extend(self.machine.outbox().drain());
        packets
    }

    /// Whether the PE has only upkeep to do, now and later, unless a packet arrives.
    pub(crate) fn has_only_upkeep(&self, now: Time) -> bool {
        let is_free = self.held.is_none() && self.busy_until <= now;
        let has_nothing = self.inbox.is_empty() && self.actions.is_empty();
        is_free && has_nothing && self.machine.has_only_upkeep()
    }

    /// When the PE has its next work, unless something arrives before.
    pub(crate) fn wakeup(&self) -> Option<Time> {
        // A failed PE handles nothing and only waits for the end of the job.
        let ready = self.machine.has_work() && !self.machine.has_failed();
        if ready || !self.inbox.is_empty() || !self.actions.is_empty() {
            return Some(self.busy_until);
        }
        let trial = self.machine.next_trial().filter(|_| !self.machine.has_failed());
        let next = [self.machine.next_wakeup(), trial].into_iter().flatten().min();
        Some(next?.max(self.busy_until))
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
