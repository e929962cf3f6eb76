//! The job: servers on all PEs but the first, the loop in one or all of its forms, and the check of
//! the results. A restarted main continues a group after its last window, and repeats another form
//! from the beginning.

use clap::{Parser, ValueEnum};
use gridspan_kernels::hydropad::cells::CELLS_MAX;
use gridspan_kernels::hydropad::clock::HydroRun;
use gridspan_kernels::hydropad::outcome::{End, HydroOutcome};
use gridspan_kernels::hydropad::problem::Problem;
use gridspan_kernels::hydropad::serial;
use gridspan_rpc::calls::{RpcError, ServerPlan, Services, ServicesRef, with_rpc};
use gridspan_rpc::group::Mapper;
use gridspan_runtime::{Grid, Job, JobError};
use gridspan_topology::{Bandwidth, Link};
use gridspan_workflow::heuristics::{NAMES, by_name};
use serde::{Deserialize, Serialize};

use super::functions::Hydropad;
use super::grouped::{self, GroupProgress, InitialState};
use super::plain;
use crate::entry::{Entry, parse};

const ABOUT: &str =
    "Dark matter and gas form structure: remote tasks, called one by one or as a group";

pub(crate) const ENTRY: Entry = Entry {
    name: "hydropad",
    about: ABOUT,
    build: |arguments| Ok(job(parse("hydropad", arguments)?)),
};

/// Minimum number of cells along an edge that resolves the wave.
const EDGE_MIN: i64 = 10;
/// Maximum number of cells along an edge.
const EDGE_MAX: i64 = 256;

/// How the tasks are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum ExecutionMode {
    /// In the client's process, one after the other.
    Serial,
    /// By plain GridRPC: data goes through the client.
    Plain,
    /// As a group: data stays on servers.
    Group,
    /// All three, which must agree bit for bit.
    All,
}

/// One of the forms.
#[derive(Clone, Copy)]
enum Way {
    Serial,
    Plain,
    Group,
}

impl ExecutionMode {
    fn ways(self) -> &'static [Way] {
        match self {
            Self::Serial => &[Way::Serial],
            Self::Plain => &[Way::Plain],
            Self::Group => &[Way::Group],
            Self::All => &[Way::Serial, Way::Plain, Way::Group],
        }
    }
}

/// Options of the job.
#[derive(Clone, Debug, Parser)]
#[command(name = "hydropad", about = ABOUT)]
pub struct Options {
    /// Cells along an edge of the box.
    #[arg(long, short, default_value_t = 32, value_parser = clap::value_parser!(u32).range(EDGE_MIN..=EDGE_MAX))]
    pub n: u32,
    /// Particles along an edge [default: as many as cells].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=EDGE_MAX))]
    pub particles: Option<u32>,
    /// Maximum number of time steps.
    #[arg(long, default_value_t = 20)]
    pub steps: u32,
    /// Number of steps mapped together.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub window: u32,
    /// How tasks are called.
    #[arg(long, value_enum, default_value_t = ExecutionMode::Group)]
    pub form: ExecutionMode,
    /// Where the initial state of a group is made.
    #[arg(long, value_enum, default_value_t = InitialState::Made)]
    pub start: InitialState,
    /// Heuristic that maps the group.
    #[arg(long, default_value = "portfolio", value_parser = clap::builder::PossibleValuesParser::new(NAMES))]
    pub heuristic: String,
    /// Speed of the server on each PE but the first [default: all 1].
    #[arg(long, value_delimiter = ',', value_parser = speed)]
    pub speeds: Vec<f64>,
    /// Bandwidth inside sites that the mapper assumes.
    #[arg(long, default_value = "10gbit")]
    pub lan: Bandwidth,
    /// Bandwidth between sites that the mapper assumes.
    #[arg(long, default_value = "1gbit")]
    pub wan: Bandwidth,
}

fn speed(text: &str) -> Result<f64, String> {
    let speed: f64 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
    match speed.is_finite() && speed > 0.0 {
        true => Ok(speed),
        false => Err("write a number above 0, such as 0.94".to_owned()),
    }
}

impl Options {
    fn plan(&self) -> HydroRun {
        let problem = Problem::cube(self.n, self.particles.unwrap_or(self.n));
        HydroRun { problem, steps: self.steps, window: self.window }
    }

    fn calls(&self) -> Calls {
        (self.plan(), self.form, self.start)
    }
}

/// Builds the job with these options.
pub fn job(options: Options) -> Job {
    let job = with_rpc::<Hydropad>(Job::new("hydropad"));
    job.restartable_main(async move |grid: Grid| run(&grid, &options).await)
}

/// The options that decide which calls are made.
type Calls = (HydroRun, ExecutionMode, InitialState);

/// The state of main at a progress point, besides the group that is under way. Progress points are
/// after each form, and after each window of a group.
#[derive(Serialize, Deserialize)]
struct Progress {
    calls: Calls,
    services: ServicesRef<Hydropad>,
    /// The results of the forms that are done.
    ends: Vec<End>,
}

