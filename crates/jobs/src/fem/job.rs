//! The job: its options, and main, which checks the residual and the error.

use super::distribution::MeshFacts;
use super::product::Exchange;
use super::rank::{FemRank, Plan, Summary};
use crate::entry::{Entry, parse};
use crate::rank_limits::limits;
use clap::{Parser, ValueEnum};
use gridspan_kernels::fem::problem::Equation;
use gridspan_ranks as ranks;
use gridspan_runtime::{Grid, Job, JobError};
use gridspan_topology::Latency;
use serde::{Deserialize, Serialize};
use std::time::Duration;

const ABOUT: &str = "Finite elements on an unstructured mesh, by conjugate gradients on ranks";

/// Maximum number of ranks: the first one cuts the mesh for all, and sends each its part.
const RANKS_MAX: i64 = 4096;

pub(crate) const ENTRY: Entry = Entry {
    name: "fem",
    about: ABOUT,
    build: |arguments| Ok(job_with(parse("fem", arguments)?, report)),
};

/// The two decompositions of table 2 of Iskra and others (2000).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// One rank on each PE but the last, which is idle: three on four PEs in the paper.
    Sparse,
    /// Three ranks on each PE: nine on three PEs in the paper.
    Redundant,
}

/// [`Equation`] on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum EquationName {
    /// Poisson's equation: one unknown for each node.
    Poisson,
    /// A body in plane strain: two unknowns for each node, which are the displacement.
    Elasticity,
}

impl From<EquationName> for Equation {
    fn from(name: EquationName) -> Self {
        match name {
            EquationName::Poisson => Self::Poisson,
            EquationName::Elasticity => Self::Elasticity,
        }
    }
}

/// The options of the job.
///
/// ```
/// use clap::Parser;
/// use gridspan_jobs::fem::job::{FemOptions, job_with};
///
/// let words = ["fem", "--problem", "elasticity", "--size", "16", "--form", "redundant"];
/// let job = job_with(FemOptions::try_parse_from(words).unwrap(), |outcome| {
///     assert_eq!((outcome.ranks, outcome.unknowns), (6, 2 * 14 * 14));
///     Ok(())
/// });
/// # gridspan_runtime::driver::embedded::run(job, 2).unwrap();
/// ```
#[derive(Clone, Copy, Debug, Parser)]
#[command(about = ABOUT, long_about = None)]
pub struct FemOptions {
    /// The equation.
    #[arg(long, default_value = "poisson")]
    problem: EquationName,
    /// Square root of the number of nodes.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(3..=1024))]
    size: u32,
    /// Seed of the mesh and of its cut.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of ranks, in place of `--ranks-per-pe`.
    #[arg(
        long,
        conflicts_with_all = ["ranks_per_pe", "form"],
        value_parser = clap::value_parser!(u32).range(1..=RANKS_MAX)
    )]
    ranks: Option<u32>,
    /// Number of ranks for each PE.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=RANKS_MAX))]
    ranks_per_pe: u32,
    /// Number of ranks for the PEs, as in table 2 of Iskra and others (2000).
    #[arg(long, conflicts_with = "ranks_per_pe")]
    form: Option<Form>,
    /// How ranks get values of nodes that others own.
    #[arg(long, default_value = "neighbours")]
    exchange: Exchange,
    /// Norm of the residual at which steps end, divided by that of the right side: 1e-12 to 0.01.
    #[arg(long, default_value = "1e-9", value_parser = parse_tolerance)]
    tolerance: f64,
    /// Largest number of steps.
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    steps_max: u32,
    /// Compute time of an entry of the matrix in one step, which is charged in virtual time.
    #[arg(long, value_name = "TIME", default_value = "2ns")]
    compute: Latency,
    /// Steps between two points at which ranks may move and checkpoints are made; 0 for none.
    #[arg(long, value_name = "N", default_value_t = 0)]
    migrate_every: u32,
    /// Solve the system this many times, one after the other, and print the total time.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
}

fn parse_tolerance(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(tolerance) if (1e-12..=0.01).contains(&tolerance) => Ok(tolerance),
        _ => Err("write a number from 1e-12 to 0.01".to_owned()),
    }
}

impl FemOptions {
    /// Number of ranks on this number of PEs.
    fn ranks(&self, pes: u32) -> Result<u32, JobError> {
        let ranks = match (self.ranks, self.form) {
            (Some(ranks), _) => ranks,
            (None, Some(Form::Sparse)) => pes.saturating_sub(1).max(1),
            (None, Some(Form::Redundant)) => pes.saturating_mul(3),
            (None, None) => pes.saturating_mul(self.ranks_per_pe),
        };
        match i64::from(ranks) > RANKS_MAX {
            true => {
                let reason = format!("{ranks} ranks are more than {RANKS_MAX}");
                Err(format!("{reason}; use fewer for each PE").into())
            }
            false => Ok(ranks),
        }
    }

