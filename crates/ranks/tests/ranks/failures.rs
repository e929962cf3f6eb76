//! Ranks that fail alone, and the others, which go on.

use crate::common::{SITES, everywhere, failure, simulate};
use gridspan_ranks::{
    ANY_SOURCE, ANY_TAG, Comm, Continuation, ErrorsReturn, Rank, RankError, SpawnPlacement,
    job_then, ops, run, run_then,
};
use gridspan_runtime::driver::embedded;
use gridspan_runtime::{CheckpointEvery, Checkpoints, Grid, Job, RestorePlan, Time};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The number of the failed rank in an error.
fn failed_peer<T>(result: Result<T, RankError>) -> Option<u32> {
    match result.err() {
        Some(RankError::PeerFailed { rank, .. }) => Some(rank),
        _ => None,
    }
}

/// Adds up over all ranks in six rounds. Ranks 0 and 5 fail by an error, and rank 3 by a panic.
/// Returns the number of times that the others went on without a rank, and the number of ranks
/// left.
async fn survive(world: Comm) -> Result<(u32, u32), RankError> {
    let (me, mut comm) = (world.rank(), world.clone());
    let (mut round, mut shrinks) = (0, 0);
    while round < 6 {
        match (me, round) {
            (0, 1) | (5, 3) => return Err("this rank fails".into()),
            (3, 2) => panic!("this rank panics"),
            _ => {}
        }
        let sum = comm.allreduce(&[1_u32], ops::sum).await;
        let is_complete = sum.as_ref().is_ok_and(|sum| sum[0] == comm.size());
        if comm.agree(u64::from(is_complete)).await? == 1 {
            round += 1;
        } else {
            assert!(failed_peer(sum).is_some());
            comm = comm.shrink().await?;
            shrinks += 1;
        }
    }
    Ok((shrinks, comm.size()))
}

#[test]
fn ranks_go_on_without_those_that_fail_also_without_rank_0() {
    everywhere(|| {
        let job = run_then(8, survive, |found| {
            assert_eq!(found, [(3, 5); 5]);
            Ok(())
        });
        job.resource(ErrorsReturn)
    });
}

#[test]
fn failures_are_the_same_in_each_simulation_of_a_seed() {
    let report = || {
        let spec = GridSpec::from_emulate(SITES).unwrap();
        let job = run(8, async |world| survive(world).await).resource(ErrorsReturn);
        Simulation::new(job, spec, SimOptions::with_seed(5)).unwrap().run()
    };
    let (one, other) = (report(), report());
    assert_eq!(one.outcome, Ok(()));
    assert_eq!((one.log_hash, one.virtual_time), (other.log_hash, other.virtual_time));
}

#[test]
fn what_a_rank_has_sent_before_it_failed_is_received_and_nothing_else() {
    everywhere(|| {
        let job = run(3, async |world: Comm| {
            match world.rank() {
                0 => {
                    assert_eq!(world.recv::<u32>(1, ANY_TAG).await?.0, [7]);
                    assert_eq!(world.recv::<u8>(1, ANY_TAG).await?.0.len(), 100_000);
                    assert_eq!(failed_peer(world.recv::<u32>(1, ANY_TAG).await), Some(1));
                    assert_eq!(world.failed(), [1]);
                    assert_eq!(failed_peer(world.probe(1, 0).await), Some(1));
                    assert_eq!(failed_peer(world.iprobe(1, 0).await), Some(1));
                    assert_eq!(failed_peer(world.send(&[0_u8], 1, 0).await), Some(1));
                    assert_eq!(failed_peer(world.notify_end(1)?.await), None);
                    // The other rank is not affected.
                    world.send(&[1_u8], 2, 1).await?;
                    assert_eq!(world.recv::<u8>(2, 2).await?.0, [2]);
                    Ok(())
                }
                1 => {
                    world.send(&[7_u32], 0, 3).await?;
                    drop(world.isend(&vec![1_u8; 100_000], 0, 4)?);
                    Err("this rank fails".into())
                }
                _ => {
                    world.recv::<u8>(0, 1).await?;
                    assert_eq!(failed_peer(world.ssend(&[1_u8], 1, 0).await), Some(1));
                    world.send(&[2_u8], 0, 2).await
                }
            }
        });
        job.resource(ErrorsReturn)
    });
}

