//! Messages from one PE to another in one process: a stream, and a ball that goes back and forth.

use crate::suite::Sample;
use gridspan_runtime::driver::embedded;
use gridspan_runtime::{Actor, ActorRef, Context, Ix1, Job, Op, To};
use serde::{Deserialize, Serialize};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Number of messages that one handler sends, as if to a list of neighbours.
const BURST: u64 = 64;

#[derive(Serialize, Deserialize)]
struct Side {
    left: u64,
    sum: u64,
}

#[derive(Clone, Serialize, Deserialize)]
enum Msg {
    /// Send this number of values to the other side.
    Stream(u64),
    Value(u64),
    /// Throw the ball back, unless 0 throws are left.
    Ball(u64),
}

impl Side {
    fn other(cx: &Context<'_, Self>) -> ActorRef<Self> {
        cx.collection().at(Ix1(1 - cx.index().0))
    }
}

impl Actor for Side {
    type Index = Ix1;
    type Init = u64;
    type Message = Msg;

    fn create(expected: u64, _cx: &mut Context<'_, Self>) -> Self {
        Self { left: expected, sum: 0 }
    }

    fn handle(&mut self, message: Msg, cx: &mut Context<'_, Self>) {
        match message {
            Msg::Stream(0) => cx.contribute(Op::Sum, 0u64, To::main()),
            Msg::Stream(left) => {
                let other = Self::other(cx);
                let burst = left.min(BURST);
                (0..burst).for_each(|value| cx.send(&other, Msg::Value(value)));
                let me = cx.me();
                cx.send(&me, Msg::Stream(left - burst));
            }
            Msg::Value(value) => {
                self.sum += value;
                self.left -= 1;
                if self.left == 0 {
                    cx.contribute(Op::Sum, self.sum, To::main());
                }
            }
            Msg::Ball(left) => {
                if left < 2 {
                    cx.contribute(Op::Sum, left, To::main());
                }
                if left > 0 {
                    let other = Self::other(cx);
                    cx.send(&other, Msg::Ball(left - 1));
                }
            }
        }
    }
}

fn run(first: Msg, expected: u64, operations: u64) -> Sample {
    let (send, receive) = mpsc::channel::<Duration>();
    let job = Job::new("between").actor::<Side>().main(async move |grid| {
        let sides = grid.create::<Side>(Ix1::range(2), |_| expected).await?;
        let begin = Instant::now();
        sides.member(Ix1(0)).send(first);
        let _: u64 = sides.reduction(Op::Sum).await?;
        send.send(begin.elapsed()).expect("the bench waits for the figure");
        Ok(())
    });
    embedded::run(job, 2).expect("both sides run");
    Sample { elapsed: receive.recv().expect("main has sent it"), operations }
}

/// Streams `messages` messages from PE 0 to PE 1.
pub(crate) fn stream(messages: u64) -> Sample {
    run(Msg::Stream(messages), messages, messages)
}

/// Sends a message back and forth between the PEs, `crossings` times in all.
pub(crate) fn ball(crossings: u64) -> Sample {
    run(Msg::Ball(crossings), 0, crossings)
}
