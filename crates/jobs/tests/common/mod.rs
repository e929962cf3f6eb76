//! Runs a job under each driver.
#![allow(dead_code, clippy::unwrap_used)]

use gridspan_runtime::driver::embedded;
use gridspan_runtime::{Job, JobError};
use gridspan_sim::{SimOptions, SimReport, Simulation};
use gridspan_topology::GridSpec;

/// Two sites of two nodes with two PEs each.
pub(crate) const SITES: &str = "2x2x2,wan=8ms";

/// Builds the built-in job `name` with the arguments in `words`.
pub(crate) fn built_in(name: &str, words: &str) -> Job {
    let entry = gridspan_jobs::find(name).unwrap();
    let arguments: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    (entry.build)(&arguments).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs a job in virtual time on the grid of `emulate`.
pub(crate) fn simulate(job: Job, emulate: &str) -> SimReport {
    let spec = GridSpec::from_emulate(emulate).unwrap();
    Simulation::new(job, spec, SimOptions::with_seed(7)).unwrap().run()
}

/// Runs a job on the nodes of `emulate`, in this process, over QUIC.
pub(crate) fn emulated(job: Job, emulate: &str) -> Result<(), JobError> {
    embedded::run_emulated(job, &GridSpec::from_emulate(emulate).unwrap())
}

/// Runs a job on one, two and eight PEs, then in virtual time, and then over QUIC.
pub(crate) fn everywhere(make: impl Fn() -> Job) {
    for pes in [1, 2, 8] {
        embedded::run(make(), pes).unwrap_or_else(|error| panic!("on {pes} PEs: {error}"));
    }
    simulate(make(), SITES).outcome.unwrap_or_else(|error| panic!("in virtual time: {error}"));
    emulated(make(), "2x1x2,wan=2ms").unwrap_or_else(|error| panic!("over QUIC: {error}"));
}
