//! Checkpoints while messages wait for a PE that has too many of them.

use gridspan_runtime::driver::embedded;
use gridspan_runtime::{
    Actor, CheckpointEvery, Checkpoints, Context, Grid, Ix1, Job, Limits, Op, Progress, To,
};
use serde::{Deserialize, Serialize};
use std::thread;
use std::time::Duration;

const DATA_BYTES: usize = 100_000;
/// Number of messages in a batch, and number of batches.
const BATCH: usize = 5;
const BATCHES: usize = 4;

/// Member 0 sends data to member 1, which takes long to handle it.
#[derive(Serialize, Deserialize)]
struct Slow {
    handled: u64,
}

#[derive(Clone, Serialize, Deserialize)]
enum Msg {
    Produce,
    Data(Vec<u8>),
    Report,
}

impl Actor for Slow {
    type Index = Ix1;
    type Init = ();
    type Message = Msg;

    fn create((): (), _: &mut Context<'_, Self>) -> Self {
        Self { handled: 0 }
    }

    fn handle(&mut self, message: Msg, cx: &mut Context<'_, Self>) {
        match message {
            Msg::Produce => {
                for _ in 0..BATCH {
                    cx.send(&cx.collection().at(Ix1(1)), Msg::Data(vec![7; DATA_BYTES]));
                }
            }
            Msg::Data(_) => {
                self.handled += 1;
                thread::sleep(Duration::from_millis(100));
            }
            Msg::Report => cx.contribute(Op::Sum, self.handled, To::main()),
        }
    }

    fn heap_bytes(message: &Msg) -> usize {
        match message {
            Msg::Data(data) => data.len(),
            Msg::Produce | Msg::Report => 0,
        }
    }
}

#[test]
fn a_checkpoint_is_made_while_messages_wait_for_a_pe_over_its_soft_limit() {
    let limits = Limits::default().with_soft_bytes(2 * DATA_BYTES);
    let job = Job::new("full")
        .actor::<Slow>()
        .limits(limits)
        .checkpoints(Checkpoints::every(CheckpointEvery::Points(1)))
        .main(async |grid: Grid| {
            let all = grid.create::<Slow>(Ix1::range(2), |_| ()).await?;
            for _ in 0..BATCHES {
                all.member(Ix1(0)).send(Msg::Produce);
                // The first batch exceeds the limit, so the PE does not take later ones.
                grid.sleep(Duration::from_millis(20)).await?;
            }

            let made = grid.progress(&()).await?;

            assert!(matches!(made, Progress::Taken { .. }), "{made:?}");
            grid.quiescence().await?;
            all.broadcast(Msg::Report);
            assert_eq!(all.reduction::<u64>(Op::Sum).await?, (BATCH * BATCHES) as u64);
            Ok(())
        });
    embedded::run(job, 2).unwrap();
}
