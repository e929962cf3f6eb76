//! Jobs with calls and groups of calls that go on from a checkpoint: each call gives its result
//! once, and groups execute again only what they have lost.

use futures_util::future::join;
use gridspan_rpc::calls::{
    CallSession, Catalogue, ClientRef, Config, Function, Functions, GridRpc, RpcError, ServerPlan,
    Services, ServicesRef, with_rpc,
};
use gridspan_rpc::group::{CallGroup, GroupRef, Mapper, Room};
use gridspan_runtime::{
    CheckpointEvery, CheckpointStore, Checkpoints, Grid, Image, Job, JobError, NodeId, PeId,
    Progress, RestorePlan, Time,
};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;
use gridspan_workflow::heuristics::HeftC;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const ROUNDS: u64 = 8;

const FILL: Function<(u64,), (Vec<u64>,)> = Function::new("fill", |(n,), work| {
    work.emulate(Duration::from_millis(300));
    Ok(((0..n).collect(),))
});
const SUM: Function<(Vec<u64>,), (u64,)> = Function::new("sum", |(numbers,), work| {
    work.emulate(Duration::from_millis(200));
    Ok((numbers.iter().sum(),))
});
const SQUARE: Function<u64, u64> = Function::new("square", |n, _| Ok(n * n));

struct Numbers;

impl Catalogue for Numbers {
    fn functions() -> Functions {
        Functions::new().with_parts(&FILL).with_parts(&SUM).with(&SQUARE)
    }
}

/// Notes of main: the rounds in which it began, and the result.
#[derive(Default)]
struct Notes {
    begun: Vec<u64>,
    total: Option<u64>,
}

type Shared = Arc<Mutex<Notes>>;

fn grid(text: &str) -> GridSpec {
    GridSpec::from_emulate(text).unwrap()
}

/// The grid of all first runs.
pub(crate) const FIRST: &str = "2x2x1,wan=8ms";

/// The reason why a checkpoint is postponed, unless the one before is still being encoded or
/// stored.
fn reason(progress: Progress) -> Option<String> {
    match progress {
        Progress::Postponed { reason } => {
            Some(reason).filter(|it| !it.contains("encoded or stored"))
        }
        _ => None,
    }
}

pub(crate) fn every_point() -> Checkpoints {
    Checkpoints::every(CheckpointEvery::Points(1))
}

/// Runs a job on the first grid until a time. Returns its last checkpoint, and the nodes' parts.
pub(crate) fn halted(job: Job, seed: u64, at: Time) -> (Image, Vec<CheckpointStore>) {
    let simulation = Simulation::new(job, grid(FIRST), SimOptions::with_seed(seed)).unwrap();
    let Ok(halted) = simulation.run_until(at) else { panic!("it has ended before {at}") };
    (halted.checkpoint().unwrap().expect("checkpoints were made"), halted.stores)
}

/// Restarts a job from a checkpoint on a grid, to its end.
pub(crate) fn restart(job: Job, seed: u64, text: &str, image: Image) {
    let plan = RestorePlan::restart(image.layout(), grid(text).layout());
    let options = SimOptions::with_seed(seed + 100);
    let again = Simulation::restored(job, grid(text), options, (image, plan)).unwrap();
    let report = again.run();
    assert_eq!(report.outcome, Ok(()), "seed {seed}, {text}: {:?}", report.ending);
}

/// Lets a job go on without one of the nodes of the first grid, to its end.
fn recover(job: Job, seed: u64, lost: usize, stores: &[CheckpointStore]) {
    let left = stores.iter().enumerate().filter(|(node, _)| *node != lost);
    let image = Image::gathered(left.map(|(_, store)| store)).unwrap().unwrap();
    let spec = grid(FIRST).without(&[NodeId(lost as u32)]).unwrap();
    let number =
        |node: usize| (node != lost).then(|| NodeId((node - usize::from(node > lost)) as u32));
    let nodes: Vec<Option<NodeId>> = (0..stores.len()).map(number).collect();
    // The other node of the site has the copies.
    let holders: Vec<_> = nodes.iter().map(|node| node.or(nodes[lost ^ 1])).collect();
    let plan = RestorePlan::recovery(&image, &spec, &nodes, &holders).unwrap();
    let options = SimOptions::with_seed(seed + 100);
    let report = Simulation::restored(job, spec, options, (image, plan)).unwrap().run();
    assert_eq!(report.outcome, Ok(()), "seed {seed}, node {lost}: {:?}", report.ending);
}

