//! Ranks that move at migration points, or while they run.

use crate::common::{SITES, everywhere, simulate};
use gridspan_balance::StrategyName;
use gridspan_ranks::{
    ANY_SOURCE, ANY_TAG, Comm, Continuation, EagerLimit, Rank, RankError, RankFunctions, job,
    job_then, ops, run_then,
};
use gridspan_runtime::{CheckpointEvery, Checkpoints, Grid, Job};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::mpsc;
use std::time::Duration;

const ROUNDS: u32 = 6;

fn strategy(name: &str) -> StrategyName {
    name.parse().unwrap()
}

/// In each round passes numbers around a ring, some of which are received in the next round only.
#[derive(Serialize, Deserialize)]
struct Walker {
    round: u32,
    pes: Vec<u32>,
    total: u64,
    moves: bool,
}

impl Rank for Walker {
    type Init = (u32, bool);
    type Value = ();

    fn create((start, moves): (u32, bool), world: &Comm) -> Self {
        assert_eq!(start, world.rank() * 3);
        Self { round: 0, pes: Vec::new(), total: 0, moves }
    }

    async fn run(mut self, world: Comm) -> Result<Continuation<Self>, RankError> {
        let (me, size) = (world.rank(), world.size());
        let (right, left) = ((me + 1) % size, (me + size - 1) % size);
        self.pes.push(world.pe(me).ok_or("no place")?);
        if self.round > 0 {
            // The neighbour sent both before the migration point. The long one exceeds the eager
            // limit, so that it was sent as an offer.
            let (short, _) = world.recv::<u32>(left, 1).await?;
            let (long, _) = world.recv::<u32>(ANY_SOURCE, ANY_TAG).await?;
            assert_eq!((short, long.len()), (vec![self.round - 1, left], 1000));
            self.total += u64::from(long[999]);
        }
        let sum = world.allreduce(&[me + self.round], ops::sum).await?;
        assert_eq!(sum, [size * (size - 1) / 2 + size * self.round]);
        let is_last = self.round + 1 == ROUNDS;
        if is_last {
            let moves = self.pes.windows(2).filter(|pair| pair[0] != pair[1]).count();
            let moves = world.allreduce(&[moves as u64, self.total], ops::sum).await?;
            // Each rank has got the number of its left neighbour in each round but the first.
            assert_eq!(moves[1], u64::from(ROUNDS - 1) * u64::from(size * (size - 1) / 2));
            let is_alone = (0..size).all(|rank| world.pe(rank) == world.pe(0));
            assert_eq!(moves[0] > 0, self.moves && !is_alone);
            return Ok(Continuation::Done(()));
        }
        world.send_vec(vec![self.round, me], right, 1).await?;
        if self.round == 0 {
            world.attach_buffer(1 << 20)?;
        }
        world.bsend(&vec![me; 1000], right, 2).await?;
        self.round += 1;
        Ok(Continuation::Migrate(self))
    }
}

fn walkers(moves: bool) -> Job {
    job::<Walker>("walkers", 9, move |rank| (3 * rank, moves)).resource(EagerLimit::new(100))
}

#[test]
fn ranks_move_with_their_messages_and_offers() {
    for name in ["rotate", "random"] {
        everywhere(|| walkers(true).strategy(strategy(name)));
    }
    everywhere(|| walkers(false));
}

#[test]
fn checkpoints_are_made_at_migration_points() {
    let checkpoints = || Checkpoints::every(CheckpointEvery::Points(1));
    everywhere(|| walkers(true).strategy(strategy("rotate")).checkpoints(checkpoints()));
}

/// Ends in the round whose number is its rank.
#[derive(Serialize, Deserialize)]
struct Leaver {
    round: u32,
}

impl Rank for Leaver {
    type Init = ();
    type Value = ();

    fn create((): (), _world: &Comm) -> Self {
        Self { round: 0 }
    }

    async fn run(self, world: Comm) -> Result<Continuation<Self>, RankError> {
        if self.round == world.rank() {
            return Ok(Continuation::Done(()));
        }
        Ok(Continuation::Migrate(Self { round: self.round + 1 }))
    }
}

#[test]
fn ranks_that_are_done_do_not_hold_up_others() {
    everywhere(|| job::<Leaver>("leavers", 7, |_| ()).strategy(strategy("rotate")));
}

/// Holds a request while it comes to a migration point.
#[derive(Serialize, Deserialize)]
struct Holder;

impl Rank for Holder {
    type Init = ();
    type Value = ();

    fn create((): (), _world: &Comm) -> Self {
        Self
    }

