//! The actors that exchange messages: one sends first and measures, the other one answers.
//!
//! A measurement begins with a trial, in which both check the content of a message. In the
//! measurement itself they check sizes and numbers of messages. The clock of a PE advances only
//! from turn to turn, and one turn may handle many messages. Therefore the actor that measures ends
//! its turn and reads the clock at the beginning of the next one, before the first message and
//! after the last.

use super::ladder::WINDOW;
use gridspan_kernels::payload::payload as content;
use gridspan_runtime::{Actor, ActorRef, Context, Ix1, Numbers, Reply};
use serde::{Deserialize, Serialize};

/// What is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Operation {
    /// A message, and the same one back.
    RoundTrip,
    /// [`WINDOW`] messages, and one without content back.
    Window,
}

#[derive(Clone, Serialize, Deserialize)]
pub(super) enum Message {
    /// To the one that measures. The answer is the time of all repetitions in ns, or `None` if a
    /// message arrived damaged.
    Measure {
        partner: ActorRef<Peer>,
        operation: Operation,
        bytes: usize,
        repetitions: u64,
        reply: Reply<Option<u64>>,
    },
    /// To the one that answers: a message to be checked.
    Trial { from: ActorRef<Peer>, bytes: usize, payload: Numbers<u8> },
    /// To the one that answers: the message of a round trip.
    Ball(Numbers<u8>),
    /// To the one that answers: a message of a window.
    Stream(Numbers<u8>),
    /// To the one that measures: the answer, and whether the messages that it answers arrived
    /// whole.
    Back { is_whole: bool, payload: Numbers<u8> },
    /// From the one that measures to itself: read the clock, and begin or end the measurement.
    Clock,
}

/// An actor that measures or answers. Each PE has one of each kind, and they never move.
#[derive(Serialize, Deserialize)]
pub(super) struct Peer {
    measured: Option<Measured>,
    answering: Option<Answering>,
}

/// The measurement in progress, at the actor that measures.
#[derive(Serialize, Deserialize)]
struct Measured {
    partner: ActorRef<Peer>,
    operation: Operation,
    payload: Numbers<u8>,
    left: u64,
    /// `None` before the end of the trial.
    begin_ns: Option<u64>,
    reply: Reply<Option<u64>>,
}

/// The measurement in progress, at the actor that answers.
#[derive(Serialize, Deserialize)]
struct Answering {
    to: ActorRef<Peer>,
    bytes: usize,
    /// Number of messages of the present window.
    received: u32,
    is_whole: bool,
}

impl Actor for Peer {
    type Index = Ix1;
    type Init = ();
    type Message = Message;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self { measured: None, answering: None }
    }

    fn handle(&mut self, message: Message, cx: &mut Context<'_, Self>) {
        match message {
            Message::Measure { partner, operation, bytes, repetitions, reply } => {
                let payload = Numbers::from(content(bytes, 0));
                let trial = Message::Trial { from: cx.me(), bytes, payload: payload.clone() };
                let (left, begin_ns) = (repetitions, None);
                self.measured =
                    Some(Measured { partner, operation, payload, left, begin_ns, reply });
                cx.send(&partner, trial);
            }
            Message::Trial { from, bytes, payload } => {
                let is_whole = *payload == *content(bytes, 0);
                self.answering = Some(Answering { to: from, bytes, received: 0, is_whole });
                cx.send(&from, Message::Back { is_whole, payload });
            }
            Message::Ball(payload) => {
                if let Some(answering) = &self.answering {
                    cx.send(&answering.to, Message::Back { is_whole: true, payload });
                }
            }
            Message::Stream(payload) => self.receive(&payload, cx),
            Message::Back { is_whole, payload } => self.catch(is_whole, &payload, cx),
            Message::Clock => self.read_clock(cx),
        }
    }

    fn heap_bytes(message: &Message) -> usize {
        match message {
            Message::Trial { payload, .. }
            | Message::Ball(payload)
            | Message::Stream(payload)
            | Message::Back { payload, .. } => payload.len(),
            Message::Measure { .. } | Message::Clock => 0,
        }
    }
}

impl Peer {
    /// Handles a message of a window, and answers the last one.
    fn receive(&mut self, payload: &[u8], cx: &mut Context<'_, Self>) {
        let Some(answering) = &mut self.answering else { return };
        answering.is_whole &= payload.len() == answering.bytes;
        answering.received += 1;
        if answering.received == WINDOW {
            answering.received = 0;
            let is_whole = answering.is_whole;
            cx.send(&answering.to, Message::Back { is_whole, payload: Numbers::default() });
        }
    }

    /// Handles an answer.
    fn catch(&mut self, is_whole: bool, payload: &[u8], cx: &mut Context<'_, Self>) {
        let Some(measured) = &mut self.measured else { return };
        let is_trial = measured.begin_ns.is_none();
        let is_expected = match measured.operation {
            _ if is_trial => *payload == *measured.payload,
            Operation::RoundTrip => payload.len() == measured.payload.len(),
            Operation::Window => payload.is_empty(),
        };
        if !is_whole || !is_expected {
            return cx.reply(measured.reply, None);
        }
        if !is_trial {
            measured.left -= 1;
        }
        if is_trial || measured.left == 0 {
            cx.end_turn();
            return cx.send(&cx.me(), Message::Clock);
        }
        measured.repeat(cx);
    }

    fn read_clock(&mut self, cx: &mut Context<'_, Self>) {
        let now_ns = cx.now().as_nanos();
        let Some(measured) = &mut self.measured else { return };
        if let Some(begin_ns) = measured.begin_ns {
            return cx.reply(measured.reply, Some(now_ns - begin_ns));
        }
        measured.begin_ns = Some(now_ns);
        measured.repeat(cx);
    }
}

impl Measured {
    /// Sends the messages of one repetition.
    fn repeat(&self, cx: &mut Context<'_, Peer>) {
        match self.operation {
            Operation::RoundTrip => cx.send(&self.partner, Message::Ball(self.payload.clone())),
            Operation::Window => {
                for _ in 0..WINDOW {
                    cx.send(&self.partner, Message::Stream(self.payload.clone()));
                }
            }
        }
    }
}