    fn plan(&self) -> Plan {
        Plan {
            equation: self.problem.into(),
            size: self.size,
            seed: self.seed,
            exchange: self.exchange,
            tolerance: self.tolerance,
            steps_max: self.steps_max,
            entry_cost: self.compute.duration(),
            migrate_every: self.migrate_every,
            repeat: self.repeat,
        }
    }
}

/// The measurements of a run.
///
/// ```
/// use gridspan_jobs::fem::job::FemOutcome;
///
/// fn is_right(outcome: &FemOutcome) -> bool {
///     outcome.residual <= outcome.residual_max && outcome.error <= outcome.error_max
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FemOutcome {
    /// Nodes of the mesh.
    pub nodes: u64,
    /// Triangles of the mesh.
    pub triangles: u64,
    /// Number of unknowns.
    pub unknowns: u64,
    /// Number of ranks.
    pub ranks: u32,
    /// Number of PEs.
    pub pes: u32,
    /// Edges of the mesh between nodes of different ranks.
    pub cut_edges: u64,
    /// The largest number of matrix entries of a rank, divided by the mean.
    pub imbalance: f64,
    /// Values of unknowns that all ranks together get from others in a step.
    pub received: u64,
    /// Number of steps, of all solutions together.
    pub steps: u32,
    /// Time of all steps.
    pub time: Duration,
    /// Norm of the residual, divided by that of the right side.
    pub residual: f64,
    /// Upper bound of the residual: twice the tolerance, since the steps end by the residual of the
    /// recurrence, which has lost digits.
    pub residual_max: f64,
    /// Difference from the analytic solution, in the discrete L2 norm.
    pub error: f64,
    /// Upper bound of the error, which is of second order in the longest edge.
    pub error_max: f64,
}

impl FemOutcome {
    fn new(plan: &Plan, summary: Summary, ranks: u32, pes: u32) -> Self {
        let Summary { facts, steps, time, residual, error } = summary;
        let MeshFacts { nodes, triangles, inner_nodes, cut_edges, ghosts, imbalance, .. } = facts;
        let problem = plan.problem();
        let unknowns = problem.unknowns() as u64;
        let received = match plan.exchange {
            Exchange::Neighbours => ghosts,
            Exchange::Gather => inner_nodes * u64::from(ranks - 1),
        };
        Self {
            nodes,
            triangles,
            unknowns: inner_nodes * unknowns,
            ranks,
            pes,
            cut_edges,
            imbalance,
            received: received * unknowns,
            steps,
            time,
            residual,
            residual_max: 2.0 * plan.tolerance,
            error,
            error_max: problem.error_max(facts.longest_edge),
        }
    }

    /// Why the result is wrong, if it is.
    fn problem(&self) -> Option<String> {
        let Self { steps, residual, residual_max, error, error_max, .. } = self;
        let (is_solved, is_near) = (residual <= residual_max, error <= error_max);
        match (is_solved, is_near) {
            (true, true) => None,
            (true, false) => Some(format!("error {error:.1e}, more than {error_max:.1e}")),
            (false, _) => Some(format!(
                "residual {residual:.1e} after {steps} steps, more than {residual_max:.1e}; allow \
                 more steps by --steps-max"
            )),
        }
    }
}

/// Makes the job; main gives the outcome to `then`, and fails if the result is wrong.
pub fn job_with(
    options: FemOptions,
    then: impl Fn(&FemOutcome) -> Result<(), JobError> + Send + Sync + 'static,
) -> Job {
    let plan = options.plan();
    let count = move |grid: &Grid| options.ranks(grid.layout().pe_count());
    let end = move |grid: &Grid, found: Vec<Option<Summary>>| -> Result<(), JobError> {
        let ranks = found.len() as u32;
        let summary = found.into_iter().flatten().next().ok_or("no rank has a result")?;
        let outcome = FemOutcome::new(&plan, summary, ranks, grid.layout().pe_count());
        then(&outcome)?;
        match outcome.problem() {
            None => Ok(()),
            Some(problem) => Err(format!("verified: no ({problem})").into()),
        }
    };
    ranks::job_then_with::<FemRank, Plan>("fem", plan, count, move |_| plan, end).limits(limits())
}

/// Prints the outcome.
fn report(outcome: &FemOutcome) -> Result<(), JobError> {
    let FemOutcome { nodes, triangles, unknowns, ranks, pes, cut_edges, imbalance, .. } = outcome;
    println!(
        "{unknowns} unknowns on {nodes} nodes and {triangles} triangles; {ranks} ranks on {pes} \
         PEs, {cut_edges} edges cut, imbalance {imbalance:.3}"
    );
    let FemOutcome { received, steps, time, residual, residual_max, error, error_max, .. } =
        outcome;
    let step = time.as_secs_f64() / f64::from((*steps).max(1));
    println!(
        "{steps} steps, {:.3} s, {:.3} ms and {received} values received a step",
        time.as_secs_f64(),
        step * 1e3
    );
    if outcome.problem().is_none() {
        println!(
            "verified: yes (residual {residual:.1e} of at most {residual_max:.1e}, error \
             {error:.1e} of at most {error_max:.1e})"
        );
    }
    Ok(())
}
