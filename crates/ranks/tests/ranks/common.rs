//! Runs jobs of ranks under the drivers.

use gridspan_ranks::{Comm, RankError, run_then};
use gridspan_runtime::driver::embedded;
use gridspan_runtime::{Job, JobError};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Three sites of two nodes with two PEs each.
pub(crate) const SITES: &str = "3x2x2,wan=8ms";

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
