//! Ranks that begin to wait for each other for ever when their job has run for some time.

use crate::common::{LONG, OTHERS_RUN, SITES, run_for, run_on, soon_after};
use gridspan_ranks::{
    Comm, Continuation, ErrorsReturn, Rank, RankError, SpawnPlacement, job, ops, run,
};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Seconds after which deadlocks close: in two long pauses of main, and before the second of them.
const LATE_S: [u64; 3] = [120, 60, 115];

#[test]
fn ranks_that_begin_late_to_wait_for_each_other_are_named_as_soon() {
    let expected = "ranks are in a deadlock while others run: rank 2 waits in recv with rank 3, \
                    tag 1, on the world; rank 3 waits in recv with rank 2, tag 1, on the world";
    for seconds in LATE_S {
        let late = Duration::from_secs(seconds);
        let job = run(4, move |world: Comm| async move {
            match world.rank() {
                0 | 1 => run_for(&world, LONG).await,
                2 => {
                    world.sleep(late).await;
                    world.recv::<u8>(3, 1).await.map(drop)
                }
                // It waits in the same receive from the begin on.
                _ => world.recv::<u8>(2, 1).await.map(drop),
            }
        });
        assert_eq!(soon_after(late, job, SITES), expected);
    }
}

/// A rank whose first run ends in a long pause of main. In the second run, ranks 2 and 3 wait for
/// each other.
#[derive(Serialize, Deserialize)]
struct SecondRun {
    has_run: bool,
}

impl Rank for SecondRun {
    type Init = ();
    type Value = ();

    fn create((): (), _world: &Comm) -> Self {
        Self { has_run: false }
    }

    async fn run(self, world: Comm) -> Result<Continuation<Self>, RankError> {
        if !self.has_run {
            world.sleep(Duration::from_secs(LATE_S[0])).await;
            return Ok(Continuation::Migrate(Self { has_run: true }));
        }
        match world.rank() {
            0 | 1 => run_on(&world).await?,
            2 => drop(world.recv::<u8>(3, 1).await?),
            _ => drop(world.recv::<u8>(2, 1).await?),
        }
        Ok(Continuation::Done(()))
    }
}

#[test]
fn ranks_that_wait_for_each_other_in_a_later_run_are_named_as_soon() {
    let expected = "ranks are in a deadlock while others run: rank 2 waits in recv with rank 3, \
                    tag 1, on the world; rank 3 waits in recv with rank 2, tag 1, on the world";
    let late = Duration::from_secs(LATE_S[0]);
    let two_runs = job::<SecondRun>("two runs", 4, |_rank| ());
    assert_eq!(soon_after(late, two_runs, SITES), expected);
}

/// Ranks 2 and 3 share a lock, for which rank 4 waits. Rank 2 waits for rank 4, and rank 3 gives
/// the lock back after a time. Ranks 0 and 1 run for the time `others`.
async fn shared(world: Comm, time: Duration, others: Duration) -> Result<(), RankError> {
    let me = world.rank();
    let window = world.window(vec![0_u8], ops::sum).await?;
    if me == 2 || me == 3 {
        window.lock(0, false).await?;
    }
    world.barrier().await?;
    match me {
        0 | 1 => run_for(&world, others).await,
        2 => world.recv::<u8>(4, 0).await.map(drop),
        3 => {
            world.sleep(time).await;
            window.unlock(0).await
        }
        _ => {
            window.lock(0, true).await?;
            world.send(&[1_u8], 2, 0).await
        }
    }
}

#[test]
fn a_shared_lock_is_part_of_a_deadlock_once_none_of_its_holders_runs() {
    let expected = "ranks are in a deadlock while others run: rank 2 waits in recv with rank 4, \
                    tag 0, on the world; rank 4 waits in lock with rank 0, on communicator 1";
    let release = Duration::from_secs(10);
    for grid in ["1x1x1", SITES] {
        let job = run(5, move |world: Comm| shared(world, release, OTHERS_RUN));
        assert_eq!(soon_after(release, job, grid), expected);
    }
}

#[test]
fn a_shared_lock_that_is_given_back_late_is_part_of_a_deadlock_as_soon() {
    let expected = "ranks are in a deadlock while others run: rank 2 waits in recv with rank 4, \
                    tag 0, on the world; rank 4 waits in lock with rank 0, on communicator 1";
    for seconds in LATE_S {
        let late = Duration::from_secs(seconds);
        let job = run(5, move |world: Comm| shared(world, late, LONG));
        assert_eq!(soon_after(late, job, SITES), expected);
    }
}

#[test]
fn ranks_that_are_spawned_late_and_their_parents_are_named_as_soon() {
    let late = Duration::from_secs(LATE_S[0]);
    let family = move |world: Comm| async move {
        if let Some(parents) = world.parent() {
            return parents.recv::<u8>(0, 0).await.map(drop);
        }
        let alone = world.split(Some(world.rank()), 0).await?.ok_or("no part")?;
        match world.rank() {
            2 => {
                world.sleep(late).await;
                let children = alone.spawn(1, SpawnPlacement::Block).await?;
                children.recv::<u8>(0, 0).await.map(drop)
            }
            _ => run_for(&world, LONG).await,
        }
    };
    let text = soon_after(late, run(3, family), SITES);
    assert!(text.contains("rank 2 waits in recv") && text.contains("; rank 3 waits in"), "{text}");
}

#[test]
fn ranks_are_in_a_deadlock_once_those_that_might_have_revoked_have_ended() {
    let waiting = async |world: Comm| match world.rank() {
        2 => {
            world.sleep(OTHERS_RUN).await;
            Ok(())
        }
        me => world.recv::<u8>(1 - me, 0).await.map(drop),
    };
    let spec = GridSpec::from_emulate(SITES).unwrap();
    let job = run(3, waiting).resource(ErrorsReturn);
    let report = Simulation::new(job, spec, SimOptions::with_seed(5)).unwrap().run();
    assert!(report.virtual_time.since(gridspan_runtime::Time::ZERO) >= OTHERS_RUN);
    let text = report.outcome.unwrap_err().to_string();
    let waits = "rank 0 waits in recv with rank 1, tag 0, on the world; rank 1 waits in recv with \
                 rank 0, tag 0, on the world";
    assert!(text.contains("in a deadlock") && text.ends_with(waits), "{text}");
}
