//! Ranks that go on from a checkpoint after their nodes were lost.

use gridspan_ranks::{Comm, Continuation, Rank, RankError, job, ops};
use gridspan_runtime::{CheckpointEvery, Checkpoints, Job, RestorePlan, Time};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;
use serde::{Deserialize, Serialize};
use std::time::Duration;

const RANKS: u32 = 7;
const ROUNDS: u32 = 20;

/// Sends its rank to the next rank before each migration point, and receives the number of the
/// previous rank after it. Sums the received numbers.
#[derive(Serialize, Deserialize)]
struct Counter {
    round: u32,
    total: u32,
}

impl Rank for Counter {
    type Init = ();
    type Value = ();

    fn create((): (), _world: &Comm) -> Self {
        Self { round: 0, total: 0 }
    }

    async fn run(mut self, world: Comm) -> Result<Continuation<Self>, RankError> {
        let me = world.rank();
        if self.round > 0 {
            self.total += world.recv::<u32>((me + RANKS - 1) % RANKS, 0).await?.0[0];
        }
        if self.round == ROUNDS {
            // In each round, the ranks together receive the numbers 0 to 6.
            let total = world.allreduce(&[self.total], ops::sum).await?[0];
            assert_eq!(total, ROUNDS * (RANKS * (RANKS - 1) / 2));
            return Ok(Continuation::Done(()));
        }
        world.charge(Duration::from_millis(20));
        world.send(&[me], (me + 1) % RANKS, 0).await?;
        self.round += 1;
        Ok(Continuation::Migrate(self))
    }
}

fn counters() -> Job {
    let checkpoints = Checkpoints::every(CheckpointEvery::Points(3));
    job::<Counter>("counters", RANKS, |_| ()).checkpoints(checkpoints)
}

#[test]
fn ranks_go_on_from_their_last_checkpoint_on_other_grids() {
    let grid = |text| GridSpec::from_emulate(text).unwrap();
    let mut restored = 0;
    for (seed, text) in [(1, "1x2x1"), (2, "2x2x2,wan=8ms"), (3, "3x1x1,wan=8ms"), (4, "1x1x1")] {
        let options = SimOptions::with_seed(seed);
        let first = Simulation::new(counters(), grid("2x2x1,wan=8ms"), options).unwrap();
        let at = Time(400_000_000 + seed * 150_000_000);
        let Ok(halted) = first.run_until(at) else { panic!("the job has ended before {at}") };
        let image = halted.checkpoint().unwrap().expect("checkpoints were made");
        let plan = RestorePlan::restart(image.layout(), grid(text).layout());
        let options = SimOptions::with_seed(seed + 100);
        let second = Simulation::restored(counters(), grid(text), options, (image, plan)).unwrap();
        assert_eq!(second.run().outcome, Ok(()), "on {text}");
        restored += 1;
    }
    assert_eq!(restored, 4);
}
