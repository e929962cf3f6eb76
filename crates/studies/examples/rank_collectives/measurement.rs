//! Carries out a collective operation by one of its algorithms, and measures how long it takes.

use crate::flat;
use gridspan::ranks::{Comm, Continuation, Rank, RankError, job_then, ops};
use gridspan_runtime::Job;
use gridspan_runtime::driver::embedded;
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;
use serde::{Deserialize, Serialize};
use std::sync::mpsc;
use std::time::Duration;

/// Time that ranks wait before the migration point at which they learn the links.
const WARM_UP: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Algorithm {
    Allreduce,
    RecursiveDoubling,
    HalvingAndDoubling,
    Ring,
    Binomial,
    Everyone,
    ReduceScatter,
    PairwiseSums,
    Alltoall,
    Pairwise,
    AllBlocksAtOnce,
    InLogSteps,
    Barrier,
    Dissemination,
    Allgather,
    DoublingBlocks,
    RingOfBlocks,
    BlocksOfEveryone,
}

use Algorithm::{
    AllBlocksAtOnce, Allgather, Allreduce, Alltoall, Barrier, Binomial, BlocksOfEveryone,
    Dissemination, DoublingBlocks, Everyone, HalvingAndDoubling, InLogSteps, Pairwise,
    PairwiseSums, RecursiveDoubling, ReduceScatter, Ring, RingOfBlocks,
};

/// An operation, and how to measure it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Measurement {
    pub(crate) algorithm: Algorithm,
    /// Length of a vector, or of a block.
    pub(crate) bytes: usize,
    /// Number of operations in a row.
    pub(crate) repetitions: u32,
    /// Whether the ranks come to a migration point first, after which they know the links.
    pub(crate) knows_links: bool,
}

#[derive(Serialize, Deserialize)]
struct Measurer {
    measurement: Measurement,
    is_at_begin: bool,
}

impl Rank for Measurer {
    type Init = Measurement;
    type Value = f64;

    fn create(measurement: Measurement, _world: &Comm) -> Self {
        Self { measurement, is_at_begin: true }
    }

    async fn run(self, world: Comm) -> Result<Continuation<Self, f64>, RankError> {
        if self.is_at_begin && self.measurement.knows_links {
            once(&world, &self.measurement).await?;
            world.sleep(WARM_UP).await;
            return Ok(Continuation::Migrate(Self { is_at_begin: false, ..self }));
        }
        Ok(Continuation::Done(time_of_one(&world, &self.measurement).await?))
    }
}

impl Measurement {
    /// Returns the time of one operation by this number of ranks, the mean over the ranks, in ms.
    /// It is real time over emulated links if `is_real`, and virtual time otherwise.
    pub(crate) fn mean_ms(self, spec: &GridSpec, ranks: u32, is_real: bool) -> Result<f64, String> {
        let (tell, told) = mpsc::channel();
        let job: Job = job_then::<Measurer>(
            "collectives",
            move |_grid| Ok(ranks),
            move |_rank| self,
            move |_grid, times: Vec<f64>| {
                let mean = times.iter().sum::<f64>() / times.len() as f64;
                tell.send(mean).map_err(|error| error.to_string().into())
            },
        );
        let outcome = match is_real {
            true => embedded::run_emulated(job, spec),
            false => {
                let simulation = Simulation::new(job, spec.clone(), SimOptions::default());
                simulation.map_err(|error| error.to_string())?.run().outcome
            }
        };
        let Self { algorithm, bytes, .. } = self;
        outcome.map_err(|error| format!("{algorithm:?} of {bytes} bytes: {error}"))?;
        told.recv().map_err(|error| error.to_string())
    }
}

/// Carries the operation out several times. Returns the mean time in ms.
async fn time_of_one(world: &Comm, measurement: &Measurement) -> Result<f64, RankError> {
    world.barrier().await?;
    let begin = now_ms(world).await;
    for _ in 0..measurement.repetitions {
        once(world, measurement).await?;
    }
    Ok((now_ms(world).await - begin) / f64::from(measurement.repetitions))
}

