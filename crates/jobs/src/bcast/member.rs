//! The members, one on each node. A member takes payloads, forwards those of the hand-written tree,
//! and confirms each. After each broadcast, main asks whether it received the payload once and
//! whole. One member is the root, which measures.

use super::binomial::children;
use gridspan_kernels::payload::{Digest, payload};
use gridspan_runtime::{Actor, Context, Ix1, Numbers, Op, Reduction, Reply, Time, To, Unordered};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How a payload travels to all members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    /// By the runtime's broadcast.
    Runtime,
    /// By the runtime's broadcast without the total order.
    Unordered,
    /// By messages from member to member along a binomial tree.
    Binomial,
}

/// A measurement of the root.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Question {
    /// The time from a broadcast to the confirmation of all members.
    Broadcast {
        /// How it travels.
        way: Way,
        /// The size of its payload.
        bytes: usize,
        /// Number of the round, which determines the payload.
        round: u64,
    },
    /// The time between a message to the only member that has not contributed and the result of the
    /// reduction.
    Closing {
        /// Index of that member.
        last: u32,
    },
    /// The time between a message to a member and its answer.
    RoundTrip {
        /// Index of that member.
        with: u32,
    },
}

/// The messages of a member.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Message {
    /// To the root: measure, and answer with the time in ns, or `None` if not all members have
    /// confirmed.
    Measure {
        /// The measurement.
        question: Question,
        /// Where the answer goes.
        reply: Reply<Option<u64>>,
    },
    /// From the root to itself: the preparations are complete, and the time starts now.
    Go,
    /// A broadcast payload.
    Payload {
        /// How it travels.
        way: Way,
        /// The bytes.
        bytes: Numbers<u8>,
    },
    /// To the root: the result of the confirming reduction.
    Confirmed {
        /// Number of members that have confirmed.
        members: u64,
    },
    /// Contribute to the next reduction to the root, unless the receiver is `except`.
    Contribute {
        /// Index of the member that does not contribute.
        except: Option<u32>,
    },
    /// Answer the root with [`Message::Pong`] at once.
    Ping,
    /// To the root: the answer to [`Message::Ping`].
    Pong,
    /// Contribute to main whether the member has received `payloads` payloads, the last of them
    /// with this digest.
    Verify {
        /// Expected number of payloads.
        payloads: u64,
        /// Digest of the last payload.
        digest: Digest,
    },
}

/// A member. There is one on each node.
#[derive(Serialize, Deserialize)]
pub struct BcastMember {
    members: u32,
    /// The index of the root.
    root: u32,
    payloads: u64,
    last: Numbers<u8>,
    measured: Option<Measured>,
}

/// The measurement in progress at the root.
#[derive(Clone, Serialize, Deserialize)]
struct Measured {
    question: Question,
    /// The payload of a broadcast; empty for other measurements.
    bytes: Numbers<u8>,
    begin: Time,
    reply: Reply<Option<u64>>,
}

/// Delay between the preparation of a measurement and its start, for two reasons. The clock of a
/// handler shows the beginning of the PE's turn, so the start needs another turn than the one that
/// made the payload. All nodes should be idle at the start.
const PAUSE: Duration = Duration::from_millis(1);

impl Actor for BcastMember {
    type Index = Ix1;
    /// The number of members and the index of the root.
    type Init = (u32, u32);
    type Message = Message;

    fn create((members, root): (u32, u32), _cx: &mut Context<'_, Self>) -> Self {
        Self { members, root, payloads: 0, last: Numbers::default(), measured: None }
    }

    fn handle(&mut self, message: Message, cx: &mut Context<'_, Self>) {
        match message {
            Message::Measure { question, reply } => self.prepare(question, reply, cx),
            Message::Go => self.begin(cx),
            Message::Payload { way, bytes } => self.take(way, bytes, cx),
            Message::Confirmed { members } => self.answer(members == u64::from(self.members), cx),
            Message::Contribute { except } => {
                if except != Some(rank(cx)) {
                    self.confirm(cx);
                }
            }
            Message::Ping => cx.send(&cx.collection().at(self.root()), Message::Pong),
            Message::Pong => self.answer(true, cx),
            Message::Verify { payloads, digest } => {
                let is_whole = self.payloads == payloads && Digest::of(&self.last) == digest;
                cx.contribute(Op::Sum, u64::from(is_whole), To::main());
            }
        }
    }

    fn reduced(reduction: Reduction) -> Option<Message> {
        Some(Message::Confirmed { members: reduction.get()? })
    }

    fn heap_bytes(message: &Message) -> usize {
        match message {
            Message::Payload { bytes, .. } => bytes.len(),
            _ => 0,
        }
    }
}

impl BcastMember {
    /// Makes the payload, and schedules the start of the measurement.
    fn prepare(
        &mut self,
        question: Question,
        reply: Reply<Option<u64>>,
        cx: &mut Context<'_, Self>,
    ) {
        let bytes = match question {
            Question::Broadcast { bytes, round, .. } => payload(bytes, round).into(),
            Question::Closing { .. } | Question::RoundTrip { .. } => Numbers::default(),
        };
        self.measured = Some(Measured { question, bytes, begin: cx.now(), reply });
        cx.send_after(PAUSE, &cx.me(), Message::Go);
    }

    fn begin(&mut self, cx: &mut Context<'_, Self>) {
        let Some(measured) = &mut self.measured else { return };
        measured.begin = cx.now();
        let bytes = std::mem::take(&mut measured.bytes);
        let all = cx.collection();
        match measured.question {
            Question::Broadcast { way: Way::Runtime, .. } => {
                cx.broadcast(&all, Message::Payload { way: Way::Runtime, bytes });
            }
            Question::Broadcast { way: Way::Unordered, .. } => {
                cx.broadcast_with(Unordered, &all, Message::Payload { way: Way::Unordered, bytes });
            }
            Question::Broadcast { way: Way::Binomial, .. } => {
                self.take(Way::Binomial, bytes, cx);
            }
            Question::Closing { last } => {
                cx.send(&all.at(Ix1(last as i32)), Message::Contribute { except: None });
            }
            Question::RoundTrip { with } => cx.send(&all.at(Ix1(with as i32)), Message::Ping),
        }
    }

    /// Forwards a payload if it travels along the binomial tree, counts and keeps it, and confirms
    /// it.
    fn take(&mut self, way: Way, bytes: Numbers<u8>, cx: &mut Context<'_, Self>) {
        if way == Way::Binomial {
            // Ranks in the tree count from the root.
            let (root, members) = (self.root, self.members);
            for child in children((rank(cx) + members - root) % members, members) {
                let child = cx.collection().at(Ix1(((child + root) % members) as i32));
                cx.send(&child, Message::Payload { way, bytes: bytes.clone() });
            }
        }
        self.payloads += 1;
        self.last = bytes;
        self.confirm(cx);
    }

    fn root(&self) -> Ix1 {
        Ix1(self.root as i32)
    }

    fn confirm(&self, cx: &mut Context<'_, Self>) {
        let root = cx.collection().at(self.root());
        cx.contribute(Op::Sum, 1_u64, To::member(root, 0));
    }

    fn answer(&mut self, is_complete: bool, cx: &mut Context<'_, Self>) {
        let Some(measured) = self.measured.take() else { return };
        let elapsed = cx.now().since(measured.begin);
        let elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        cx.reply(measured.reply, is_complete.then_some(elapsed_ns));
    }
}

fn rank(cx: &Context<'_, BcastMember>) -> u32 {
    cx.index().0 as u32
}
