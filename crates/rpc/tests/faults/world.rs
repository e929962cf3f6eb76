//! Random groups and calls while servers leave and are lost, clients and groups are dropped, and
//! the network has faults. Each group and call ends with correct results or a reported failure, and
//! leaves no data or load on servers.

use gridspan_rpc::calls::{
    Catalogue, Config, Function, Functions, GridRpc, RpcError, ServerPlan, Services, Work, with_rpc,
};
use gridspan_rpc::group::{Lazy, Mapper};
use gridspan_runtime::{Grid, Job, JobError, PeId};
use gridspan_sim::{FaultPlan, PauseFaults, SessionFaults, SimOptions, SimReport, Simulation};
use gridspan_topology::GridSpec;
use gridspan_topology::dice::Dice;
use gridspan_workflow::heuristics::by_name;
use gridspan_workflow::stragglers::StragglerPolicy;
use std::cell::Cell;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

const HEURISTICS: [&str; 5] = ["greedy", "sufferage", "heft", "heft-c", "random"];
const LENGTH: usize = 64;

type Vector = Vec<u32>;

/// Mixes two vectors in two ways.
const MIX: Function<(Vector, Vector), (Vector, Vector)> = Function::new("mix", |pair, work| {
    work.emulate(Duration::from_millis(20));
    Ok(mix(&pair.0, &pair.1))
});
/// Takes longer than a restarted registry waits for servers.
const LONG: Function<(), ()> = Function::new("long", |(), work| {
    work.emulate(Duration::from_secs(30));
    Ok(())
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
        Functions::new().with_parts(&MIX).with_parts(&HEAD).with(&LONG)
    }
}

