//! Random groups and calls under random faults: right results or a reported failure, and nothing left behind.
#![allow(missing_docs, clippy::unwrap_used)]

use gridspan_rpc::calls::{
    Catalogue, Config, Function, Functions, GridRpc, RpcError, ServerPlan, Services, Work, with_rpc,
};
use gridspan_rpc::group::{Lazy, Mapper};
use gridspan_rpc::heuristics::by_name;
use gridspan_runtime::{Grid, Job, JobError, PeId};
use gridspan_sim::{FaultPlan, PauseFaults, SessionFaults, SimOptions, Simulation};
use gridspan_topology::GridSpec;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::time::Duration;

const SEEDS: u64 = 40;
const HEURISTICS: [&str; 5] = ["greedy", "sufferage", "heft", "heft-c", "random"];
const LENGTH: usize = 64;

type Vector = Vec<u32>;

/// Adds one vector to another and to itself.
const MIX: Function<(Vector, Vector), (Vector, Vector)> = Function::new("mix", |pair, work| {
    work.emulate(Duration::from_millis(20));
    Ok(mix(&pair.0, &pair.1))
});
const HEAD: Function<(Vector,), (u32,)> = Function::new("head", |(vector,), _: &mut Work| {
    Ok((*vector.first().ok_or("an empty vector")?,))
});

fn mix(one: &[u32], other: &[u32]) -> (Vector, Vector) {
    let sum = one.iter().zip(other).map(|(a, b)| a.wrapping_add(*b)).collect();
    let turned = one.iter().zip(other).map(|(a, b)| a.rotate_left(3) ^ b).collect();
    (sum, turned)
}

struct Vectors;

impl Catalogue for Vectors {
    fn functions() -> Functions {
        Functions::new().with_parts(&MIX).with_parts(&HEAD)
    }
}

struct Dice(Pcg64Mcg);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64() % bound
    }
}

/// A random group beside its results as the client computes them itself.
async fn group(services: &Services<Vectors>, dice: &mut Dice) -> Result<(), RpcError> {
    let heuristic = by_name(HEURISTICS[dice.below(5) as usize], dice.below(9)).unwrap();
    let mapper = Mapper::new(services);
    let body = async |group: &gridspan_rpc::group::Group<'_, Vectors>| {
        let mut there: Vec<(Lazy<Vector>, Vector)> = Vec::new();
        for number in 0..3 {
            let vector = vec![number + 1; LENGTH];
            there.push((group.value(&vector)?, vector));
        }
        for _ in 0..dice.below(30) {
            let [one, other] = [0; 2].map(|_| dice.below(there.len() as u64) as usize);
            let (sum, turned) = group.call(&MIX, (&there[one].0, &there[other].0));
            let expected = mix(&there[one].1, &there[other].1);
            there.push((sum, expected.0));
            if dice.below(2) == 0 {
                there.push((turned, expected.1));
            }
            if dice.below(8) == 0 {
                let dropped = dice.below(there.len() as u64) as usize;
                there.swap_remove(dropped);
            }
            if dice.below(10) == 0 {
                let (lazy, expected) = &there[dice.below(there.len() as u64) as usize];
                let (head,) = group.call(&HEAD, (lazy,));
                assert_eq!(group.get(&head).await?, expected[0]);
            }
        }
        for (lazy, expected) in &there {
            assert_eq!(&group.get(lazy).await?, expected);
        }
        Ok(())
    };
    mapper.map(&*heuristic, body).await
}

async fn calls(services: &Services<Vectors>, dice: &mut Dice) -> Result<(), RpcError> {
    let mut rpc = GridRpc::new(services);
    rpc.initialize(&Config::default())?;
    let handle = rpc.handle(&HEAD).await?;
    let mut sessions = Vec::new();
    for number in 0..dice.below(40) as u32 {
        sessions.push((rpc.call_async(&handle, &(vec![number; LENGTH],)).await?, number));
    }
    for (session, number) in sessions {
        assert_eq!(rpc.wait(&session).await?, (number,));
    }
    rpc.finalize().await
}