async fn begin(grid: &Grid, options: &Options) -> Result<(Services<Hydropad>, Progress), JobError> {
    let servers = grid.layout().pe_count().saturating_sub(1).max(1);
    println!(
        "{0} x {0} x {0} cells and {1} particles per edge on {servers} servers, up to {2} steps",
        options.n,
        options.plan().problem.per_axis,
        options.steps
    );
    let surplus = options.speeds.len().saturating_sub(servers as usize);
    if surplus > 0 {
        println!("there is no server for the last {surplus} of --speeds");
    }
    let services = serve(grid, &options.speeds).await?;
    let (calls, ends) = (options.calls(), Vec::new());
    let progress = Progress { calls, services: services.reference(), ends };
    Ok((services, progress))
}

async fn run(grid: &Grid, options: &Options) -> Result<(), JobError> {
    let plan = options.plan();
    if plan.problem.per_axis < options.n {
        let reason = format!(
            "{} particles along an edge leave gaps between {} cells, which would pull like matter; \
             use at least as many",
            plan.problem.per_axis, options.n
        );
        return Err(reason.into());
    }
    let restored: Option<(Progress, Option<GroupProgress>)> = grid.restored().await?;
    let (services, mut progress, mut group) = match restored {
        Some((Progress { calls, .. }, _)) if calls != options.calls() => {
            return Err("the checkpoint was made with other options; start with those".into());
        }
        Some((progress, group)) => (Services::restored(grid, &progress.services), progress, group),
        None => {
            let (services, progress) = begin(grid, options).await?;
            (services, progress, None)
        }
    };
    for &way in options.form.ways().iter().skip(progress.ends.len()) {
        let outcome = outcome(grid, &services, way, options, (&progress, group.take())).await?;
        print(way, &outcome);
        let faults = outcome.faults();
        if !faults.is_empty() {
            return Err(format!("verified: no ({})", faults.join("; ")).into());
        }
        progress.ends.push(outcome.end);
        grid.progress(&(&progress, None::<GroupProgress>)).await?;
    }
    let ends = &progress.ends;
    if ends.windows(2).any(|pair| pair[0].digests != pair[1].digests) {
        return Err("verified: no (the forms do not agree bit for bit)".to_owned().into());
    }
    let agree = if ends.len() > 1 { ", all forms bit for bit" } else { "" };
    println!("verified: yes (mass, momentum, energy and the wave of Zel'dovich{agree})");
    Ok(())
}

/// Starts a server on every PE but that of the client, or on that PE if it is the only one.
/// `speeds` gives the speeds of the servers in order; the default is 1.
///
/// # Errors
/// If a server cannot be started.
pub async fn serve(grid: &Grid, speeds: &[f64]) -> Result<Services<Hydropad>, RpcError> {
    let services = Services::new(grid).await?;
    let layout = grid.layout();
    let first = usize::from(layout.pe_count() > 1);
    for (number, pe) in layout.pes().skip(first).enumerate() {
        let name = format!("{}/{pe}", layout.site_name(layout.site_of(pe)));
        let speed = speeds.get(number).copied().unwrap_or(1.0);
        services.join(ServerPlan::new(name, pe).with_speed(speed)).await?;
    }
    Ok(services)
}

/// Runs one form. If main was restarted within a group, the group continues from `before`; the
/// other forms run from their beginning.
async fn outcome(
    grid: &Grid,
    services: &Services<Hydropad>,
    way: Way,
    options: &Options,
    (progress, before): (&Progress, Option<GroupProgress>),
) -> Result<HydroOutcome, RpcError> {
    let plan = options.plan();
    let other = |reason: String| RpcError::Other { reason };
    match way {
        Way::Serial => serial::run(&plan).map_err(|error| other(error.to_string())),
        Way::Plain => plain::run(grid, services, &plan).await,
        Way::Group => {
            let heuristic = by_name(&options.heuristic, 0);
            let heuristic = heuristic.map_err(|error| other(error.to_string()))?;
            let lan = Link::lan().with_bandwidth(options.lan);
            let wan = Link::wan().with_bandwidth(options.wan);
            let mapper = Mapper::new(services).with_links(lan, wan);
            let saves = async |group: GroupProgress| {
                grid.progress(&(progress, Some(group))).await?;
                Ok::<(), RpcError>(())
            };
            let start = (&plan, options.start);
            grouped::run_from(grid, &mapper, &*heuristic, start, before, &saves).await
        }
    }
}

fn print(way: Way, outcome: &HydroOutcome) {
    let HydroOutcome { account, end, .. } = outcome;
    let (name, is_timed) = match way {
        Way::Serial => ("serial", false),
        Way::Plain => ("plain", true),
        Way::Group => ("group", true),
    };
    let time = match is_timed {
        false => String::new(),
        true => format!(
            " in {:.3} s, {:.3} ms a step after the first window",
            outcome.took().as_secs_f64(),
            outcome.settled_step().as_secs_f64() * 1e3
        ),
    };
    println!("{name}: {} steps to a scale factor of {:.3}{time}", outcome.steps(), end.scale);
    println!(
        "  mass off by {:.1e}, momentum by {:.1e}, energy by {:.1e}; particles {:.3} cells off",
        account.mass_error(),
        account.momentum_error(),
        account.energy_error(),
        end.error
    );
    if account.fast_steps() > 0 {
        println!(
            "  the gas was faster than foreseen in the last step of {} of the windows",
            account.fast_steps()
        );
    }
    println!("  digests {:016x} {:016x}", end.digests[0], end.digests[1]);
}

const _: () = assert!((EDGE_MAX as usize).pow(3) <= CELLS_MAX);