    async fn run(self, world: Comm) -> Result<Continuation<Self>, RankError> {
        std::mem::forget(world.irecv::<f64>(0, 17)?);
        Ok(Continuation::Migrate(self))
    }
}

/// Lists the PEs on which it has lived, for three rounds more than its rank.
#[derive(Serialize, Deserialize)]
struct Traveller {
    pes: Vec<u32>,
}

impl Rank for Traveller {
    type Init = ();
    type Value = Vec<u32>;

    fn create((): (), _world: &Comm) -> Self {
        Self { pes: Vec::new() }
    }

    async fn run(mut self, world: Comm) -> Result<Continuation<Self, Vec<u32>>, RankError> {
        self.pes.push(world.pe(world.rank()).ok_or("no place")?);
        match self.pes.len() < world.rank() as usize + 3 {
            true => Ok(Continuation::Migrate(self)),
            false => Ok(Continuation::Done(self.pes)),
        }
    }
}

#[test]
fn main_gets_what_ranks_that_have_moved_return() {
    everywhere(|| {
        let ranks = |grid: &Grid| Ok(grid.layout().pe_count() + 1);
        let job = job_then::<Traveller>(
            "travellers",
            ranks,
            |_| (),
            |grid, travels| {
                assert_eq!(travels.len() as u32, grid.layout().pe_count() + 1);
                for (rank, pes) in travels.iter().enumerate() {
                    assert_eq!(pes.len(), rank + 3);
                    let moves = pes.windows(2).filter(|pair| pair[0] != pair[1]).count();
                    assert_eq!(moves > 0, grid.layout().pe_count() > 1, "rank {rank}: {pes:?}");
                }
                Ok(())
            },
        );
        job.strategy(strategy("rotate"))
    });
}

#[test]
fn a_request_under_way_at_a_migration_point_is_an_error_that_names_it() {
    let error = simulate(job::<Holder>("holders", 2, |_| ()), SITES).unwrap_err().to_string();
    assert!(error.contains("irecv with rank 0, tag 17, on the world"), "{error}");
}

#[test]
fn ranks_that_are_moved_during_a_run_go_on_where_their_futures_are() {
    for name in ["rotate", "random"] {
        // The rounds last for many balancing periods.
        let rounds = |world: Comm| async move {
            let (me, size) = (world.rank(), world.size());
            let mut number = [me];
            for round in 0..200 {
                let (right, left) = ((me + 1) % size, (me + size - 1) % size);
                world.charge(Duration::from_micros(200));
                world.sendrecv_replace(&mut number, right, round, left, round).await?;
                if round % 10 == 0 {
                    assert_eq!(world.allreduce(&number, ops::sum).await?, [size * (size - 1) / 2]);
                }
            }
            Ok(number[0])
        };
        let make = || {
            let job = run_then(9, rounds, |numbers| {
                // Each number has gone 200 steps to the right.
                assert!((0..9).all(|rank| numbers[rank as usize] == (rank + 9 * 23 - 200) % 9));
                Ok(())
            });
            job.strategy(strategy(name)).balance_every(Duration::from_millis(1))
        };
        everywhere(make);
        let migrations = |grid: &str| {
            let spec = GridSpec::from_emulate(grid).unwrap();
            let report = Simulation::new(make(), spec, SimOptions::with_seed(1)).unwrap().run();
            report.outcome.unwrap();
            report.statistics.migrations
        };
        assert!(migrations("1x1x6") > 100);
        // On several nodes, ranks move before and after the run, but not in its balancing periods.
        assert!(migrations(SITES) < 100);
    }
}

/// Number of runs of a [`Charger`], each up to a migration point or the end.
const RUNS: usize = 6;
/// Number of steps of a run.
const STEPS: u32 = 4;

/// Computes for this time in each step, and then waits for all others.
#[derive(Serialize, Deserialize)]
struct Charger {
    work: Duration,
    pes: Vec<u32>,
}

/// The PE of a rank in each run, and the time of a step in the last run.
type Charged = (Vec<u32>, Duration);

impl Rank for Charger {
    type Init = Duration;
    type Value = Charged;

    fn create(work: Duration, _world: &Comm) -> Self {
        Self { work, pes: Vec::new() }
    }

    async fn run(mut self, world: Comm) -> Result<Continuation<Self, Charged>, RankError> {
        self.pes.push(world.pe(world.rank()).ok_or("no place")?);
        world.barrier().await?;
        let begin = world.now();
        for _ in 0..STEPS {
            world.charge(self.work);
            world.barrier().await?;
        }
        // `now` is the time at which the present turn began.
        world.yield_now().await;
        let step = world.now().since(begin) / STEPS;
        Ok(match self.pes.len() < RUNS {
            true => Continuation::Migrate(self),
            false => Continuation::Done((self.pes, step)),
        })
    }
}