#[test]
fn a_receive_from_any_source_fails_until_the_failure_is_acknowledged() {
    let any = async |world: Comm| {
        if world.rank() == 1 {
            return Err(RankError::Failed("this rank fails".to_owned()));
        }
        assert_eq!(failed_peer(world.recv::<u8>(ANY_SOURCE, 0).await), Some(1));
        assert_eq!(failed_peer(world.probe(ANY_SOURCE, 0).await), Some(1));
        assert_eq!(world.acknowledge_failed(), [1]);
        world.recv::<u8>(ANY_SOURCE, 0).await.map(drop)
    };
    // No rank is left that could send.
    let text = simulate(run(2, any).resource(ErrorsReturn), SITES).unwrap_err().to_string();
    assert!(text.contains("in a deadlock"), "{text}");
    assert!(text.ends_with(": rank 0 waits in recv, tag 0, on the world"), "{text}");
}

#[test]
fn the_locks_of_a_failed_rank_go_to_others_and_its_window_is_lost() {
    everywhere(|| {
        let job = run(3, async |world: Comm| {
            let window = world.window(vec![0_u64; 2], ops::sum).await?;
            match world.rank() {
                0 => world.recv::<u8>(2, 1).await.map(drop),
                1 => {
                    window.lock(0, true).await?;
                    world.send(&[1_u8], 2, 0).await?;
                    Err("this rank fails".into())
                }
                _ => {
                    world.recv::<u8>(1, 0).await?;
                    window.lock(0, true).await?;
                    window.put(&[5], 0, 1)?;
                    window.unlock(0).await?;
                    assert_eq!(window.get(0, 1..2).await?, [5]);
                    assert_eq!(failed_peer(window.get(1, 0..1).await), Some(1));
                    assert_eq!(failed_peer(window.lock(1, false).await), Some(1));
                    assert_eq!(failed_peer(window.fence().await), Some(1));
                    world.send(&[1_u8], 0, 1).await
                }
            }
        });
        job.resource(ErrorsReturn)
    });
}

#[test]
fn a_rank_fails_alone_if_the_operator_of_its_window_panics() {
    everywhere(|| {
        let job = run_then(
            4,
            async |world: Comm| {
                let add = |left: &mut [u32], right: &[u32]| {
                    assert_ne!(right[0], 7, "this operator panics");
                    ops::sum(left, right);
                };
                let window = world.window(vec![0_u32], add).await?;
                // No rank fails before all others have the window.
                match world.rank() {
                    0 => {
                        for other in 1..4 {
                            world.recv::<u8>(other, 0).await?;
                        }
                        window.accumulate(&[7], 1, 0)?;
                        assert_eq!(failed_peer(window.flush(1).await), Some(1));
                        world.send(&[0_u8], 2, 0).await?;
                    }
                    1 => {
                        world.send(&[0_u8], 0, 0).await?;
                        world.recv::<u8>(0, 1).await?;
                    }
                    2 => {
                        world.send(&[0_u8], 0, 0).await?;
                        world.recv::<u8>(0, 0).await?;
                        window.accumulate(&[7], 2, 0)?;
                        window.flush(2).await?;
                    }
                    _ => world.send(&[0_u8], 0, 0).await?,
                }
                Ok(world.shrink().await?.size())
            },
            |found| {
                assert_eq!(found, [2; 2]);
                Ok(())
            },
        );
        job.resource(ErrorsReturn)
    });
}

#[test]
fn ranks_that_are_left_spawn_another_one_in_place_of_a_failed_one() {
    everywhere(|| {
        let job = run_then(
            4,
            async |world: Comm| {
                if let Some(parents) = world.parent() {
                    let all = parents.merge(true).await?;
                    return Ok(all.allreduce(&[1_u32], ops::sum).await?[0]);
                }
                if world.rank() == 1 {
                    return Err("this rank fails".into());
                }
                let left = world.shrink().await?;
                let children = left.spawn(1, SpawnPlacement::RoundRobin).await?;
                let all = children.merge(false).await?;
                assert_eq!(all.group().world_ranks(), [0, 2, 3, 4]);
                Ok(all.allreduce(&[1_u32], ops::sum).await?[0])
            },
            |found| {
                assert_eq!(found, [4; 3]);
                Ok(())
            },
        );
        job.resource(ErrorsReturn)
    });
}

#[test]
fn ranks_of_a_revoked_communicator_spawn_none() {
    everywhere(|| {
        let job = run_then(
            2,
            async |world: Comm| {
                if world.parent().is_some() {
                    return Ok(0);
                }
                let row = world.dup().await?;
                row.revoke()?;
                let refused = row.spawn(1, SpawnPlacement::Block).await;
                assert!(matches!(refused, Err(RankError::Revoked { .. })));
                let children = world.spawn(1, SpawnPlacement::Block).await?;
                Ok(children.remote_group().world_ranks()[0])
            },
            |found| {
                assert_eq!(found, [2; 2]);
                Ok(())
            },
        );
        job.resource(ErrorsReturn)
    });
}

