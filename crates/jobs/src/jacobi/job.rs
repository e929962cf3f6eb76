//! The job: its options, and main, which compares the result with the exact solution.

use super::rank::{JacobiRank, Summary};
use super::solver::{Exchange, Plan};
use crate::entry::{Entry, parse};
use crate::rank_limits::limits;
use clap::{Parser, ValueEnum};
use gridspan_kernels::jacobi::problem::{Equation, Problem};
use gridspan_ranks as ranks;
use gridspan_runtime::{Grid, Job, JobError};
use gridspan_topology::Latency;
use serde::{Deserialize, Serialize};
use std::time::Duration;

const ABOUT: &str = "Jacobi iteration in two or three dimensions, as ranks of a Cartesian grid";

/// Maximum number of points of the whole grid. They take 3 GB with their ghosts and sources.
const POINTS_MAX: u64 = 1 << 27;
/// Maximum number of ranks.
const RANKS_MAX: i64 = 1 << 20;

pub(crate) const ENTRY: Entry = Entry {
    name: "jacobi",
    about: ABOUT,
    build: |arguments| Ok(job_with(parse("jacobi", arguments)?, report)),
};

/// [`Equation`] on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum EquationName {
    /// No right side, with boundary values that are not zero.
    Laplace,
    /// A right side, with a boundary of zeros.
    Poisson,
}

impl From<EquationName> for Equation {
    fn from(name: EquationName) -> Self {
        match name {
            EquationName::Laplace => Self::Laplace,
            EquationName::Poisson => Self::Poisson,
        }
    }
}

/// The options of the job.
///
/// ```
/// use clap::Parser;
/// use gridspan_jobs::jacobi::job::{JacobiOptions, job_with};
///
/// let options = JacobiOptions::try_parse_from(["jacobi", "--dims", "3", "--size", "20"]).unwrap();
/// let job = job_with(options, |outcome| {
///     println!("{:?} a step", outcome.step);
///     Ok(())
/// });
/// # gridspan_runtime::driver::embedded::run(job, 2).unwrap();
/// ```
#[derive(Clone, Copy, Debug, Parser)]
#[command(about = ABOUT, long_about = None)]
pub struct JacobiOptions {
    /// Number of dimensions.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=3))]
    dims: u32,
    /// Inner points along each axis.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=11_585))]
    size: u32,
    /// The equation.
    #[arg(long, default_value = "laplace")]
    equation: EquationName,
    /// Number of ranks, in place of `--ranks-per-pe`.
    #[arg(long, conflicts_with = "ranks_per_pe", value_parser = clap::value_parser!(u32).range(1..=RANKS_MAX))]
    ranks: Option<u32>,
    /// Number of ranks for each PE, which divide a tile of the grid among them.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=4096))]
    ranks_per_pe: u32,
    /// Number of steps.
    #[arg(long, default_value_t = 200)]
    steps: u64,
    /// Steps between two reports of the largest change; 0 for the last step only.
    #[arg(long, value_name = "N", default_value_t = 50)]
    check: u64,
    /// How ranks get the faces of their neighbours.
    #[arg(long, default_value = "overlap")]
    exchange: Exchange,
    /// Compute time of a point in one step, which is charged in virtual time.
    #[arg(long, value_name = "TIME", default_value = "1ns")]
    compute: Latency,
    /// Also wait for the time of `--compute` in real time, which emulates a larger problem.
    #[arg(long)]
    wait: bool,
    /// Steps between two points at which ranks may move and checkpoints are made; 0 for none.
    #[arg(long, value_name = "N", default_value_t = 0)]
    migrate_every: u64,
}

impl JacobiOptions {
    /// Number of ranks that divide a tile.
    fn per_tile(&self) -> u32 {
        if self.ranks.is_some() { 1 } else { self.ranks_per_pe }
    }

    /// Number of ranks on this number of PEs.
    fn ranks(&self, pes: u32) -> Result<u32, JobError> {
        let ranks = self.ranks.unwrap_or_else(|| self.ranks_per_pe.saturating_mul(pes));
        let points = self.points();
        if points > POINTS_MAX || i64::from(ranks) > RANKS_MAX {
            let reason = format!("{points} points and {ranks} ranks are more than {POINTS_MAX}");
            return Err(format!("{reason} points or {RANKS_MAX} ranks; use fewer").into());
        }
        Ok(ranks)
    }

    fn plan(&self) -> Plan {
        let Self { size, equation, steps, check, exchange, .. } = *self;
        Plan {
            problem: Problem { equation: equation.into(), axes: self.dims as usize, size },
            steps,
            check,
            exchange,
            point_cost: self.compute.duration(),
            waits: self.wait,
            per_tile: self.per_tile(),
            migrate_every: self.migrate_every,
        }
    }

    fn points(&self) -> u64 {
        u64::from(self.size).pow(self.dims)
    }
}

/// The measurements of a run.
///
/// ```
/// use gridspan_jobs::jacobi::job::JacobiOutcome;
///
/// fn is_right(outcome: &JacobiOutcome) -> bool {
///     outcome.error <= outcome.error_max
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JacobiOutcome {
    /// Points of the grid.
    pub points: u64,
    /// Number of steps.
    pub steps: u64,
    /// Number of ranks.
    pub ranks: u32,
    /// Number of PEs.
    pub pes: u32,
    /// Time of all steps.
    pub time: Duration,
    /// Mean time of a step in the second half, when the times of steps have settled.
    pub step: Duration,
    /// Numbers of steps, each with the largest change of a point in that step.
    pub changes: Vec<(u64, f64)>,
    /// The largest difference from the exact values.
    pub error: f64,
    /// Upper bound of the difference due to rounding.
    pub error_max: f64,
}

/// Makes the job. Main passes the outcome to `then`, and fails if the error exceeds its bound.
pub fn job_with(
    options: JacobiOptions,
    then: impl Fn(&JacobiOutcome) -> Result<(), JobError> + Send + Sync + 'static,
) -> Job {
    let plan = options.plan();
    let count = move |grid: &Grid| options.ranks(grid.layout().pe_count());
    let end = move |grid: &Grid, found: Vec<Option<Summary>>| -> Result<(), JobError> {
        let (ranks, pes) = (found.len() as u32, grid.layout().pe_count());
        let first = found.into_iter().flatten().next();
        let Summary { time, step, changes, error } = first.ok_or("no rank has a result")?;
        let (points, steps) = (options.points(), options.steps);
        let error_max = plan.problem.rounding_max(steps);
        let outcome =
            JacobiOutcome { points, steps, ranks, pes, time, step, changes, error, error_max };
        then(&outcome)?;
        match error <= error_max {
            true => Ok(()),
            false => {
                Err(format!("verified: no (largest error {error:.1e}, more than {error_max:.1e})")
                    .into())
            }
        }
    };
    let job = ranks::job_then_with::<JacobiRank, Plan>("jacobi", plan, count, move |_| plan, end);
    job.limits(limits())
}

/// Prints the outcome.
fn report(outcome: &JacobiOutcome) -> Result<(), JobError> {
    for (step, change) in &outcome.changes {
        println!("step {step}: largest change {change:.3e}");
    }
    let JacobiOutcome { points, steps, ranks, pes, time, step, error, error_max, .. } = outcome;
    println!(
        "{steps} steps over {points} points: {ranks} ranks on {pes} PEs, {:.3} s, {:.3} ms a step",
        time.as_secs_f64(),
        step.as_secs_f64() * 1e3
    );
    if error <= error_max {
        println!("verified: yes (largest error {error:.1e} of at most {error_max:.1e})");
    }
    Ok(())
}