async fn main(grid: Grid, mut dice: Dice) -> Result<(), RpcError> {
    let services: Services<Vectors> = Services::on_all_pes(&grid).await?;
    for round in 0..4 {
        group(&services, &mut dice).await?;
        calls(&services, &mut dice).await?;
        if dice.below(2) == 0 {
            let cards = services.list().await?;
            let left = &cards[dice.below(cards.len() as u64) as usize];
            services.leave(&left.name).await?;
            let pe = PeId(1 + dice.below(u64::from(grid.layout().pe_count()) - 1) as u32);
            let is_direct = dice.below(3) > 0;
            let name = format!("new{round}");
            services.join(ServerPlan { is_direct, ..ServerPlan::new(name, pe) }).await?;
        }
    }
    assert_eq!(services.kept_bytes().await?, 0, "servers keep nothing of groups that have ended");
    Ok(())
}

#[test]
fn groups_and_calls_survive_what_the_runtime_survives() {
    for seed in 0..SEEDS {
        let dice = Dice(Pcg64Mcg::seed_from_u64(seed));
        let job = with_rpc::<Vectors>(Job::new("faults")).main(async move |grid| {
            main(grid, dice).await.map_err(|error| JobError::Failed(error.to_string()))
        });
        let faults = FaultPlan {
            local_delay: 0.05,
            delay_max: Duration::from_millis(50),
            reorder: true,
            pauses: Some(PauseFaults { probability: 0.001, longest: Duration::from_millis(300) }),
            sessions: Some(SessionFaults::default()),
            ..FaultPlan::default()
        };
        let spec = GridSpec::from_emulate("3x2,wan=10ms,jitter=2ms").unwrap();
        let options = SimOptions::with_seed(seed).with_faults(faults);
        let report = Simulation::new(job, spec, options).unwrap().run();
        assert_eq!(report.outcome, Ok(()), "seed {seed}");
    }
}

/// A server that leaves in the middle of a group: another takes over, and nothing of the group stays anywhere. One
/// that is lost may be reported.
#[test]
fn a_server_that_ends_in_mid_group_leaves_nothing_behind() {
    for seed in 0..SEEDS {
        let is_lost = seed % 2 == 1;
        let job = with_rpc::<Vectors>(Job::new("leaving")).main(async move |grid: Grid| {
            let failed = |error: RpcError| JobError::Failed(error.to_string());
            let services: Services<Vectors> = Services::on_all_pes(&grid).await.map_err(failed)?;
            let mut dice = Dice(Pcg64Mcg::seed_from_u64(seed));
            let pause = Duration::from_millis(dice.below(400));
            let other = services.clone();
            let of_grid = grid.clone();
            let leaving = async move {
                let _ = of_grid.sleep(pause).await;
                let cards = other.list().await.unwrap();
                match is_lost {
                    true => other.lose(&cards[0].name).await.unwrap(),
                    false => other.leave(&cards[0].name).await.unwrap(),
                }
            };
            let mut leaving = std::pin::pin!(leaving);
            let mut working = std::pin::pin!(group(&services, &mut dice));
            let (mut left, mut worked) = (false, None);
            std::future::poll_fn(|cx| {
                if !left {
                    left = leaving.as_mut().poll(cx).is_ready();
                }
                if worked.is_none()
                    && let std::task::Poll::Ready(outcome) = working.as_mut().poll(cx)
                {
                    worked = Some(outcome);
                }
                match left && worked.is_some() {
                    true => std::task::Poll::Ready(()),
                    false => std::task::Poll::Pending,
                }
            })
            .await;
            if let Some(Err(error)) = worked {
                assert!(is_lost && error.to_string().contains("left"), "{error}");
            }
            assert_eq!(services.kept_bytes().await.map_err(failed)?, 0);
            Ok(())
        });
        let spec = GridSpec::from_emulate("2x2,wan=10ms").unwrap();
        let report = Simulation::new(job, spec, SimOptions::with_seed(seed)).unwrap().run();
        assert_eq!(report.outcome, Ok(()), "seed {seed}");
    }
}