/// Runs a random group, and compares its results with those that the client computes itself.
async fn group(services: &Services<Vectors>, dice: &mut Dice) -> Result<(), RpcError> {
    let heuristic = by_name(dice.one_of(&HEURISTICS), dice.below(9)).unwrap();
    let policy = [StragglerPolicy::None, StragglerPolicy::Steal, StragglerPolicy::StealAndCopy]
        [dice.below(3_usize)];
    let mapper = Mapper::new(services).with_straggler_policy(policy);
    let body = async |group: &gridspan_rpc::group::CallGroup<'_, Services<Vectors>>| {
        let mut there: Vec<(Lazy<Vector>, Vector)> = Vec::new();
        for number in 0..3 {
            let vector = vec![number + 1; LENGTH];
            there.push((group.value(&vector)?, vector));
        }
        for _ in 0..dice.below(30_u32) {
            let [one, other] = [0; 2].map(|_| dice.below(there.len()));
            let (sum, turned) = group.call(&MIX, (&there[one].0, &there[other].0));
            let expected = mix(&there[one].1, &there[other].1);
            there.push((sum, expected.0));
            if dice.chance(0.5) {
                there.push((turned, expected.1));
            }
            if dice.chance(0.125) {
                let dropped = dice.below(there.len());
                there.swap_remove(dropped);
            }
            if dice.chance(0.1) {
                let (lazy, expected) = &there[dice.below(there.len())];
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

/// Makes single calls, and does not wait for some of them.
async fn calls(services: &Services<Vectors>, dice: &mut Dice) -> Result<(), RpcError> {
    let mut rpc = GridRpc::new(services);
    rpc.initialize(&Config::default().with_attempts(10))?;
    let handle = rpc.handle(&HEAD).await?;
    let mut sessions = Vec::new();
    for number in 0..dice.below(40_u32) {
        sessions.push((rpc.call_async(&handle, &(vec![number; LENGTH],)).await?, number));
    }
    for (session, number) in sessions {
        if dice.chance(0.875) {
            assert_eq!(rpc.wait(&session).await?, (number,));
        }
    }
    match dice.below(2_u32) {
        0 => rpc.finalize().await,
        _ => Ok(()),
    }
}

/// Disturbance of the servers during a group or calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disturbance {
    None,
    Leaves,
    /// Two servers leave at the same time.
    TwoLeave,
    IsLost,
    /// The registry restarts several times.
    RegistryRestarts,
    /// The registry restarts while a server is in a long call.
    OneIsStuck,
}

impl Disturbance {
    const ALL: [Self; 6] = [
        Self::None,
        Self::Leaves,
        Self::TwoLeave,
        Self::IsLost,
        Self::RegistryRestarts,
        Self::OneIsStuck,
    ];

    /// Whether the disturbance loses nothing.
    fn is_harmless(self) -> bool {
        matches!(self, Self::None | Self::RegistryRestarts | Self::OneIsStuck)
    }
}

/// Number of outcomes and disturbances of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) done: u32,
    pub(crate) reported: u32,
    pub(crate) dropped: u32,
    pub(crate) left: u32,
    pub(crate) lost: u32,
    pub(crate) restarted: u32,
    pub(crate) stuck: u32,
}

/// Restarts the registry while a server is in a long call: the other servers are listed in time,
/// and this one after its call.
async fn restart_beside_one_that_is_stuck(
    grid: &Grid,
    services: &Services<Vectors>,
    name: &str,
) -> Result<(), RpcError> {
    let mut rpc = GridRpc::new(services);
    rpc.initialize(&Config::default())?;
    let long = rpc.handle_on(&LONG, name).await?;
    let before = services.list().await?;
    let stuck = rpc.call_async(&long, &()).await?;
    let _ = grid.sleep(Duration::from_secs(3)).await;
    let begin = grid.now().await.unwrap();
    services.restart_registry().await?;
    let others = services.list().await?;
    let waited = grid.now().await.unwrap().since(begin);
    assert!(waited < Duration::from_secs(15), "all waited {waited:?} for `{name}`");
    assert!(others.len() < before.len() && others.iter().all(|card| card.name != name));
    rpc.wait(&stuck).await?;
    let _ = grid.sleep(Duration::from_secs(5)).await;
    assert_eq!(services.list().await?, before);
    rpc.finalize().await
}

/// Runs a future together with a disturbance, until the disturbance is over and the future has
/// ended or its time is up. Returns the outcome, if the future has ended, and whether it may fail.
async fn disturbed(
    (grid, services): (&Grid, &Services<Vectors>),
    (disturbance, pause, limit): (Disturbance, Duration, Option<Duration>),
    something: impl Future<Output = Result<(), RpcError>>,
) -> (Option<Result<(), RpcError>>, bool) {
    let may_fail = Cell::new(false);
    let (mut something, mut outcome, mut is_over) = (pin!(something), None, false);
    let mut disturbing = pin!(async {
        let _ = grid.sleep(pause).await;
        let cards = services.list().await.unwrap();
        // A leaving server has a successor only if it and a remaining server can send data directly
        // to other servers.
        let leaving = if disturbance == Disturbance::TwoLeave { 2 } else { 1 };
        let are_direct = cards[..leaving].iter().all(|card| card.is_direct);
        let has_successor = are_direct && cards[leaving..].iter().any(|card| card.is_direct);
        let is_harmless = disturbance.is_harmless();
        may_fail.set(!is_harmless && (disturbance == Disturbance::IsLost || !has_successor));
        match disturbance {
            Disturbance::None => {}
            Disturbance::Leaves => services.leave(&cards[0].name).await.unwrap(),
            Disturbance::TwoLeave => {
                let mut one = pin!(services.leave(&cards[0].name));
                let mut other = pin!(services.leave(&cards[1].name));
                let (mut first, mut second) = (false, false);
                std::future::poll_fn(|cx| {
                    first = first || one.as_mut().poll(cx).map(Result::unwrap).is_ready();
                    second = second || other.as_mut().poll(cx).map(Result::unwrap).is_ready();
                    if first && second { Poll::Ready(()) } else { Poll::Pending }
                })
                .await;
            }
            Disturbance::OneIsStuck => {
                let name = &cards[0].name;
                restart_beside_one_that_is_stuck(grid, services, name).await.unwrap();
            }
            Disturbance::IsLost => services.lose(&cards[0].name).await.unwrap(),
            Disturbance::RegistryRestarts => {
                for _ in 0..5 {
                    services.restart_registry().await.unwrap();
                    let _ = grid.sleep(Duration::from_millis(30)).await;
                }
            }
        }
    });
    let mut limit = pin!(async {
        match limit {
            Some(limit) => drop(grid.sleep(limit).await),
            None => std::future::pending().await,
        }
    });
    std::future::poll_fn(|cx| {
        is_over |= !is_over && disturbing.as_mut().poll(cx).is_ready();
        if outcome.is_none()
            && let Poll::Ready(ended) = something.as_mut().poll(cx)
        {
            outcome = Some(Some(ended));
        }
        if outcome.is_none() && limit.as_mut().poll(cx).is_ready() {
            outcome = Some(None);
        }
        if is_over && outcome.is_some() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    (outcome.flatten(), may_fail.get())
}

/// Counts an outcome, which may be a failure only if a server was lost or left without a successor.
fn count(
    counts: &mut Counts,
    disturbance: Disturbance,
    (ended, may_fail): (Option<Result<(), RpcError>>, bool),
) {
    match ended {
        Some(Ok(())) => counts.done += 1,
        Some(Err(error)) => {
            let is_of_loss = error.to_string().contains("left");
            assert!(
                is_of_loss && may_fail && disturbance != Disturbance::None,
                "{disturbance:?}: {error}"
            );
            counts.reported += 1;
        }
        None => counts.dropped += 1,
    }
    match disturbance {
        Disturbance::None => {}
        Disturbance::Leaves => counts.left += 1,
        Disturbance::TwoLeave => counts.left += 2,
        Disturbance::IsLost => counts.lost += 1,
        Disturbance::RegistryRestarts => counts.restarted += 1,
        Disturbance::OneIsStuck => counts.stuck += 1,
    }
}

async fn main(grid: Grid, mut dice: Dice, counts: Arc<Mutex<Counts>>) -> Result<(), RpcError> {
    let services: Services<Vectors> = Services::on_all_pes(&grid).await?;
    for round in 0..6 {
        let disturbance = Disturbance::ALL[dice.below(6_usize)];
        let pause = Duration::from_millis(dice.below(400));
        let limit = dice.chance(0.25).then(|| Duration::from_millis(dice.below(400)));
        let what = (disturbance, pause, limit);
        let ended = match dice.below(3_u32) {
            0 => disturbed((&grid, &services), what, calls(&services, &mut dice)).await,
            _ => disturbed((&grid, &services), what, group(&services, &mut dice)).await,
        };
        count(&mut counts.lock().unwrap(), disturbance, ended);
        if disturbance.is_harmless() {
            continue;
        }
        for which in 0..1 + u32::from(disturbance == Disturbance::TwoLeave) {
            let pe = PeId(1 + dice.below(grid.layout().pe_count() - 1));
            let is_direct = dice.below(3_u32) > 0;
            let name = format!("new{round}-{which}");
            services.join(ServerPlan::new(name, pe).with_direct(is_direct)).await?;
        }
    }
    // Long enough for calls in execution, and for delayed messages.
    let _ = grid.sleep(Duration::from_secs(20)).await;
    assert_eq!(services.kept_bytes().await?, 0, "servers keep nothing of groups that have ended");
    assert!(
        services.load_s().await? < 1e-6,
        "servers have nothing to do for clients that are gone"
    );
    Ok(())
}

/// Runs one seed; returns the report and the counts.
pub(crate) fn run(seed: u64) -> (SimReport, Counts) {
    let dice = Dice::new(seed);
    let counts = Arc::new(Mutex::new(Counts::default()));
    let of_main = counts.clone();
    let job = with_rpc::<Vectors>(Job::new("faults"))
        .main(async move |grid| main(grid, dice, of_main).await.map_err(JobError::failed));
    let faults = FaultPlan::default()
        .with_local_delay(0.05)
        .with_delay_max(Duration::from_millis(50))
        .with_reorder(true)
        .with_pauses(PauseFaults::new(0.001, Duration::from_millis(300)))
        .with_sessions(SessionFaults::default());
    let spec = GridSpec::from_emulate("3x2,wan=10ms,jitter=2ms").unwrap();
    let options = SimOptions::with_seed(seed).with_faults(faults);
    let report = Simulation::new(job, spec, options).unwrap().run();
    let counts = *counts.lock().unwrap();
    (report, counts)
}