fn job(notes: &Shared) -> Job {
    let notes = notes.clone();
    let main = async move |grid: Grid| run(grid, &notes).await;
    let checkpoints = Checkpoints::every(CheckpointEvery::Points(1));
    with_rpc::<Numbers>(Job::new("rounds")).restartable_main(main).checkpoints(checkpoints)
}

/// The sum of the numbers below `n`, by a group of calls.
async fn sum_below(services: &Services<Numbers>, n: u64) -> Result<u64, RpcError> {
    let mapper = Mapper::new(services);
    mapper
        .map(&HeftC::default(), async |group| {
            let (numbers,) = group.call(&FILL, (group.value(&n)?,));
            let (sum,) = group.call(&SUM, (numbers,));
            group.get(&sum).await
        })
        .await
}

async fn run(grid: Grid, notes: &Shared) -> Result<(), JobError> {
    let (first, mut total) = grid.restored::<(u64, u64)>().await?.unwrap_or((0, 0));
    notes.lock().unwrap().begun.push(first);
    let services: Services<Numbers> = Services::on_all_pes(&grid).await?;
    let mut client = GridRpc::new(&services);
    client.initialize(&Config::default())?;
    let square = client.handle(&SQUARE).await?;
    for round in first..ROUNDS {
        grid.progress(&(round, total)).await?;
        total += sum_below(&services, 10 + round).await?;
        total += client.call(&square, &round).await?;
    }
    notes.lock().unwrap().total = Some(total);
    Ok(())
}

fn expected() -> u64 {
    (0..ROUNDS).map(|round| (0..10 + round).sum::<u64>() + round * round).sum()
}

#[test]
fn a_main_that_does_not_remember_its_services_starts_others_on_any_number_of_pes() {
    for (seed, text) in [(1, "2x2x1,wan=8ms"), (2, "1x1x2"), (3, "3x2x2,wan=8ms"), (4, "1x1x1")] {
        let notes = Shared::default();
        let options = SimOptions::with_seed(seed);
        let first = Simulation::new(job(&notes), grid("2x2x1,wan=8ms"), options).unwrap();
        let at = Time(1_500_000_000 + seed * 400_000_000);
        let Ok(halted) = first.run_until(at) else { panic!("it has ended before {at}") };
        let image = halted.checkpoint().unwrap().expect("checkpoints were made");
        let plan = RestorePlan::restart(image.layout(), grid(text).layout());
        let options = SimOptions::with_seed(seed + 100);
        let again = Simulation::restored(job(&notes), grid(text), options, (image, plan)).unwrap();
        assert_eq!(again.run().outcome, Ok(()), "{text}");
        let notes = notes.lock().unwrap();
        assert!(matches!(notes.begun[..], [0, again] if again > 0), "{text}: {:?}", notes.begun);
        assert_eq!(notes.total, Some(expected()), "{text}");
    }
}

#[test]
fn a_group_under_way_postpones_no_checkpoint() {
    let main = async |grid: Grid| {
        let services: Services<Numbers> = Services::on_all_pes(&grid).await?;
        let meanwhile = async {
            grid.sleep(Duration::from_millis(150)).await?;
            grid.progress(&0_u64).await
        };
        let (sum, made) = join(sum_below(&services, 5), meanwhile).await;
        assert_eq!(sum?, 10);
        assert!(matches!(made?, Progress::Taken { .. }));
        Ok::<_, JobError>(())
    };
    let checkpoints = Checkpoints::every(CheckpointEvery::Points(1));
    let job = with_rpc::<Numbers>(Job::new("one")).restartable_main(main).checkpoints(checkpoints);
    let simulation = Simulation::new(job, grid("2x1x1,wan=8ms"), SimOptions::with_seed(1));
    assert_eq!(simulation.unwrap().run().outcome, Ok(()));
}

/// Number of calls in the tests of single calls, and the most that are under way at once.
const CALLS: u64 = 60;
const AT_ONCE: usize = 6;

