//! Jobs with groups of calls that go on from a checkpoint: it leaves servers out, and a main that
//! begins again starts them again.

use futures_util::future::join;
use gridspan_rpc::calls::{
    Catalogue, Config, Function, Functions, GridRpc, RpcError, Services, with_rpc,
};
use gridspan_rpc::group::Mapper;
use gridspan_runtime::{
    CheckpointEvery, Checkpoints, Grid, Job, JobError, Progress, RestorePlan, Time,
};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;
use gridspan_workflow::heuristics::HeftC;
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

/// What main noted: the rounds in which it began, and the result.
#[derive(Default)]
struct Notes {
    begun: Vec<u64>,
    total: Option<u64>,
}

type Shared = Arc<Mutex<Notes>>;

fn grid(text: &str) -> GridSpec {
    GridSpec::from_emulate(text).unwrap()
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
fn groups_of_calls_go_on_from_a_checkpoint_on_any_number_of_pes() {
    for (seed, text) in [(1, "2x2x1,wan=8ms"), (2, "1x1x2"), (3, "3x2x2,wan=8ms"), (4, "1x1x1")] {
        let notes = Shared::default();
        let options = SimOptions::with_seed(seed);
        let first = Simulation::new(job(&notes), grid("2x2x1,wan=8ms"), options).unwrap();
        let at = Time(1_500_000_000 + seed * 400_000_000);
        let Ok(halted) = first.run_until(at) else { panic!("it has ended before {at}") };
        let image = halted.checkpoint().unwrap().expect("checkpoints were made");
        assert_eq!(image.members(), 0, "servers are left out");
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
fn a_group_under_way_postpones_a_checkpoint() {
    let main = async |grid: Grid| {
        let services: Services<Numbers> = Services::on_all_pes(&grid).await?;
        let meanwhile = async {
            grid.sleep(Duration::from_millis(150)).await?;
            grid.progress(&0_u64).await
        };
        let (sum, made) = join(sum_below(&services, 5), meanwhile).await;
        assert_eq!(sum?, 10);
        assert!(matches!(made?, Progress::Postponed { .. }));
        // A postponed one is tried again after some time.
        grid.sleep(Duration::from_secs(1)).await?;
        assert!(matches!(grid.progress(&0_u64).await?, Progress::Taken { .. }));
        Ok::<_, JobError>(())
    };
    let checkpoints = Checkpoints::every(CheckpointEvery::Points(1));
    let job = with_rpc::<Numbers>(Job::new("one")).restartable_main(main).checkpoints(checkpoints);
    let simulation = Simulation::new(job, grid("2x1x1,wan=8ms"), SimOptions::with_seed(1));
    assert_eq!(simulation.unwrap().run().outcome, Ok(()));
}
