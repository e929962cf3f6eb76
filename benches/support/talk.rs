//! Jobs whose actors only send messages: around a ring, or from each to all.

use gridspan_runtime::{Actor, Context, Ix1, Job, Op, To};
use serde::{Deserialize, Serialize};

/// The pattern of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Pattern {
    /// Each actor receives from its left neighbour and sends to its right neighbour.
    Ring,
    /// In the n-th round, each actor sends to the n-th actor on its right.
    AllToAll,
}

impl Pattern {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::AllToAll => "all-to-all",
        }
    }

    /// Returns the distance from sender to receiver in a round, in actors to the right.
    fn stride(self, round: u64, size: u32) -> u32 {
        match self {
            Self::Ring => 1,
            Self::AllToAll => (round % u64::from(size - 1)) as u32 + 1,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Talker {
    pattern: Pattern,
    size: u32,
    rounds: u64,
    heard: u64,
}

#[derive(Clone, Serialize, Deserialize)]
enum Msg {
    Start,
    /// The n-th message of its sender.
    Word(u64),
}

impl Talker {
    fn say(&self, round: u64, cx: &mut Context<'_, Self>) {
        if round < self.rounds {
            let to = (cx.index().0 as u32 + self.pattern.stride(round, self.size)) % self.size;
            cx.send(&cx.collection().at(Ix1(to as i32)), Msg::Word(round));
        }
    }
}

impl Actor for Talker {
    type Index = Ix1;
    type Init = (Pattern, u32, u64);
    type Message = Msg;

    fn create((pattern, size, rounds): Self::Init, _cx: &mut Context<'_, Self>) -> Self {
        Self { pattern, size, rounds, heard: 0 }
    }

    fn handle(&mut self, message: Msg, cx: &mut Context<'_, Self>) {
        match message {
            Msg::Start => self.say(0, cx),
            Msg::Word(_) => {
                self.heard += 1;
                // Each actor receives as many messages as it sends.
                self.say(self.heard, cx);
                if self.heard == self.rounds {
                    cx.contribute(Op::Sum, self.heard, To::main());
                }
            }
        }
    }
}

/// Returns a job of `size` actors that each send `rounds` messages.
pub(crate) fn job(pattern: Pattern, size: u32, rounds: u64) -> Job {
    Job::new("talk").actor::<Talker>().main(async move |grid| {
        let all = grid.create::<Talker>(Ix1::range(size), |_| (pattern, size, rounds)).await?;
        all.broadcast(Msg::Start);
        let heard: u64 = all.reduction(Op::Sum).await?;
        let expected = u64::from(size) * rounds;
        if heard == expected { Ok(()) } else { Err(format!("{heard} of {expected}").into()) }
    })
}
