//! Ranks that start more ranks.

use crate::common::{SITES, check, everywhere, failure, simulate};
use gridspan_balance::StrategyName;
use gridspan_ranks::{
    ANY_SOURCE, Comm, Continuation, InterComm, InterRoot, Rank, RankError, SpawnPlacement, job,
    ops, run, run_then,
};
use gridspan_runtime::{CheckpointEvery, Checkpoints, Job, RestorePlan, Time};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;
use serde::{Deserialize, Serialize};
use std::time::Duration;

const FOUNDERS: u32 = 3;
const CHILDREN: u32 = 5;

fn strategy(name: &str) -> StrategyName {
    name.parse().unwrap()
}

/// Elements of a message from each child to each parent, which is longer than the eager limit.
const LONG: usize = 20_000;

async fn child(world: Comm, parents: InterComm) -> Result<Vec<u32>, RankError> {
    let me = world.rank();
    assert_eq!((world.size(), world.world_rank(me)), (CHILDREN, Some(FOUNDERS + me)));
    assert_eq!((parents.rank(), parents.local_size(), parents.remote_size()), (me, 5, 3));
    assert_eq!(parents.remote_group().world_ranks(), [0, 1, 2]);
    assert_eq!(world.allreduce(&[me], ops::sum).await?, [CHILDREN * (CHILDREN - 1) / 2]);
    for parent in 0..FOUNDERS {
        parents.send(&vec![me; LONG], parent, 1).await?;
    }
    let mut numbers = [0.0; 2];
    parents.bcast(&mut numbers, InterRoot::Remote(1)).await?;
    assert_eq!(numbers, [1.5, 2.5]);
    let blocks = parents.allgatherv(&[me; 2]).await?;
    assert_eq!(
        blocks,
        (0..FOUNDERS).map(|parent| vec![parent; parent as usize]).collect::<Vec<_>>()
    );
    let text =
        parents.bcast_value((me == 4).then(|| "text".to_owned()), InterRoot::Local(4)).await?;
    assert_eq!(text, "text");
    parents.barrier().await?;
    let all = parents.merge(false).await?;
    assert_eq!(all.rank(), me);
    all.allgather(&[world.world_rank(me).unwrap_or_default()]).await
}

async fn founder(world: Comm) -> Result<Vec<u32>, RankError> {
    let me = world.rank();
    assert_eq!((world.size(), world.children().len()), (FOUNDERS, 0));
    let children = world.spawn(CHILDREN, SpawnPlacement::RoundRobin).await?;
    assert_eq!((children.rank(), children.local_size(), children.remote_size()), (me, 3, 5));
    let mut found = vec![];
    for _ in 0..CHILDREN {
        let (numbers, status) = children.recv::<u32>(ANY_SOURCE, 1).await?;
        assert_eq!((status.source, numbers.len()), (Some(numbers[0]), LONG));
        found.push(numbers[0]);
    }
    found.sort_unstable();
    assert_eq!(found, [0, 1, 2, 3, 4]);
    let mut numbers = if me == 1 { [1.5, 2.5] } else { [9.0; 2] };
    children.bcast(&mut numbers, InterRoot::Local(1)).await?;
    assert_eq!(numbers, if me == 1 { [1.5, 2.5] } else { [9.0; 2] });
    let blocks = children.allgatherv(&vec![me; me as usize]).await?;
    assert_eq!(blocks, (0..CHILDREN).map(|child| vec![child; 2]).collect::<Vec<_>>());
    let text = children.bcast_value(None::<String>, InterRoot::Remote(4)).await?;
    assert_eq!(text, "text");
    children.barrier().await?;
    // The world keeps a handle to the same inter-communicator.
    let again = world.children().pop().ok_or("no children")?;
    let all = again.merge(true).await?;
    assert_eq!(all.rank(), CHILDREN + me);
    all.allgather(&[me]).await
}

async fn family(world: Comm) -> Result<Vec<u32>, RankError> {
    match world.parent() {
        Some(parents) => child(world, parents).await,
        None => founder(world).await,
    }
}

#[test]
fn spawned_ranks_and_their_parents_send_to_each_other() {
    // The parents give `true` to `merge`, so they come after the children.
    check(FOUNDERS, family, |_| vec![3, 4, 5, 6, 7, 0, 1, 2]);
}