/// Takes 50 to 250 ms.
const SLOW: Function<u64, u64> = Function::new("slow", |n, work| {
    work.emulate(Duration::from_millis(50 + n * 7 % 5 * 50));
    Ok(n * n)
});

struct SlowSquares;

impl Catalogue for SlowSquares {
    fn functions() -> Functions {
        Functions::new().with(&SLOW)
    }
}

/// State of main in the job of single calls, besides its services and its client.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Calls {
    next: u64,
    under_way: Vec<(u64, CallSession<u64>)>,
    results: Vec<u64>,
}

type CallsAt = (ServicesRef<SlowSquares>, ClientRef, Calls);

/// Notes of main in the job of single calls.
#[derive(Default)]
struct CallNotes {
    /// Number of calls under way when main began again.
    under_way: usize,
    postponed: Vec<String>,
    results: Vec<u64>,
}

fn calling(notes: &Arc<Mutex<CallNotes>>) -> Job {
    let notes = notes.clone();
    let main = async move |grid: Grid| call(&grid, &notes).await.map_err(JobError::from);
    let job = with_rpc::<SlowSquares>(Job::new("calls"));
    job.restartable_main(main).checkpoints(every_point())
}

/// Makes calls, of which some are under way at each progress point.
async fn call(grid: &Grid, notes: &Mutex<CallNotes>) -> Result<(), RpcError> {
    let (services, mut client, mut calls) = match grid.restored::<CallsAt>().await? {
        Some((services, client, calls)) => {
            notes.lock().unwrap().under_way += calls.under_way.len();
            let services = Services::restored(grid, &services);
            let client = GridRpc::restored(&services, &client)?;
            (services, client, calls)
        }
        None => {
            let services: Services<SlowSquares> = Services::on_all_pes(grid).await?;
            let mut client = GridRpc::new(&services);
            client.initialize(&Config::default())?;
            (services, client, Calls::default())
        }
    };
    let slow = client.handle(&SLOW).await?;
    loop {
        while calls.under_way.len() < AT_ONCE && calls.next < CALLS {
            let session = client.call_async(&slow, &calls.next).await?;
            calls.under_way.push((calls.next, session));
            calls.next += 1;
        }
        let at = (services.reference(), client.reference()?, calls.clone());
        let made = grid.progress(&at).await?;
        notes.lock().unwrap().postponed.extend(reason(made));
        if calls.under_way.is_empty() {
            notes.lock().unwrap().results = calls.results;
            return client.finalize().await;
        }
        let ids: Vec<_> = calls.under_way.iter().map(|(_, session)| session.id()).collect();
        let ended = client.wait_or(&ids).await?;
        let position = ids.iter().position(|id| *id == ended).unwrap();
        let (n, session) = calls.under_way.remove(position);
        let result = client.results(&session).await?;
        assert_eq!(result, n * n);
        // The client has taken the result, so there is no second one.
        let again = client.results(&session).await;
        assert!(matches!(again, Err(RpcError::InvalidSessionId { .. })), "{again:?}");
        calls.results.push(n);
    }
}

fn assert_each_call_gave_its_result_once(notes: &Mutex<CallNotes>) -> usize {
    let notes = notes.lock().unwrap();
    assert_eq!(notes.postponed, Vec::<String>::new());
    let mut results = notes.results.clone();
    results.sort_unstable();
    assert_eq!(results, (0..CALLS).collect::<Vec<u64>>());
    notes.under_way
}

#[test]
fn calls_under_way_give_their_results_once_after_a_restart_on_any_layout() {
    let mut under_way = 0;
    for seed in 0..4 {
        for text in [FIRST, "1x1x2", "3x2x2,wan=8ms", "1x1x1"] {
            let notes = Arc::default();
            let at = Time(1_200_000_000 + seed * 430_000_000);
            let (image, _) = halted(calling(&notes), seed, at);
            restart(calling(&notes), seed, text, image);
            under_way += assert_each_call_gave_its_result_once(&notes);
        }
    }
    assert!(under_way > 40, "only {under_way} calls were under way");
}

