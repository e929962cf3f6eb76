//! The embedded driver runs jobs.
#![allow(missing_docs)]

use gridspan_runtime::{Actor, Context, Ix1, Job, JobError, Op, Reply, To, driver::embedded};
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Serialize, Deserialize)]
struct Cell {
    value: u64,
}

#[derive(Clone, Serialize, Deserialize)]
enum Msg {
    Add(u64),
    Sum,
    Get { reply: Reply<u64> },
}

impl Actor for Cell {
    type Index = Ix1;
    type Init = u64;
    type Message = Msg;

    fn create(init: u64, _cx: &mut Context<'_, Self>) -> Self {
        Self { value: init }
    }

    fn handle(&mut self, message: Msg, cx: &mut Context<'_, Self>) {
        match message {
            Msg::Add(n) => {
                self.value += n;
                if n > 1 {
                    let next = Ix1((cx.index().0 + 1) % 100);
                    let next = cx.collection().at(next);
                    cx.send(&next, Msg::Add(n - 1));
                }
            }
            Msg::Sum => cx.contribute(Op::Sum, self.value, To::main()),
            Msg::Get { reply } => cx.reply(reply, self.value),
        }
    }
}

fn check(pes: u32) {
    let job = Job::new("test").actor::<Cell>().main(async |grid| {
        let cells = grid.create::<Cell>(Ix1::range(100), |ix| ix.0 as u64).await?;
        cells.broadcast(Msg::Add(1));
        cells.member(Ix1(7)).send(Msg::Add(1000));
        grid.quiescence().await?;
        cells.broadcast(Msg::Sum);
        let total: u64 = cells.reduction(Op::Sum).await?;
        assert_eq!(total, 4950 + 100 + 500_500);
        let seven: u64 =
            cells.member(Ix1(7)).ask(Duration::from_secs(5), |reply| Msg::Get { reply }).await?;
        assert_eq!(seven, 8 + (1..=10).map(|k| k * 100).sum::<u64>());
        Ok(())
    });
    embedded::run(job, pes).unwrap();
}

#[test]
fn a_job_gives_the_same_on_one_two_and_four_pes() {
    for pes in [1, 2, 4] {
        check(pes);
    }
}

#[test]
fn an_error_of_main_is_the_outcome() {
    let job = Job::new("test").main(async |_grid| Err(JobError::Failed("no luck".into())));
    assert_eq!(embedded::run(job, 2), Err(JobError::Failed("no luck".into())));
}