#[test]
fn spawning_is_the_same_in_each_simulation_of_a_seed() {
    let report = || {
        let spec = GridSpec::from_emulate(SITES).unwrap();
        let report =
            Simulation::new(run(FOUNDERS, family), spec, SimOptions::with_seed(3)).unwrap();
        report.run()
    };
    let (one, other) = (report(), report());
    assert_eq!(one.outcome, Ok(()));
    assert_eq!((one.log_hash, one.virtual_time), (other.log_hash, other.virtual_time));
}

#[test]
fn ranks_spawn_while_a_strategy_moves_them() {
    for name in ["rotate", "random"] {
        let make = || {
            let job = run_then(
                FOUNDERS,
                async |world: Comm| {
                    let found = family(world.clone()).await?;
                    // The barriers take many balancing periods.
                    for _ in 0..100 {
                        world.barrier().await?;
                    }
                    Ok(found)
                },
                |found| {
                    assert!(found.iter().all(|ranks| ranks == &[3, 4, 5, 6, 7, 0, 1, 2]));
                    Ok(())
                },
            );
            job.strategy(strategy(name)).balance_every(Duration::from_millis(1))
        };
        everywhere(make);
    }
}

#[test]
fn children_spawn_children() {
    check(
        2,
        async |world| {
            let depth = match world.parent() {
                Some(parents) => parents.recv::<u32>(0, 0).await?.0[0],
                None => 0,
            };
            let mut below = 0;
            if depth < 3 {
                let children = world.spawn(2, SpawnPlacement::Block).await?;
                if world.rank() == 0 {
                    for child in 0..2 {
                        children.send(&[depth + 1], child, 0).await?;
                    }
                }
                // The first rank of each generation reports how many ranks are below it.
                if world.rank() == 0 {
                    below = 2 + children.recv::<u32>(0, 1).await?.0[0];
                }
            }
            if let (Some(parents), 0) = (world.parent(), world.rank()) {
                parents.send(&[below], 0, 1).await?;
            }
            Ok(below)
        },
        |rank| if rank == 0 { 6 } else { 0 },
    );
}

#[test]
fn spawned_ranks_live_where_they_are_told_to() {
    let placed = async |world: Comm| {
        if let Some(parents) = world.parent() {
            let (me, places) = (world.rank(), parents.recv::<u32>(0, 0).await?.0);
            let place = (world.site(me), world.pe(me));
            assert_eq!(place, (Some(places[0]), Some(places[1 + me as usize])));
            assert_eq!(parents.site(0), Some(0));
            return Ok(());
        }
        for (placement, places) in [
            // The site, and the PEs of the six children. Each of the three sites has four PEs.
            (SpawnPlacement::AtSite(2), vec![2, 8, 8, 9, 10, 10, 11]),
            (SpawnPlacement::OnPe(5), vec![1, 5, 5, 5, 5, 5, 5]),
        ] {
            let children = world.spawn(6, placement).await?;
            assert_eq!(children.site(5), Some(places[0]));
            for child in 0..6 {
                children.send(&places, child, 0).await?;
            }
        }
        Ok(())
    };
    simulate(run(1, placed), SITES).unwrap();
}

#[test]
fn a_spawn_that_cannot_be_is_an_error_at_all_ranks() {
    for (spawned, expected) in [
        ((0, SpawnPlacement::Block), "spawn with rank 0, on the world: 0 ranks; spawn at least 1"),
        (
            ((1 << 24) + 1, SpawnPlacement::Block),
            "16777217 ranks; spawn at least 1, and at most 16777216 in this call",
        ),
        ((1, SpawnPlacement::AtSite(7)), "there is no site 7 among 1"),
        ((1, SpawnPlacement::OnPe(9)), "there is no PE 9 among 1"),
    ] {
        let text = failure(move |world: Comm| async move {
            let (ranks, placement) = spawned;
            let error = world.spawn(ranks, placement).await.unwrap_err();
            assert!(matches!(error, RankError::Refused { .. }));
            // Both ranks have received the error, and go on.
            world.barrier().await?;
            Err(error)
        });
        assert!(text.contains(expected), "{text}");
    }
    let text =
        failure(async |world| world.spawn_from(vec![1_u8], SpawnPlacement::Block).await.map(drop));
    assert!(text.contains("the ranks of this job are built from values of type ()"), "{text}");
}