#[test]
fn calls_under_way_give_their_results_once_without_any_of_the_nodes() {
    let mut under_way = 0;
    for seed in 0..8 {
        let notes = Arc::default();
        let at = Time(1_300_000_000 + seed * 290_000_000);
        let (_, stores) = halted(calling(&notes), seed, at);
        recover(calling(&notes), seed, seed as usize % 4, &stores);
        under_way += assert_each_call_gave_its_result_once(&notes);
    }
    assert!(under_way > 20, "only {under_way} calls were under way");
}

/// Number of calls in the chain of the tests of groups, and in each of its windows.
const STEPS: u64 = 24;
const WINDOW: u64 = 3;

/// Defines a counter, a function that makes a list longer and counts its executions, and a
/// catalogue with this function.
macro_rules! chain_functions {
    ($catalogue:ident, $grow:ident, $executed:ident) => {
        static $executed: AtomicU64 = AtomicU64::new(0);

        const $grow: Function<(Vec<u64>,), (Vec<u64>,)> =
            Function::new("grow", |(mut numbers,), work| {
                $executed.fetch_add(1, Ordering::Relaxed);
                work.emulate(Duration::from_millis(60));
                numbers.push(numbers.len() as u64 * 3 + numbers.iter().sum::<u64>() % 7);
                Ok((numbers,))
            });

        struct $catalogue;

        impl Catalogue for $catalogue {
            fn functions() -> Functions {
                Functions::new().with_parts(&$grow).with_parts(&SUM)
            }
        }
    };
}

/// The sum of the sums after each window.
fn expected_of_chain() -> u64 {
    let (mut numbers, mut sums) = (vec![1_u64], 0);
    for step in 1..=STEPS {
        numbers.push(numbers.len() as u64 * 3 + numbers.iter().sum::<u64>() % 7);
        if step % WINDOW == 0 {
            sums += numbers.iter().sum::<u64>();
        }
    }
    sums
}

/// Notes of main in a job with a chain: whether it was resumed, postponed checkpoints, the sum.
type ChainNotes = Arc<Mutex<(bool, Vec<String>, Option<u64>)>>;

fn chain<C: Catalogue>(
    notes: &ChainNotes,
    grow: Function<(Vec<u64>,), (Vec<u64>,)>,
    room: &Room,
) -> Job {
    let (notes, room) = (notes.clone(), room.clone());
    let main = async move |grid: Grid| {
        let sum = run_chain::<C>(&grid, &notes, grow, &room).await.map_err(JobError::from)?;
        notes.lock().unwrap().2 = Some(sum);
        Ok::<_, JobError>(())
    };
    with_rpc::<C>(Job::new("chain")).restartable_main(main).checkpoints(every_point())
}

async fn run_chain<C: Catalogue>(
    grid: &Grid,
    notes: &ChainNotes,
    grow: Function<(Vec<u64>,), (Vec<u64>,)>,
    room: &Room,
) -> Result<u64, RpcError> {
    let (services, before) = match grid.restored::<(ServicesRef<C>, GroupRef)>().await? {
        Some((services, group)) => (Services::restored(grid, &services), Some(group)),
        None => {
            let services: Services<C> = Services::new(grid).await?;
            for pe in grid.layout().pes() {
                let plan = ServerPlan::new(format!("on {pe}"), pe).with_room(room.clone());
                services.join(plan).await?;
            }
            (services, None)
        }
    };
    notes.lock().unwrap().0 |= before.is_some();
    let calls = async |group: &CallGroup<'_, Services<C>>| {
        let (mut numbers, mut sums) = (group.value(&vec![1_u64])?, 0);
        for step in 1..=STEPS {
            (numbers,) = group.call(&grow, (numbers,));
            if step % WINDOW == 0 {
                let (sum,) = group.call(&SUM, (&numbers,));
                sums += group.get(&sum).await?;
                let at = (services.reference(), group.reference());
                let made = grid.progress(&at).await?;
                notes.lock().unwrap().1.extend(reason(made));
            }
        }
        Ok::<_, RpcError>(sums)
    };
    let mapper = Mapper::new(&services);
    match before {
        Some(before) => mapper.resume(&before, &HeftC::default(), calls).await,
        None => mapper.map(&HeftC::default(), calls).await,
    }
}

