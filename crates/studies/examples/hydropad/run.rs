//! One run of Hydropad: its machines, its way of calling, and its cost.

use gridspan_jobs::hydropad::functions::{BARYONS, DARK, GRAVITY, Hydropad};
use gridspan_jobs::hydropad::grouped::{self, InitialState};
use gridspan_jobs::hydropad::job::serve;
use gridspan_jobs::hydropad::plain;
use gridspan_kernels::hydropad::clock::{HydroRun, HydroStep};
use gridspan_kernels::hydropad::outcome::HydroOutcome;
use gridspan_kernels::hydropad::problem::Problem;
use gridspan_rpc::calls::{RpcError, with_rpc};
use gridspan_rpc::group::Mapper;
use gridspan_runtime::driver::embedded;
use gridspan_runtime::{Grid, Job, Numbers};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::{Bandwidth, GridSpec, HostSpec, Latency, Link, SiteSpec};
use gridspan_workflow::heuristics::by_name;
use std::sync::mpsc;

/// Speeds of the paper's servers (section 6), in MFlops.
const SERVERS: [f64; 2] = [498.0, 531.0];
/// Speed of the paper's client, in MFlops.
const CLIENT: f64 = 248.0;
/// Bandwidth between the servers, in Mbit/s.
const BETWEEN: u32 = 1000;
/// Latency between all three machines, which are in one building.
const LATENCY: Latency = Latency::from_micros(100);
/// Number of eight-byte values of particles, gas, potential and density for each cell.
const NUMBERS_PER_CELL: f64 = 6.0 + 6.0 + 1.0 + 1.0;

/// The problem and the machines of a run.
#[derive(Clone)]
pub(crate) struct Setup {
    /// Number of cells, and of particles, along an edge.
    pub(crate) edge: u32,
    /// Bandwidth of the client's link, in Mbit/s.
    pub(crate) link: u32,
    pub(crate) steps: u32,
    pub(crate) window: u32,
    pub(crate) slower: f64,
    pub(crate) heuristic: String,
    pub(crate) real: bool,
}

/// The way of calling tasks.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum How {
    /// One by one.
    Plain,
    /// As a group whose initial state the client sends.
    Sent,
    /// As a group whose initial state servers create.
    Made,
}

/// The cost of a run.
pub(crate) struct Measured {
    /// Time of the whole run divided by the steps, in seconds.
    pub(crate) step_s: f64,
    /// Time of a step of the windows after the first, in seconds.
    pub(crate) settled_s: f64,
    /// Bytes that the client sent and received, per step.
    pub(crate) client_bytes_per_step: f64,
    /// Maximum number of bytes that the client of a group kept in its first window, and in any
    /// later one.
    pub(crate) held_bytes: [u64; 2],
    pub(crate) digests: [u64; 2],
}

/// Returns the size of a problem in MB.
pub(crate) fn size_mb(edge: u32) -> f64 {
    f64::from(edge).powi(3) * NUMBERS_PER_CELL * 8.0 / 1e6
}

/// Returns the time of a step on the client alone, by the performance models.
pub(crate) fn alone_s(edge: u32, slower: f64) -> f64 {
    let count = edge.pow(3) as usize;
    let (field, vectors) = (Numbers::from(vec![0.0; count]), Numbers::from(vec![[0.0; 3]; count]));
    let problem = Problem::cube(edge, edge);
    let step = HydroStep { problem, number: 0, scale: 0.1, before: 0.0, time: 0.0 };
    let of = |work_s: Option<f64>| work_s.unwrap_or_default();
    let [gravity, dark, baryons] = [
        GRAVITY.work_s(&(field.clone(), field.clone(), step)).map(of),
        DARK.work_s(&(vectors.clone(), vectors.clone(), field.clone(), step)).map(of),
        BARYONS
            .work_s(&(field.clone(), vectors, field.clone(), field.clone(), field, step))
            .map(of),
    ]
    .map(Result::unwrap_or_default);
    (gravity + dark + baryons) * SERVERS[1] / CLIENT * slower
}

fn rate(megabits: u32) -> Bandwidth {
    Bandwidth::from_bits_per_second(u64::from(megabits) * 1_000_000)
}

/// Returns the grid. The client is a separate site, because all that it sends and receives goes
/// over one link.
fn grid(setup: &Setup) -> Result<GridSpec, String> {
    let lan = Link::new(LATENCY, rate(BETWEEN));
    let site = |name: &str, hosts: &[&str]| {
        SiteSpec::new(name, hosts.iter().map(|host| HostSpec::new(*host, 1)).collect(), lan)
    };
    let sites = vec![site("client", &["c"]), site("servers", &["s1", "s2"])];
    let spec = GridSpec::new(sites).map_err(|error| error.to_string())?;
    Ok(spec.with_wan(Link::new(LATENCY, rate(setup.link))))
}

async fn outcome(grid: &Grid, setup: &Setup, how: How) -> Result<HydroOutcome, RpcError> {
    let speeds = match setup.real {
        // In real time both servers run at the speed of this machine.
        true => [1.0; 2],
        false => SERVERS.map(|speed| speed / SERVERS[1] / setup.slower),
    };
    let services = serve(grid, &speeds).await?;
    let Setup { steps, window, link, edge, .. } = *setup;
    let plan = HydroRun { problem: Problem::cube(edge, edge), steps, window };
    let start = match how {
        How::Plain => return plain::run(grid, &services, &plan).await,
        How::Sent => InitialState::Sent,
        How::Made => InitialState::Made,
    };
    let (lan, wan) = (Link::new(LATENCY, rate(BETWEEN)), Link::new(LATENCY, rate(link)));
    let mapper = Mapper::new(&services).with_links(lan, wan);
    let heuristic = by_name(&setup.heuristic, 0);
    let heuristic = heuristic.map_err(|error| RpcError::Other { reason: error.to_string() })?;
    grouped::run(grid, &mapper, &*heuristic, &plan, start).await
}

/// Runs the job and checks its result.
pub(crate) fn measure(setup: &Setup, how: How) -> Result<Measured, String> {
    let (tell, told) = mpsc::channel();
    let of_main = setup.clone();
    let job = with_rpc::<Hydropad>(Job::new("hydropad")).main(async move |grid: Grid| {
        let outcome = outcome(&grid, &of_main, how).await.map_err(|error| error.to_string())?;
        tell.send(outcome).map_err(|_| "the receiver is gone")?;
        Ok(())
    });
    let spec = grid(setup)?;
    let client_bytes = match setup.real {
        true => {
            let carried = embedded::run_emulated_counted(job, &spec);
            let carried = carried.map_err(|error| error.to_string())?;
            carried.first().map_or(0, |client| client.sent + client.received)
        }
        false => {
            let simulation = Simulation::new(job, spec, SimOptions::default());
            let report = simulation.map_err(|error| error.to_string())?.run();
            report.outcome.map_err(|error| error.to_string())?;
            report.wide_area_bytes
        }
    };
    let outcome = told.recv().map_err(|_| "main has sent nothing".to_owned())?;
    let faults = outcome.faults();
    if !faults.is_empty() {
        return Err(faults.join("; "));
    }
    let steps = f64::from(outcome.steps());
    Ok(Measured {
        step_s: outcome.took().as_secs_f64() / steps,
        settled_s: outcome.settled_step().as_secs_f64(),
        client_bytes_per_step: client_bytes as f64 / steps,
        held_bytes: {
            let held = outcome.held_bytes.iter().copied();
            [held.clone().take(1).max(), held.skip(1).max()].map(Option::unwrap_or_default)
        },
        digests: outcome.end.digests,
    })
}
