//! How far predictions of `gridctl plan` are from the simulator, and from runs in real time.
//!
//! ```text
//! cargo run --release -p gridspan-studies --example plan_accuracy
//! cargo run --release -p gridspan-studies --example plan_accuracy -- --real
//! ```
//!
//! Each job is recorded on one grid, on two grids, or with two sizes of the problem. Its time is
//! predicted on grids of other latencies, bandwidths, numbers of sites and PEs, with more steps,
//! and for larger problems. Then the example simulates each of these runs, and compares the
//! prediction with the simulated time, the *truth*. A small change of the latency changes the time
//! of `uts` by a few percent, so the example simulates it five times with slightly different
//! latencies, and takes the median. The output has all cells, and marks an error above the bound
//! with `!`, and a cell that the tests hold to the bound with `*`.
//!
//! With `--real`, the example records jobs on two PEs in real time, predicts them on other links,
//! and compares with the median of seven real runs: the time of the whole job for tasks and the
//! workflow, and that of a step for the other jobs.

mod cells;
mod real;
mod simulated;

use cells::SCENARIOS;
use clap::Parser;
use std::error::Error;
use std::process::ExitCode;

/// Largest error of a prediction for the simulator.
const BOUND: f64 = 0.05;

#[derive(Parser)]
struct Arguments {
    /// Predict runs in real time, on two PEs of this machine.
    #[arg(long)]
    real: bool,
    /// Show only this job.
    #[arg(long)]
    job: Option<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.real {
        true => show_real(arguments.job.as_deref()),
        false => show_simulated(arguments.job.as_deref()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn show_simulated(only: Option<&str>) -> Result<(), Box<dyn Error>> {
    let (mut all, mut misses) = (0, 0);
    let mut rows = Vec::new();
    for scenario in SCENARIOS.iter().filter(|it| only.is_none_or(|only| only == it.job)) {
        let recordings = scenario
            .recorded
            .iter()
            .map(|run| simulated::record(scenario.job, run.place, run.arguments))
            .collect::<Result<Vec<_>, _>>()?;
        let places: Vec<&str> = scenario.recorded.iter().map(|run| run.place).collect();
        let places = places.join(" and ");
        rows.push(format!("\n{}, {}, recorded on {places}", scenario.job, scenario.about));
        rows.push(format!(
            "{:30}{:>10}{:>10}{:>9}{:>10}",
            "", "predicted", "truth", "error", "a step"
        ));
        for cell in scenario.cells {
            let found = simulated::outcome(scenario, &recordings, cell)?;
            let step = found.step_error().map_or_else(String::new, percent);
            let is_missed = found.worst() > BOUND;
            let held = if cell.is_held { "*" } else { " " };
            let mark = if is_missed { " !" } else { "" };
            rows.push(format!(
                "{:30}{:>9.4}s{:>9.4}s{:>9}{step:>10} {held}{mark}",
                cell.place,
                found.predicted,
                found.truth,
                percent(found.error())
            ));
            (all, misses) = (all + 1, misses + u32::from(is_missed));
        }
    }
    // After the output of the jobs.
    println!("{}", rows.join("\n"));
    println!("\n{misses} of {all} predictions are more than {:.0} % wrong", BOUND * 100.0);
    Ok(())
}

fn show_real(only: Option<&str>) -> Result<(), Box<dyn Error>> {
    println!(
        "{:10}{:16}{:10}{:>12}{:>13}{:>9}",
        "", "", "time of", "predicted", "measured", "error"
    );
    for found in real::outcomes(only)? {
        let error = found.predicted / found.measured - 1.0;
        let mark = if error.abs() > real::BOUND { " !" } else { "" };
        let [predicted, measured] = [found.predicted, found.measured].map(|it| it * 1e3);
        println!(
            "{:10}{:16}{:10}{predicted:>9.3} ms{measured:>10.3} ms{:>9}{mark}",
            found.job,
            found.place,
            found.of.name(),
            percent(error)
        );
    }
    Ok(())
}

fn percent(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}