fn assert_chain_was_resumed(notes: &ChainNotes, what: &str) {
    let (is_resumed, postponed, sum) = notes.lock().unwrap().clone();
    assert!(is_resumed, "{what}");
    assert_eq!((postponed, sum), (Vec::new(), Some(expected_of_chain())), "{what}");
}

chain_functions!(Growing, GROW, GROWN);

#[test]
fn a_group_goes_on_after_a_restart_or_a_loss_without_repeating_its_calls() {
    let job = |notes: &ChainNotes| chain::<Growing>(notes, GROW, &Room::default());
    let mut all = 0;
    for seed in 0..4 {
        let at = Time(2_000_000_000 + seed * 400_000_000);
        for text in [FIRST, "1x1x2", "3x2x2,wan=8ms", "1x1x1"] {
            let notes = ChainNotes::default();
            let (image, _) = halted(job(&notes), seed, at);
            restart(job(&notes), seed, text, image);
            assert_chain_was_resumed(&notes, text);
            all += 1;
        }
        let notes = ChainNotes::default();
        let (_, stores) = halted(job(&notes), seed, at);
        recover(job(&notes), seed, seed as usize % 4, &stores);
        assert_chain_was_resumed(&notes, &format!("without node {}", seed % 4));
        all += 1;
    }
    // A resumed job repeats only the calls since its last complete checkpoint: those of at most two
    // windows.
    let executed = GROWN.load(Ordering::Relaxed);
    assert!((all * STEPS..=all * (STEPS + 2 * WINDOW)).contains(&executed), "{executed} of {all}");
}

chain_functions!(Spilling, SPILL, SPILLED);

#[test]
fn data_on_disk_is_no_part_of_a_checkpoint_and_is_made_again() {
    let room = Room::default().with_memory_bytes(0);
    let job = |notes: &ChainNotes| chain::<Spilling>(notes, SPILL, &room);
    let notes = ChainNotes::default();
    let (image, _) = halted(job(&notes), 1, Time(2_600_000_000));
    let before = SPILLED.load(Ordering::Relaxed);
    restart(job(&notes), 1, "1x1x2", image);

    assert_chain_was_resumed(&notes, "from disk");
    let after = SPILLED.load(Ordering::Relaxed) - before;
    assert_eq!(after, STEPS, "the whole chain, which the first call that is new needs");
}

chain_functions!(Departing, DEPART, DEPARTED);

/// Makes a chain of calls on a server, which leaves in the middle.
async fn run_departing(grid: &Grid, notes: &ChainNotes) -> Result<u64, RpcError> {
    let (services, before) = match grid.restored::<(ServicesRef<Departing>, GroupRef)>().await? {
        Some((services, group)) => (Services::restored(grid, &services), Some(group)),
        None => {
            let services: Services<Departing> = Services::new(grid).await?;
            services.join(ServerPlan::new("first", PeId(1))).await?;
            (services, None)
        }
    };
    let is_again = before.is_some();
    notes.lock().unwrap().0 |= is_again;
    if is_again {
        let names: Vec<String> = services.list().await?.into_iter().map(|card| card.name).collect();
        assert_eq!(names, ["second"], "the first one had left before the checkpoint");
    }
    let calls = async |group: &CallGroup<'_, Services<Departing>>| {
        let (mut numbers, mut sums) = (group.value(&vec![1_u64])?, 0);
        for step in 1..=STEPS {
            (numbers,) = group.call(&DEPART, (numbers,));
            if step % WINDOW == 0 {
                let (sum,) = group.call(&SUM, (&numbers,));
                sums += group.get(&sum).await?;
                if step == STEPS / 2 && !is_again {
                    services.join(ServerPlan::new("second", PeId(2))).await?;
                    services.leave("first").await?;
                }
                let at = (services.reference(), group.reference());
                let made = grid.progress(&at).await?;
                notes.lock().unwrap().1.extend(reason(made));
            }
        }
        Ok::<_, RpcError>(sums)
    };
    let mapper = Mapper::new(&services);
    match before {
        Some(before) => mapper.resume(&before, &HeftC::default(), calls).await,
        None => mapper.map(&HeftC::default(), calls).await,
    }
}