/// Runs ranks of these works per step with a strategy whose plans are all carried out. Returns the
/// PEs of each rank, and the longest time of a step.
fn charge(works: &[Duration], grid: &str, name: &str) -> (Vec<Vec<u32>>, Duration) {
    let (works, ranks) = (works.to_vec(), works.len() as u32);
    let (tell, told) = mpsc::channel();
    let job = job_then::<Charger>(
        "chargers",
        move |_grid: &Grid| Ok(ranks),
        move |rank| works[rank as usize],
        move |_grid, charged| tell.send(charged).map_err(|error| error.to_string().into()),
    );
    simulate(job.strategy(strategy(name)).balance_gate(false), grid).unwrap();
    let charged: Vec<Charged> = told.recv().unwrap();
    let (pes, steps): (Vec<_>, Vec<_>) = charged.into_iter().unzip();
    (pes, steps.into_iter().max().unwrap())
}

fn has_moved(pes: &[u32]) -> bool {
    pes.windows(2).any(|pair| pair[0] != pair[1])
}

#[test]
fn ranks_of_unequal_work_are_spread_by_their_measured_loads() {
    // Four ranks on each of four PEs. Those of the first PE compute ten times as long as others, so
    // that a step takes 40 ms. An even share of the work is 13 ms.
    let works: Vec<_> =
        (0..16).map(|rank| Duration::from_millis(if rank < 4 { 10 } else { 1 })).collect();

    let (stay, before) = charge(&works, "1x4", "none");
    let (moved, after) = charge(&works, "1x4", "refine");

    assert!(!stay.iter().any(|pes| has_moved(pes)), "{stay:?}");
    let heavy: BTreeSet<u32> = moved[..4].iter().map(|pes| pes[RUNS - 1]).collect();
    assert_eq!(heavy.len(), 4, "{moved:?}");
    // Ranks leave a barrier at slightly different times.
    assert!(before >= Duration::from_millis(39), "{before:?}");
    // With one long rank on each PE, a PE computes for 10 to 22 ms, and for 13 ms if it has an even
    // share.
    assert!(after >= Duration::from_millis(12) && 2 * after <= before, "{before:?}, {after:?}");
}

#[test]
fn ranks_leave_a_pe_that_foreign_load_slows() {
    // Eight ranks of 5 ms on each of four PEs, of which the first gets half of its processor: a
    // step takes 80 ms.
    let (works, grid) = ([Duration::from_millis(5); 32], "1x4; at 0s node a1 load=1");

    let (stay, before) = charge(&works, grid, "none");
    let (moved, after) = charge(&works, grid, "vacate");

    assert!(!stay.iter().any(|pes| has_moved(pes)), "{stay:?}");
    // Ranks of the other PEs stay where they are.
    assert!(!moved[8..].iter().any(|pes| has_moved(pes)), "{moved:?}");
    let away = moved[..8].iter().filter(|pes| pes[RUNS - 1] != 0).count();
    assert!(away >= 2, "{moved:?}");
    assert!(before >= Duration::from_millis(79), "{before:?}");
    // The first PE takes 60 ms for six ranks, and another one as long for twelve. With even shares
    // a step takes 46 ms.
    assert!(after >= Duration::from_millis(45) && 4 * after <= 3 * before, "{before:?}, {after:?}");
}

#[test]
fn a_job_with_other_actors_runs_functions_again_and_again() {
    everywhere(|| {
        let (job, sums) = RankFunctions::add(Job::new("sums"), |world: Comm| async move {
            Ok(world.allreduce(&[world.rank()], ops::sum).await?[0])
        });
        let (job, names) =
            RankFunctions::add(
                job,
                |world: Comm| async move { Ok(format!("rank {}", world.rank())) },
            );
        job.restartable_main(async move |grid: Grid| {
            for ranks in [1, 4, 9] {
                let sum = ranks * (ranks - 1) / 2;
                assert_eq!(sums.run(&grid, ranks).await?, vec![sum; ranks as usize]);
                let (one, other) = (names.run(&grid, 2), sums.run(&grid, ranks));
                let (names, sums) = futures_util::future::join(one, other).await;
                assert_eq!((names?[1].as_str(), sums?[0]), ("rank 1", sum));
            }
            assert!(sums.run(&grid, 0).await.is_err());
            Ok(())
        })
    });
}
