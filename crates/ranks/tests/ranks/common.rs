//! Runs jobs of ranks under the drivers, and has ranks that run while others are in a deadlock.

use gridspan_ranks::{Comm, RankError, run_then};
use gridspan_runtime::driver::embedded;
use gridspan_runtime::{Job, JobError, Time};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Three sites of two nodes with two PEs each.
pub(crate) const SITES: &str = "3x2x2,wan=8ms";
/// Ranks 0 and 1 exchange messages for this long while others are in a deadlock.
pub(crate) const OTHERS_RUN: Duration = Duration::from_secs(30);
/// A time after two long pauses of main, in which deadlocks close.
pub(crate) const LONG: Duration = Duration::from_secs(140);

/// Runs a job in virtual time on the grid of `emulate`.
pub(crate) fn simulate(job: Job, emulate: &str) -> Result<(), JobError> {
    let spec = GridSpec::from_emulate(emulate).unwrap();
    Simulation::new(job, spec, SimOptions::with_seed(7)).unwrap().run().outcome
}

/// Runs a job on two sites of one node with two PEs each, in this process, over QUIC.
pub(crate) fn emulate(job: Job) -> Result<(), JobError> {
    let spec = GridSpec::from_emulate("2x1x2,wan=2ms").unwrap();
    embedded::run_emulated(job.time_limit(Duration::from_secs(60)), &spec)
}

/// Runs a job on one PE, on three PEs, in virtual time on three sites, and over QUIC on two sites.
pub(crate) fn everywhere(make: impl Fn() -> Job) {
    for pes in [1, 3] {
        let job = make().fail_on_stall(true).time_limit(Duration::from_secs(60));
        embedded::run(job, pes).unwrap_or_else(|error| panic!("on {pes} PEs: {error}"));
    }
    simulate(make(), SITES).unwrap_or_else(|error| panic!("in virtual time: {error}"));
    emulate(make()).unwrap_or_else(|error| panic!("over QUIC: {error}"));
}

/// Runs a function on this number of ranks under all drivers, and checks its results, by rank.
pub(crate) fn check<F, U, T>(ranks: u32, function: F, expected: impl Fn(u32) -> T)
where
    F: Fn(Comm) -> U + Copy + Send + Sync + 'static,
    U: Future<Output = Result<T, RankError>> + Send + 'static,
    T: Serialize + DeserializeOwned + Send + PartialEq + std::fmt::Debug + 'static,
{
    let results = Arc::new(Mutex::new(Vec::new()));
    everywhere(|| {
        let results = results.clone();
        run_then(ranks, function, move |found| {
            results.lock().unwrap().push(found);
            Ok(())
        })
    });
    let expected: Vec<T> = (0..ranks).map(expected).collect();
    let results = results.lock().unwrap();
    assert_eq!(results.len(), 4);
    results.iter().for_each(|found| assert_eq!(found, &expected));
}

/// Runs a function on two ranks of one PE, where it fails. Returns the text of the error.
pub(crate) fn failure<F, U>(function: F) -> String
where
    F: Fn(Comm) -> U + Send + Sync + 'static,
    U: Future<Output = Result<(), RankError>> + Send + 'static,
{
    embedded::run(gridspan_ranks::run(2, function), 1).unwrap_err().to_string()
}

/// Exchanges messages between ranks 0 and 1 for [`OTHERS_RUN`].
pub(crate) async fn run_on(world: &Comm) -> Result<(), RankError> {
    run_for(world, OTHERS_RUN).await
}

/// Exchanges messages between ranks 0 and 1 for this time.
pub(crate) async fn run_for(world: &Comm, time: Duration) -> Result<(), RankError> {
    let other = 1 - world.rank();
    let begin = world.now();
    let mut is_over = [0_u8; 2];
    while is_over == [0; 2] {
        let mine = u8::from(world.now().since(begin) > time);
        let mut theirs = [0];
        world.sendrecv(&[mine], other, 0, &mut theirs, other, 0).await?;
        is_over = [mine, theirs[0]];
        world.sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// Returns the error of a job in virtual time, and checks that it comes within five seconds.
pub(crate) fn soon(job: Job, grid: &str) -> String {
    soon_after(Duration::ZERO, job, grid)
}

/// Like [`soon`], within five seconds after this time of the job.
pub(crate) fn soon_after(time: Duration, job: Job, grid: &str) -> String {
    let spec = GridSpec::from_emulate(grid).unwrap();
    let report = Simulation::new(job, spec, SimOptions::with_seed(5)).unwrap().run();
    let took = report.virtual_time.since(Time::ZERO);
    let expected = time..time + Duration::from_secs(5);
    assert!(expected.contains(&took), "{took:?}, {:?}", report.outcome);
    report.outcome.unwrap_err().to_string()
}