#[test]
fn a_resumed_group_does_not_repeat_calls_whose_results_a_server_dropped_before_it_left() {
    let notes = ChainNotes::default();
    let job = || {
        let notes = notes.clone();
        let main = async move |grid: Grid| {
            let sum = run_departing(&grid, &notes).await.map_err(JobError::from)?;
            notes.lock().unwrap().2 = Some(sum);
            Ok::<_, JobError>(())
        };
        with_rpc::<Departing>(Job::new("departing"))
            .restartable_main(main)
            .checkpoints(every_point())
    };
    let (image, _) = halted(job(), 1, Time(2_600_000_000));
    restart(job(), 1, "1x1x2", image);

    assert_chain_was_resumed(&notes, "a server has left");
    // It repeats only the calls since its last complete checkpoint.
    let executed = DEPARTED.load(Ordering::Relaxed);
    assert!((STEPS..=STEPS + 2 * WINDOW).contains(&executed), "{executed}");
}

/// Number of leaves of the sum in the test of a window under way.
const LEAVES: u64 = 64;
static LEAVES_EXECUTED: AtomicU64 = AtomicU64::new(0);

const LEAF: Function<(u64,), (u64,)> = Function::new("leaf", |(n,), work| {
    LEAVES_EXECUTED.fetch_add(1, Ordering::Relaxed);
    work.emulate(Duration::from_millis(100));
    Ok((n * n + 1,))
});
const ADD: Function<(u64, u64), (u64,)> = Function::new("add", |(a, b), _| Ok((a + b,)));

struct Leaves;

impl Catalogue for Leaves {
    fn functions() -> Functions {
        Functions::new().with_parts(&LEAF).with_parts(&ADD)
    }
}

/// Whether main was resumed, and the sum.
type LeafNotes = Arc<Mutex<(bool, Option<u64>)>>;

/// Executes one window, and makes checkpoints meanwhile.
async fn add_leaves(grid: &Grid, notes: &LeafNotes) -> Result<u64, RpcError> {
    let (services, before) = match grid.restored::<(ServicesRef<Leaves>, GroupRef)>().await? {
        Some((services, group)) => (Services::restored(grid, &services), Some(group)),
        None => (Services::on_all_pes(grid).await?, None),
    };
    notes.lock().unwrap().0 |= before.is_some();
    let calls = async |group: &CallGroup<'_, Services<Leaves>>| {
        let mut sums = Vec::new();
        for n in 0..LEAVES {
            sums.push(group.call(&LEAF, (group.value(&n)?,)).0);
        }
        while let (Some(a), Some(b)) = (sums.pop(), sums.pop()) {
            sums.insert(0, group.call(&ADD, (a, b)).0);
            if sums.len() == 1 {
                break;
            }
        }
        let is_over = Cell::new(false);
        let sum = async {
            let sum = group.get(&sums[0]).await;
            is_over.set(true);
            sum
        };
        let checkpoints = async {
            while !is_over.get() {
                grid.sleep(Duration::from_millis(100)).await?;
                let at = (services.reference(), group.reference());
                assert_eq!(reason(grid.progress(&at).await?), None);
            }
            Ok::<(), RpcError>(())
        };
        let (sum, made) = join(sum, checkpoints).await;
        made.and(sum)
    };
    let mapper = Mapper::new(&services);
    match before {
        Some(before) => mapper.resume(&before, &HeftC::default(), calls).await,
        None => mapper.map(&HeftC::default(), calls).await,
    }
}

fn leaves(notes: &LeafNotes) -> Job {
    let notes = notes.clone();
    let main = async move |grid: Grid| {
        let sum = add_leaves(&grid, &notes).await.map_err(JobError::from)?;
        notes.lock().unwrap().1 = Some(sum);
        Ok::<_, JobError>(())
    };
    with_rpc::<Leaves>(Job::new("leaves")).restartable_main(main).checkpoints(every_point())
}

#[test]
fn a_window_under_way_goes_on_with_the_results_that_were_made() {
    let expected: u64 = (0..LEAVES).map(|n| n * n + 1).sum();
    for (seed, lost) in [(1, None), (2, Some(0)), (3, Some(1)), (4, Some(3))] {
        let notes = LeafNotes::default();
        let count = || LEAVES_EXECUTED.load(Ordering::Relaxed);
        let start = count();
        let at = Time(1_400_000_000);
        let (image, stores) = halted(leaves(&notes), seed, at);
        let before = count() - start;
        match lost {
            None => restart(leaves(&notes), seed, "1x1x2", image),
            Some(lost) => recover(leaves(&notes), seed, lost, &stores),
        }

        assert_eq!(*notes.lock().unwrap(), (true, Some(expected)), "{lost:?}");
        assert!((1..LEAVES).contains(&before), "{before} were executed before");
        let after = count() - start - before;
        assert!(after < LEAVES, "{after} were executed after {before}");
    }
}

