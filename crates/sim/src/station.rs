//! One PE in virtual time: its machine, its inbox, and the time at which it is free.

use crate::options::SimOptions;
use gridspan_record::TimeUse;
use gridspan_runtime::message::Packet;
use gridspan_runtime::pe::{Action, Next, Pe, PeCommand, Spent, TRIAL, TurnOutput};
use gridspan_runtime::{PeId, Time};
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
    /// Time for the decoding of parts of a checkpoint, which is not charged yet.
    pub(crate) decoding: Duration,
    /// When the PE has finished its current turn.
    pub(crate) busy_until: Time,
    /// Time of the next turn of the PE, and the number of that event.
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
    /// Commands and packets that leave when the turn has ended.
    output: Output,
}

/// The commands and packets of a turn.
#[derive(Default)]
pub(crate) struct Output {
    pub(crate) commands: Vec<PeCommand>,
    pub(crate) packets: Vec<(PeId, Packet)>,
}

/// A turn on a processor without sharing.
pub(crate) struct Turn {
    /// Time for accepting packets.
    pub(crate) taking: Duration,
    /// Time for handling a message.
    pub(crate) handling: Duration,
    pub(crate) output: Output,
}

impl Station {
    /// A PE on processors of this speed. The PE knows the speed exactly.
    pub(crate) fn new(mut machine: Pe, speed: Speed) -> Self {
        machine.set_pace(speed);
        machine.set_speed(speed.factor());
        Self {
            machine,
            speed,
            inbox: Vec::new(),
            actions: Vec::new(),
            decoding: Duration::ZERO,
            busy_until: Time::ZERO,
            next_turn: None,
            held: None,
        }
    }

    /// Accepts the packets in the inbox and handles one message.
    pub(crate) fn turn(&mut self, now: Time, options: &SimOptions) -> Turn {
        let Self { machine, inbox, actions, speed, decoding, .. } = self;
        let me = machine.id();
        let others = inbox.iter().filter(|(from, _)| *from != me).count() as u32;
        let taking = speed.takes(options.packet_cost).saturating_mul(others);
        let handled = catch_unwind(AssertUnwindSafe(|| {
            machine.set_now(now);
            if machine.is_recorded() {
                machine.begin_recorded_turn(taking, speed.takes(options.message_cost));
            }
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
        let handled = handled.unwrap_or_else(|panic| {
            let error = machine.panicked(&panic_message(&*panic));
            machine.fail(error);
            0
        });
        let TurnOutput { charged, encoded, commands, packets } = machine.take_output();
        let is_free = handled > 0 && charged.is_zero();
        let handling = if is_free { speed.takes(options.message_cost) } else { charged };
        let output = Output { commands, packets: packets.collect() };
        let encoding = speed.takes(options.checkpoint_rate.time_for(encoded));
        machine.note_encoding(encoding);
        let coding = encoding.saturating_add(speed.takes(std::mem::take(decoding)));
        Turn { taking, handling: handling.saturating_add(coding), output }
    }

    /// Holds the packets of a turn back until the PE has got the time that it needs on a shared
    /// processor. Returns that time, which is longer if an idle PE uses the turn to measure its
    /// share.
    pub(crate) fn hold(&mut self, begin: Time, turn: Turn) -> Duration {
        let Turn { taking, handling, output } = turn;
        let work = taking.saturating_add(handling);
        let is_trial = work.is_zero()
            && matches!(self.machine.next(true), Next::Wait { trial: Some(at), .. } if at <= begin);
        let takes = if is_trial { TRIAL } else { work };
        self.held = Some(Held { begin, takes, taking, is_trial, output });
        takes
    }

    /// Ends the turn on a shared processor. Returns its output.
    pub(crate) fn release(&mut self, now: Time) -> Output {
        let Some(held) = self.held.take() else { return Output::default() };
        let Held { begin, takes, taking, is_trial, mut output } = held;
        let waited = now.since(begin).saturating_sub(takes);
        let used = if is_trial { TimeUse::Idle } else { TimeUse::Runtime };
        self.machine.record_use(begin + takes, used);
        self.machine.record_use(now, TimeUse::Waited);
        let spent = Spent { ran: takes, waited, communication: Some(taking) };
        self.machine.set_now(now);
        match is_trial {
            true => self.machine.note_trial(now, spent),
            false => self.machine.note_time(spent),
        }
        let TurnOutput { commands, packets, .. } = self.machine.take_output();
        output.commands.extend(commands);
        output.packets.extend(packets);
        output
    }

    /// Whether the PE has only upkeep to do, now and later, unless a packet arrives.
    pub(crate) fn has_only_upkeep(&self, now: Time) -> bool {
        let is_free = self.held.is_none() && self.busy_until <= now;
        let has_nothing = self.inbox.is_empty() && self.actions.is_empty();
        is_free && has_nothing && self.machine.has_only_upkeep()
    }

    /// When the PE has its next work, unless something arrives before.
    pub(crate) fn wakeup(&self) -> Option<Time> {
        if !self.inbox.is_empty() || !self.actions.is_empty() {
            return Some(self.busy_until);
        }
        match self.machine.next(true) {
            Next::Turn => Some(self.busy_until),
            Next::Wait { wakeup, trial } => {
                let next = [wakeup, trial].into_iter().flatten().min();
                Some(next?.max(self.busy_until))
            }
        }
    }
}

/// The message of a panic.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
