//! The automatic interval of checkpoints, compared with fixed ones in many cases.

use crate::daly::Costs;
use crate::job::Shape;
use crate::life::{Life, Plan, live, losses};
use gridspan_runtime::CheckpointEvery;
use gridspan_topology::{Bandwidth, GridSpec};
use std::error::Error;
use std::time::Duration;

/// The grid of the cases.
const GRID: &str = "2x2,wan=10ms";
const PES: u32 = 4;
/// State of a PE. Encoding it takes the cost of the case.
const STATE_BYTES: usize = 2_000;
/// Time until a loss is known.
const NOTICE: Duration = Duration::from_millis(100);
/// Largest number of steps of a job: further losses are left out.
const STEPS_MAX: f64 = 120_000.0;
/// Factor from one fixed interval to the next, in steps.
const GROWTH: f64 = 1.3;
/// Fixed intervals begin at this multiple of Daly's, and end at its reciprocal.
const RANGE: f64 = 0.25;
const SEED: u64 = 1;
/// Largest cost, as a part of the time between losses, in cases where main is ahead.
const AHEAD_MAX: f64 = 0.1;

/// A case, in seconds.
struct Case {
    /// Time to encode a checkpoint.
    cost: f64,
    /// Mean time between losses.
    to_failure: f64,
    /// Shortest and longest step.
    step: [f64; 2],
    actors_per_pe: u32,
    /// Whether actors compute while main is at its progress point.
    is_ahead: bool,
}

/// All cases, with checkpoints that cost these parts of the time between losses.
fn cases(costs: &[f64]) -> Vec<Case> {
    let mut cases = Vec::new();
    for (to_failure, steps) in [
        (60.0, [[0.2, 0.4], [2.0, 4.0], [20.0, 20.0]].as_slice()),
        (600.0, &[[1.0, 2.0], [5.0, 10.0], [60.0, 60.0]]),
        (7_200.0, &[[10.0, 20.0], [300.0, 300.0]]),
    ] {
        for &step in steps {
            for part in costs {
                let cost = part * to_failure;
                let case = Case { cost, to_failure, step, actors_per_pe: 2, is_ahead: false };
                cases.push(case);
            }
            for part in costs.iter().filter(|part| **part < AHEAD_MAX) {
                let cost = part * to_failure;
                cases.push(Case { cost, to_failure, step, actors_per_pe: 1, is_ahead: true });
            }
        }
    }
    cases
}

pub(crate) fn print(losses: u32, costs: &[f64]) -> Result<(), Box<dyn Error>> {
    println!(
        "{:>9} {:>9} {:>11} {:>6} {:>7} {:>9} {:>10} {:>9} {:>10} {:>6}",
        "cost",
        "to loss",
        "step",
        "ahead",
        "losses",
        "interval",
        "useful",
        "best",
        "useful",
        "ratio"
    );
    let mut worst = (f64::INFINITY, String::new());
    for case in cases(costs) {
        let (automatic, best) = compare(&case, losses)?;
        let ratio = automatic.share() / best.1.share();
        let mean =
            |life: &Life| life.intervals.iter().sum::<f64>() / life.intervals.len().max(1) as f64;
        let line = format!(
            "{:>7.3} s {:>7.0} s {:>4}..{:>3} s {:>6} {:>7} {:>7.2} s {:>8.2} % {:>9} {:>8.2} % \
             {ratio:>6.3}",
            case.cost,
            case.to_failure,
            case.step[0],
            case.step[1],
            if case.is_ahead { "yes" } else { "no" },
            automatic.losses,
            mean(&automatic),
            100.0 * automatic.share(),
            best.0.to_string(),
            100.0 * best.1.share(),
        );
        println!("{line}");
        if ratio < worst.0 {
            worst = (ratio, line);
        }
    }
    println!("worst:\n{}", worst.1);
    Ok(())
}

/// Runs the job with the automatic interval, and with the best of the fixed ones.
fn compare(
    case: &Case,
    losses_max: u32,
) -> Result<(Life, (CheckpointEvery, Life)), Box<dyn Error>> {
    let shape = Shape {
        pes: PES,
        actors_per_pe: case.actors_per_pe,
        state_bytes_per_pe: STATE_BYTES,
        step: case.step.map(Duration::from_secs_f64),
        is_ahead: case.is_ahead,
    };
    let step = shape.mean_step().as_secs_f64();
    let end = (f64::from(losses_max) * case.to_failure).min(STEPS_MAX * step);
    let (end, to_failure) =
        (Duration::from_secs_f64(end), Duration::from_secs_f64(case.to_failure));
    let rate = 8.0 * STATE_BYTES as f64 / case.cost;
    let plan = Plan {
        grid: GridSpec::from_emulate(GRID)?,
        shape,
        every: CheckpointEvery::Auto,
        rate: Bandwidth::from_bits_per_second(rate as u64),
        to_failure,
        losses: losses(SEED, to_failure, end),
        away: None,
        notice: NOTICE,
        end,
        seed: SEED,
    };
    let automatic = live(&plan)?;
    let costs = Costs { checkpoint: case.cost, restart: 0.0, to_failure: case.to_failure };
    let steps = costs.interval() / step;
    let mut best: Option<(CheckpointEvery, Life)> = None;
    let mut points = (steps * RANGE).max(1.0);
    let mut last = 0;
    while points <= (steps / RANGE).max(3.0) {
        let every = points.round() as u64;
        if every != last {
            let every = CheckpointEvery::Points(every);
            let life = live(&Plan { every, ..plan.clone() })?;
            if best.as_ref().is_none_or(|(_, best)| life.share() > best.share()) {
                best = Some((every, life));
            }
        }
        last = every;
        points *= GROWTH;
    }
    Ok((automatic, best.ok_or("no fixed interval")?))
}
