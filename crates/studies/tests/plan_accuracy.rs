//! Predictions of `gridctl plan` stay within 5 % of the simulator. The example `plan_accuracy` has
//! more of them, and prints those that are further away.
#![allow(missing_docs, clippy::unwrap_used, dead_code)]

#[path = "../examples/plan_accuracy/cells.rs"]
mod cells;
#[path = "../examples/plan_accuracy/simulated.rs"]
mod simulated;

use cells::SCENARIOS;
use simulated::{Outcome, outcome, record};

/// Largest error.
const BOUND: f64 = 0.05;

/// Predicts all held cells of a job, prints them, and fails if one is too far away.
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
            if found.worst() > BOUND {
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
