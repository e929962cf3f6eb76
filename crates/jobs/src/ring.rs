//! A token runs around a ring of actors: the smallest job, whose time is latency only.
//!
//! The members are placed in blocks, so that in each round the token crosses once from each PE to
//! the next, and from the last PE to the first before the next round.

use crate::entry::{Entry, parse};
use clap::Parser;
use gridspan_runtime::{Actor, Context, Grid, Ix1, Job, JobError, Op, To};
use serde::{Deserialize, Serialize};

const ABOUT: &str = "A token runs around a ring of actors and counts them";

pub(crate) const ENTRY: Entry =
    Entry { name: "ring", about: ABOUT, build: |arguments| Ok(job(parse("ring", arguments)?)) };

#[derive(Clone, Copy, Debug, Parser)]
#[command(about = ABOUT)]
struct Options {
    /// Number of actors in the ring.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    members: u32,
    /// Number of rounds of the token.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// The actor at one place in the ring.
#[derive(Serialize, Deserialize)]
struct Place {
    members: u32,
    seen: u64,
}

#[derive(Clone, Serialize, Deserialize)]
enum Message {
    /// The token, with the number of remaining hops.
    Token { hops: u64 },
    /// The token has stopped: contribute to main how often it was here.
    Report,
}

impl Actor for Place {
    type Index = Ix1;
    type Init = u32;
    type Message = Message;

    fn create(members: u32, _cx: &mut Context<'_, Self>) -> Self {
        Self { members, seen: 0 }
    }

    fn handle(&mut self, message: Message, cx: &mut Context<'_, Self>) {
        match message {
            Message::Token { hops } => {
                self.seen += 1;
                if hops > 1 {
                    let next = (cx.index().0 as u32 + 1) % self.members;
                    let next = cx.collection().at(Ix1(next as i32));
                    cx.send(&next, Message::Token { hops: hops - 1 });
                } else {
                    let all = cx.collection();
                    cx.broadcast(&all, Message::Report);
                }
            }
            Message::Report => {
                cx.contribute(Op::Sum, self.seen, To::main());
                cx.contribute(Op::Min, self.seen, To::main());
            }
        }
    }
}

fn job(options: Options) -> Job {
    Job::new("ring")
        .actor::<Place>()
        .restartable_main(async move |grid: Grid| run(&grid, options).await)
}

async fn run(grid: &Grid, Options { members, rounds }: Options) -> Result<(), JobError> {
    let ring = grid.create::<Place>(Ix1::range(members), |_| members).await?;
    let hops = u64::from(members) * u64::from(rounds);
    let begin = grid.now().await?;
    ring.member(Ix1(0)).send(Message::Token { hops });
    let total: u64 = ring.reduction(Op::Sum).await?;
    let fewest: u64 = ring.reduction(Op::Min).await?;
    let elapsed = grid.now().await?.since(begin);
    println!(
        "{rounds} rounds over {members} actors on {} PEs: {:.3} ms, {:.3} us a hop",
        grid.layout().pe_count(),
        elapsed.as_secs_f64() * 1e3,
        elapsed.as_secs_f64() * 1e6 / hops as f64
    );
    // If the minimum is `rounds` and the sum is `hops`, every actor has seen the token `rounds`
    // times.
    if (total, fewest) == (hops, u64::from(rounds)) {
        println!("verified: yes ({hops} hops, {rounds} at each actor)");
        return Ok(());
    }
    Err(format!(
        "verified: no ({total} hops instead of {hops}, at one actor {fewest} instead of {rounds})"
    )
    .into())
}
