//! Predictions of `gridctl plan` differ from the simulator by at most 5 % for a step, and by at
//! most 5 % plus one round trip between sites for a job. The example `plan_accuracy` has more
//! predictions, and prints those with larger errors.
#![allow(missing_docs, clippy::unwrap_used, dead_code)]

#[path = "../examples/plan_accuracy/cells.rs"]
mod cells;
#[path = "../examples/plan_accuracy/simulated.rs"]
mod simulated;

use cells::SCENARIOS;
use gridspan_topology::{GridSpec, SiteId};
use simulated::{Outcome, outcome, record};

/// Largest relative error that the tests allow.
const BOUND: f64 = 0.05;

/// The longest round trip between the first site and another one, in seconds.
fn round_trip(place: &str) -> f64 {
    let grid = GridSpec::from_emulate(place).unwrap();
    let latency = |from, to| grid.link_between(from, to).latency.duration().as_secs_f64();
    let home = SiteId(0);
    let others = grid.layout().sites().filter(|site| *site != home);
    others.map(|site| latency(home, site) + latency(site, home)).fold(0.0, f64::max)
}

/// Predicts all cells of a job that have `is_held` set, prints them, and fails if the error of one
/// is too large.
fn holds(job: &str) {
    let mut misses = Vec::new();
    let mut held = 0;
    for scenario in SCENARIOS.iter().filter(|scenario| scenario.job == job) {
        let run = |run: &cells::Recorded| record(job, run.place, run.arguments).unwrap();
        let recordings: Vec<_> = scenario.recorded.iter().map(run).collect();
        for cell in scenario.cells.iter().filter(|cell| cell.is_held) {
            let found: Outcome = outcome(scenario, &recordings, cell).unwrap();
            let line = format!(
                "{job} on {}: predicted {:.4} s, simulated {:.4} s, error {:+.1} %, of a step {:+.1} %",
                cell.place,
                found.predicted,
                found.truth,
                found.error() * 100.0,
                found.step_error().unwrap_or(0.0) * 100.0
            );
            println!("{line}");
            held += 1;
            let allowed = BOUND * found.truth + round_trip(cell.place);
            let is_far = (found.predicted - found.truth).abs() > allowed;
            if is_far || found.step_error().is_some_and(|error| error.abs() > BOUND) {
                misses.push(line);
            }
        }
    }
    assert!(held > 0, "no prediction of {job} is held");
    assert!(misses.is_empty(), "{misses:#?}");
}

#[test]
fn molecular_dynamics_is_predicted() {
    holds("leanmd");
}

#[test]
fn sweeps_of_a_stencil_are_predicted() {
    holds("stencil");
}

#[test]
fn a_search_by_tasks_is_predicted() {
    holds("uts");
}

#[test]
fn a_workflow_on_the_recorded_servers_is_predicted() {
    holds("hydropad");
}