#[test]
fn a_function_that_panics_before_it_returns_its_future_fails_alone() {
    everywhere(|| {
        let job = run_then(
            3,
            |world: Comm| {
                assert_ne!(world.rank(), 1, "this rank panics");
                async move { Ok::<u32, RankError>(world.shrink().await?.size()) }
            },
            |found| {
                assert_eq!(found, [2; 2]);
                Ok(())
            },
        );
        job.resource(ErrorsReturn)
    });
}

#[test]
fn a_job_ends_once_all_ranks_have_failed() {
    let fail = async |_world: Comm| Err::<(), RankError>("this rank fails".into());
    let job = run(3, fail).resource(ErrorsReturn).time_limit(Duration::from_secs(60));
    let text = embedded::run(job, 2).unwrap_err().to_string();
    assert!(text.contains("all ranks have failed"), "{text}");
    assert!(text.contains("this rank fails"), "{text}");
}

const RANKS: u32 = 7;
const ROUNDS: u32 = 20;

/// Reaches a migration point after each round. Rank 1 fails in round 4.
#[derive(Serialize, Deserialize)]
struct Stepper {
    round: u32,
}

impl Rank for Stepper {
    type Init = ();
    type Value = u32;

    fn create((): (), _world: &Comm) -> Self {
        Self { round: 0 }
    }

    async fn run(mut self, world: Comm) -> Result<Continuation<Self, u32>, RankError> {
        if world.rank() == 1 && self.round == 4 {
            return Err("this rank fails".into());
        }
        let left = world.shrink().await?;
        assert_eq!(left.size(), if self.round < 4 { RANKS } else { RANKS - 1 });
        world.charge(Duration::from_millis(20));
        left.barrier().await?;
        self.round += 1;
        Ok(match self.round {
            ROUNDS => Continuation::Done(world.rank()),
            _ => Continuation::Migrate(self),
        })
    }
}

fn steppers() -> Job {
    let checkpoints = Checkpoints::every(CheckpointEvery::Points(3));
    let ranks = |_grid: &Grid| Ok(RANKS);
    let job = job_then::<Stepper>(
        "steppers",
        ranks,
        |_rank| (),
        |_grid, left| {
            assert_eq!(left, [0, 2, 3, 4, 5, 6]);
            Ok(())
        },
    );
    job.resource(ErrorsReturn).checkpoints(checkpoints)
}

#[test]
fn a_failed_rank_stays_failed_at_migration_points_and_in_checkpoints() {
    everywhere(steppers);
    let grid = |text| GridSpec::from_emulate(text).unwrap();
    let options = SimOptions::with_seed(1);
    let first = Simulation::new(steppers(), grid("2x2x1,wan=8ms"), options).unwrap();
    let at = Time(900_000_000);
    let Ok(halted) = first.run_until(at) else { panic!("the job has ended before {at}") };
    let image = halted.checkpoint().unwrap().expect("checkpoints were made");
    let other = grid("3x1x1,wan=8ms");
    let plan = RestorePlan::restart(image.layout(), other.layout());
    let options = SimOptions::with_seed(2);
    let second = Simulation::restored(steppers(), other, options, (image, plan)).unwrap();
    assert_eq!(second.run().outcome, Ok(()));
}

#[test]
fn each_rank_learns_which_communicator_was_revoked() {
    everywhere(|| {
        let job = run(3, async |world: Comm| {
            let (row, other) = (world.dup().await?, world.dup().await?);
            if world.rank() == 0 {
                // The others have looked before.
                world.recv::<u8>(1, 0).await?;
                world.recv::<u8>(2, 0).await?;
                assert!(!row.is_revoked());
                row.revoke()?;
            } else {
                assert!(!row.is_revoked());
                world.send::<u8>(&[], 0, 0).await?;
                let failed = row.recv::<u8>(0, 0).await;
                assert!(matches!(failed, Err(RankError::Revoked { .. })));
            }
            assert!(row.is_revoked() && row.clone().is_revoked());
            let left = row.shrink().await?;
            assert_eq!([&world, &other, &left].map(Comm::is_revoked), [false; 3]);
            Ok(())
        });
        job.resource(ErrorsReturn)
    });
}

#[test]
fn only_ranks_that_fail_alone_revoke() {
    let text = failure(async |world| world.revoke());
    let expected = "revoke, on the world: the job lacks the resource ErrorsReturn; add it";
    assert!(text.ends_with(expected), "{text}");
}
