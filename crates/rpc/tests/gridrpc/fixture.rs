//! Functions to call, and a client of servers with different speeds.

use gridspan_rpc::calls::{
    Catalogue, Config, Function, Functions, GridRpc, RpcError, ServerPlan, Services, Work, with_rpc,
};
use gridspan_runtime::{Grid, Job, JobError, PeId};
use gridspan_sim::{SimOptions, SimReport, Simulation};
use gridspan_topology::GridSpec;
use std::time::Duration;

pub(crate) const ADD: Function<(i64, i64), i64> = Function::new("add", |(a, b), _| Ok(a + b));
/// Takes `ms` milliseconds at speed 1.
pub(crate) const SLEEP: Function<u64, u64> =
    Function::new("sleep", sleep).costs("ms / 1000", &["ms"], |ms| vec![*ms as f64]);
/// Like [`SLEEP`], but its formula predicts a thousandth of the time.
pub(crate) const SURPRISE: Function<u64, u64> =
    Function::new("surprise", sleep).costs("ms / 1e6", &["ms"], |ms| vec![*ms as f64]);
pub(crate) const FAIL: Function<(), ()> = Function::new("fail", |(), _| Err("as asked".into()));
pub(crate) const PANIC: Function<(), ()> = Function::new("panic", |(), _| panic!("as asked"));
/// Not in the catalogue.
pub(crate) const UNKNOWN: Function<(), ()> = Function::new("unknown", |(), _| Ok(()));
/// Only the server `slow` offers it.
pub(crate) const SPECIAL: Function<(), u8> = Function::new("special", |(), _| Ok(7));

fn sleep(ms: u64, work: &mut Work) -> Result<u64, String> {
    work.emulate(Duration::from_millis(ms));
    Ok(ms)
}

pub(crate) struct Sums;

impl Catalogue for Sums {
    fn functions() -> Functions {
        let functions = Functions::new().with(&ADD).with(&SLEEP).with(&SURPRISE);
        functions.with(&FAIL).with(&PANIC).with(&SPECIAL)
    }
}

/// Servers `slow` (speed 1) and `fast` (speed 2) on the second and third PE.
pub(crate) async fn servers(grid: &Grid) -> Result<Services<Sums>, RpcError> {
    let services = Services::new(grid).await?;
    services.join(ServerPlan::new("slow", PeId(1))).await?;
    let offers = ["add", "sleep", "surprise", "fail", "panic"];
    let fast = ServerPlan::new("fast", PeId(2)).with_speed(2.0).with_offers(offers);
    services.join(fast).await?;
    Ok(services)
}

/// Keeps the fast server busy for 10 s with a call (20 s of work) that is predicted to be short.
/// Returns the client of the call.
pub(crate) async fn surprise(services: &Services<Sums>) -> Result<GridRpc<Sums>, RpcError> {
    let mut other = GridRpc::new(services);
    other.initialize(&Config::default())?;
    let busy = other.handle_on(&SURPRISE, "fast").await?;
    other.call_async(&busy, &20_000).await?;
    Ok(other)
}

pub(crate) fn job(main: impl AsyncFnOnce(Grid) -> Result<(), RpcError> + Send + 'static) -> Job {
    let job = with_rpc::<Sums>(Job::new("calls"));
    job.main(async move |grid| main(grid).await.map_err(JobError::failed))
}

/// Runs `main` in virtual time, on one node of three PEs.
pub(crate) fn simulated(
    main: impl AsyncFnOnce(Grid) -> Result<(), RpcError> + Send + 'static,
) -> SimReport {
    let report =
        Simulation::new(job(main), GridSpec::single(3), SimOptions::default()).unwrap().run();
    assert_eq!(report.outcome, Ok(()));
    report
}

/// Runs `main` with an initialised client.
pub(crate) fn client(
    main: impl AsyncFnOnce(GridRpc<Sums>) -> Result<(), RpcError> + Send + 'static,
) {
    simulated(async move |grid| {
        let mut rpc = GridRpc::new(&servers(&grid).await?);
        rpc.initialize(&Config::default())?;
        main(rpc).await
    });
}

/// Runs `main` with a client that is not initialised.
pub(crate) fn stranger(
    main: impl AsyncFnOnce(GridRpc<Sums>) -> Result<(), RpcError> + Send + 'static,
) {
    simulated(async move |grid| main(GridRpc::new(&servers(&grid).await?)).await);
}

/// The code of an outcome; 0 for success.
pub(crate) fn code<T>(outcome: Result<T, RpcError>) -> i32 {
    outcome.map_or_else(|error| error.code(), |_| 0)
}
