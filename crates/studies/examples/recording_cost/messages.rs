//! Benches of messages in one process, like those of `cargo bench --bench local`.

use crate::observed::{self, Observed};
use gridspan_runtime::{Actor, Context, Ix1, Job, Op, To};
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::sync::mpsc::channel;
use std::time::Instant;

/// Number of messages that one handler of a stream sends, as if to a list of neighbours.
const BURST: u64 = 64;
/// Divisor of the number of messages in a bench where one message at a time crosses between
/// threads, which takes far longer than its handler.
const ONE_BY_ONE: u64 = 100;

/// A pattern of messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bench {
    pub(crate) name: &'static str,
    pes: u32,
    actors: u32,
    is_stream: bool,
    /// Divisor of the number of messages.
    fewer: u64,
}

/// All benches. In a ring, one token goes from actor to actor.
pub(crate) const BENCHES: [Bench; 3] = [
    Bench { name: "ring of 1000 on a PE", pes: 1, actors: 1000, is_stream: false, fewer: 1 },
    Bench { name: "stream between two PEs", pes: 2, actors: 2, is_stream: true, fewer: 1 },
    Bench {
        name: "one way between two PEs",
        pes: 2,
        actors: 2,
        is_stream: false,
        fewer: ONE_BY_ONE,
    },
];

#[derive(Serialize, Deserialize)]
struct Talker {
    actors: i32,
    /// Values of a stream that this actor receives.
    expected: u64,
    handled: u64,
}

#[derive(Clone, Serialize, Deserialize)]
enum Word {
    /// Pass the token on, so that it is handled this number of times.
    Token(u64),
    /// Send this number of values to the next actor.
    Stream(u64),
    Value(u64),
    Stop,
}

impl Actor for Talker {
    type Index = Ix1;
    type Init = (i32, u64);
    type Message = Word;

    fn create((actors, expected): Self::Init, _cx: &mut Context<'_, Self>) -> Self {
        Self { actors, expected, handled: 0 }
    }

    fn handle(&mut self, word: Word, cx: &mut Context<'_, Self>) {
        let next = cx.index().0 + 1;
        let next = cx.collection().at(Ix1(if next == self.actors { 0 } else { next }));
        match word {
            Word::Token(left) => {
                self.handled += 1;
                match left {
                    0 | 1 => cx.broadcast(&cx.collection(), Word::Stop),
                    _ => cx.send(&next, Word::Token(left - 1)),
                }
            }
            Word::Stream(left) => {
                let burst = left.min(BURST);
                (0..burst).for_each(|value| cx.send(&next, Word::Value(value)));
                if left > burst {
                    let me = cx.me();
                    cx.send(&me, Word::Stream(left - burst));
                }
            }
            Word::Value(_) => {
                self.handled += 1;
                if self.handled == self.expected {
                    cx.broadcast(&cx.collection(), Word::Stop);
                }
            }
            Word::Stop => cx.contribute(Op::Sum, self.handled, To::main()),
        }
    }
}

/// Returns the time of a message in nanoseconds.
pub(crate) fn measure(bench: Bench, messages: u64, by: Observed) -> Result<f64, Box<dyn Error>> {
    let Bench { pes, actors, is_stream, fewer, .. } = bench;
    let messages = messages / fewer;
    let (tell, told) = channel();
    let job = Job::new("messages").actor::<Talker>().main(async move |grid| {
        let init = (actors as i32, messages);
        let all = grid.create::<Talker>(Ix1::range(actors), |_| init).await?;
        let first = if is_stream { Word::Stream(messages) } else { Word::Token(messages) };
        let begin = Instant::now();
        all.member(Ix1(0)).send(first);
        let handled: u64 = all.reduction(Op::Sum).await?;
        let elapsed = begin.elapsed();
        if handled != messages {
            return Err(format!("{handled} of {messages} messages were handled").into());
        }
        tell.send(elapsed).map_err(|error| error.to_string())?;
        Ok(())
    });
    observed::run(job, pes, by)?;
    Ok(told.recv()?.as_nanos() as f64 / messages as f64)
}