const ROUNDS: u32 = 16;

/// Two founders spawn two ranks, which begin in round 1. From round 2 on, founder 0 sends each
/// child a number, which the child receives in the next round.
#[derive(Serialize, Deserialize)]
struct Member {
    is_child: bool,
    round: u32,
    total: u32,
}

impl Rank for Member {
    type Init = u32;
    type Value = ();

    fn create(round: u32, world: &Comm) -> Self {
        assert_eq!(world.parent().is_some(), round > 0);
        Self { is_child: round > 0, round, total: 0 }
    }

    async fn run(mut self, world: Comm) -> Result<Continuation<Self>, RankError> {
        world.charge(Duration::from_millis(20));
        let (me, round) = (world.rank(), self.round);
        match (world.parent(), world.children().pop()) {
            (Some(parents), _) if round > 1 => {
                if round > 2 {
                    self.total += parents.recv::<u32>(0, round - 1).await?.0[0];
                }
                parents.send(&[10 * round + me], 0, round).await?;
                parents.barrier().await?;
            }
            (None, Some(children)) => {
                for child in 0..children.remote_size() {
                    if me == 0 {
                        children.send(&[round], child, round).await?;
                        assert_eq!(
                            children.recv::<u32>(child, round).await?.0,
                            [10 * round + child]
                        );
                    }
                }
                children.barrier().await?;
            }
            (None, None) if round == 1 => {
                world.spawn_from(vec![1_u32; 2], SpawnPlacement::Block).await?;
            }
            _ => {}
        }
        if round == ROUNDS {
            let expected: u32 = if self.is_child { (2..ROUNDS).sum() } else { 0 };
            assert_eq!(self.total, expected);
            return Ok(Continuation::Done(()));
        }
        self.round += 1;
        Ok(Continuation::Migrate(self))
    }
}

fn members() -> Job {
    job::<Member>("members", 2, |_| 0)
}

#[test]
fn parents_and_children_stay_connected_over_migration_points() {
    everywhere(members);
    for name in ["rotate", "random"] {
        everywhere(|| members().strategy(strategy(name)));
    }
}

#[test]
fn spawned_ranks_go_on_from_a_checkpoint_on_other_grids() {
    let job = || members().checkpoints(Checkpoints::every(CheckpointEvery::Points(2)));
    let grid = |text| GridSpec::from_emulate(text).unwrap();
    for (seed, text) in [(1, "1x2x1"), (2, "3x1x1,wan=8ms")] {
        let options = SimOptions::with_seed(seed);
        let first = Simulation::new(job(), grid("2x2x1,wan=8ms"), options).unwrap();
        // A few rounds have passed; the children began in the second one.
        let Ok(halted) = first.run_until(Time(600_000_000)) else { panic!("the job has ended") };
        let image = halted.checkpoint().unwrap().expect("checkpoints were made");
        let plan = RestorePlan::restart(image.layout(), grid(text).layout());
        let options = SimOptions::with_seed(seed + 100);
        let second = Simulation::restored(job(), grid(text), options, (image, plan)).unwrap();
        assert_eq!(second.run().outcome, Ok(()), "on {text}");
    }
}

/// A parent sends its child a number, and then computes. Returns the time in ms at which the child
/// receives it.
async fn give_and_compute(world: Comm) -> Result<u64, RankError> {
    let mut number = [7_u8];
    if let Some(parent) = world.parent() {
        number = [0];
        parent.bcast(&mut number, InterRoot::Remote(0)).await?;
        let at = world.now().since(Time::ZERO).as_millis() as u64;
        parent.send(&[u64::from(number[0]), at], 0, 0).await?;
        return Ok(at);
    }
    let child = world.spawn(1, SpawnPlacement::OnPe(1)).await?;
    child.bcast(&mut number, InterRoot::Local(0)).await?;
    world.charge(Duration::from_secs(1));
    world.yield_now().await;
    let (found, _) = child.recv::<u64>(0, 0).await?;
    if found[0] == 7 { Ok(found[1]) } else { Err("another number has come".into()) }
}

#[test]
fn what_a_group_gives_another_one_leaves_before_its_ranks_compute() {
    let job = run_then(1, give_and_compute, |arrived| {
        assert!(arrived[0] < 900, "{arrived:?}");
        Ok(())
    });
    simulate(job, "2x1").unwrap();
}