/// Returns the time, from a new turn of the PE: `Comm::now` is the time at which a turn began.
async fn now_ms(world: &Comm) -> f64 {
    world.sleep(Duration::from_nanos(1)).await;
    world.now().as_secs_f64() * 1e3
}

/// Carries the operation out once, and checks its result.
async fn once(world: &Comm, measurement: &Measurement) -> Result<(), RankError> {
    let Measurement { algorithm, bytes, .. } = *measurement;
    let is_right = match algorithm {
        Allreduce | RecursiveDoubling | HalvingAndDoubling | Ring | Binomial | Everyone => {
            sums(world, algorithm, bytes).await?
        }
        ReduceScatter | PairwiseSums => shared_sums(world, algorithm, bytes).await?,
        Alltoall | Pairwise | AllBlocksAtOnce | InLogSteps => {
            exchanged(world, algorithm, bytes).await?
        }
        Allgather | DoublingBlocks | RingOfBlocks | BlocksOfEveryone => {
            gathered(world, algorithm, bytes).await?
        }
        // Other tests check that no rank leaves before the last one comes.
        Barrier => world.barrier().await.is_ok(),
        Dissemination => flat::dissemination(world).await.is_ok(),
    };
    match is_right {
        true => Ok(()),
        false => Err("the result is wrong".into()),
    }
}

/// The sum of the numbers that the ranks give.
fn total(world: &Comm) -> u64 {
    let size = u64::from(world.size());
    size * (size + 1) / 2
}

async fn sums(world: &Comm, algorithm: Algorithm, bytes: usize) -> Result<bool, RankError> {
    let mine = vec![u64::from(world.rank()) + 1; (bytes / 8).max(1)];
    let sums = match algorithm {
        RecursiveDoubling => flat::recursive_doubling(world, mine).await?,
        HalvingAndDoubling => flat::halving_and_doubling(world, mine).await?,
        Ring => flat::ring(world, mine).await?,
        Binomial => flat::binomial(world, mine).await?,
        Everyone => flat::everyone(world, mine).await?,
        _ => world.allreduce(&mine, ops::sum).await?,
    };
    Ok(sums.iter().all(|number| *number == total(world)))
}

async fn shared_sums(world: &Comm, algorithm: Algorithm, bytes: usize) -> Result<bool, RankError> {
    let size = world.size() as usize;
    let block = (bytes / 8 / size).max(1);
    let mine = vec![u64::from(world.rank()) + 1; block * size];
    let sums = match algorithm {
        PairwiseSums => flat::pairwise_sums(world, &mine, block).await?,
        _ => world.reduce_scatter(&mine, &vec![block; size], ops::sum).await?,
    };
    Ok(sums.len() == block && sums.iter().all(|number| *number == total(world)))
}

async fn exchanged(world: &Comm, algorithm: Algorithm, bytes: usize) -> Result<bool, RankError> {
    let (me, size) = (u64::from(world.rank()), u64::from(world.size()));
    let block = |to: u64| std::iter::repeat_n((me * size + to) as u8, bytes);
    let mine: Vec<u8> = (0..size).flat_map(block).collect();
    let got = match algorithm {
        Pairwise => flat::pairwise(world, &mine, bytes).await?,
        AllBlocksAtOnce => flat::all_blocks_at_once(world, &mine, bytes).await?,
        InLogSteps => flat::in_log_steps(world, &mine, bytes).await?,
        _ => world.alltoall(&mine).await?,
    };
    let expected = |from: u64| std::iter::repeat_n((from * size + me) as u8, bytes);
    Ok(got.into_iter().eq((0..size).flat_map(expected)))
}

async fn gathered(world: &Comm, algorithm: Algorithm, bytes: usize) -> Result<bool, RankError> {
    let mine = vec![world.rank() as u8; bytes];
    let got = match algorithm {
        DoublingBlocks => flat::doubling_blocks(world, &mine).await?,
        RingOfBlocks => flat::ring_of_blocks(world, &mine).await?,
        BlocksOfEveryone => flat::blocks_of_everyone(world, &mine).await?,
        _ => world.allgather(&mine).await?,
    };
    let expected = |from: u32| std::iter::repeat_n(from as u8, bytes);
    Ok(got.into_iter().eq((0..world.size()).flat_map(expected)))
}