/// Bytes that servers kept when main began again, if it did.
type KeptNotes = Arc<Mutex<Option<u64>>>;

async fn forget_a_group(grid: &Grid, notes: &KeptNotes) -> Result<(), RpcError> {
    if let Some(services) = grid.restored::<ServicesRef<Numbers>>().await? {
        let services = Services::restored(grid, &services);
        *notes.lock().unwrap() = Some(services.kept_bytes().await?);
        return sum_below(&services, 9).await.map(|sum| assert_eq!(sum, 36));
    }
    let services: Services<Numbers> = Services::on_all_pes(grid).await?;
    let mapper = Mapper::new(&services);
    let calls = async |group: &CallGroup<'_, Services<Numbers>>| {
        let (numbers,) = group.call(&FILL, (group.value(&1_000)?,));
        group.run().await?;
        assert!(services.kept_bytes().await? > 1_000);
        grid.progress(&services.reference()).await?;
        grid.sleep(Duration::from_secs(60)).await?;
        let (sum,) = group.call(&SUM, (numbers,));
        group.get(&sum).await
    };
    mapper.map(&HeftC::default(), calls).await.map(|_| ())
}

#[test]
fn servers_drop_the_data_of_a_group_that_main_does_not_remember() {
    let notes = KeptNotes::default();
    let job = || {
        let notes = notes.clone();
        let main =
            async move |grid: Grid| forget_a_group(&grid, &notes).await.map_err(JobError::from);
        with_rpc::<Numbers>(Job::new("forgetful")).restartable_main(main).checkpoints(every_point())
    };
    let (image, _) = halted(job(), 1, Time(5_000_000_000));
    restart(job(), 1, "1x1x3", image);

    assert_eq!(*notes.lock().unwrap(), Some(0));
}

/// The error of a group that main resumes with another value.
type OtherNotes = Arc<Mutex<Option<String>>>;

async fn make_others(grid: &Grid, notes: &OtherNotes) -> Result<(), RpcError> {
    let (services, before) = match grid.restored::<(ServicesRef<Numbers>, GroupRef)>().await? {
        Some((services, group)) => (Services::restored(grid, &services), Some(group)),
        None => (Services::on_all_pes(grid).await?, None),
    };
    let is_again = before.is_some();
    let calls = async |group: &CallGroup<'_, Services<Numbers>>| {
        if is_again {
            group.value(&0_u64)?;
        }
        let (numbers,) = group.call(&FILL, (group.value(&7_u64)?,));
        let (sum,) = group.call(&SUM, (numbers,));
        let sum = group.get(&sum).await?;
        grid.progress(&(services.reference(), group.reference())).await?;
        grid.sleep(Duration::from_secs(60)).await?;
        Ok::<_, RpcError>(sum)
    };
    let mapper = Mapper::new(&services);
    let Some(before) = before else {
        return mapper.map(&HeftC::default(), calls).await.map(|_| ());
    };
    let resumed = mapper.resume(&before, &HeftC::default(), calls).await;
    *notes.lock().unwrap() = resumed.err().map(|error| error.to_string());
    Ok(())
}

#[test]
fn a_resumed_group_that_makes_other_values_gets_an_error_in_place_of_other_results() {
    let notes = OtherNotes::default();
    let job = || {
        let notes = notes.clone();
        let main = async move |grid: Grid| make_others(&grid, &notes).await.map_err(JobError::from);
        with_rpc::<Numbers>(Job::new("others")).restartable_main(main).checkpoints(every_point())
    };
    let (image, _) = halted(job(), 1, Time(5_000_000_000));
    restart(job(), 1, "1x1x3", image);

    let error = notes.lock().unwrap().clone().expect("it is noticed");
    assert!(error.contains("makes other values or calls"), "{error}");
}
