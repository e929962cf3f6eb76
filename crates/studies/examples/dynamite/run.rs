//! Runs of a program in the simulator, under the load of other programs.

use super::profile::{LATENCY, MESSAGE_BYTES, Profile};
use super::task::{Message, Plan, Task};
use gridspan_balance::{BalanceReport, StrategyName};
use gridspan_runtime::{Ix1, Job, Op, Placement};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::{GridSpec, HostSpec, Latency, Link, SiteSpec};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Interval at which the runtime checks whether an actor should move.
const LOOK: Duration = Duration::from_secs(1);

/// An interval in which processes of other users compute on a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Episode {
    /// The node, from 0.
    pub(crate) node: u32,
    /// Start in seconds.
    pub(crate) from: f64,
    /// End in seconds.
    pub(crate) until: f64,
    /// Number of processes of other users.
    pub(crate) processes: u32,
}

/// The outcome of a run.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// Run time.
    pub(crate) time: Duration,
    /// Number of migrations of tasks.
    pub(crate) moves: u64,
    /// The time and the outcome of each plan that was carried out.
    pub(crate) plans: Vec<String>,
}

/// Returns the load of the paper: one process, which stays on one node after the other, for
/// three times the run time without load in all.
pub(crate) fn cycle(profile: &Profile) -> Vec<Episode> {
    let stay = profile.stay.as_secs_f64();
    let turns = (profile.alone.as_secs_f64() * 3.0 / stay).ceil() as u32;
    let turn = |turn: u32| Episode {
        node: turn % profile.cycle,
        from: stay * f64::from(turn),
        until: stay * f64::from(turn + 1),
        processes: 1,
    };
    (0..turns).map(turn).collect()
}

/// Runs a program with a strategy under a load; all links have the bandwidth `lan`.
///
/// # Errors
/// If the job failed.
pub(crate) fn run(
    profile: &Profile,
    strategy: &str,
    load: &[Episode],
    lan: gridspan_topology::Bandwidth,
) -> Result<Outcome, String> {
    let (work, rounds) = profile.rounds();
    let plan = Plan {
        tasks: profile.tasks,
        work,
        rounds,
        is_silent: profile.is_silent(),
        bytes: profile.bytes,
        message_bytes: MESSAGE_BYTES,
    };
    let balances = Arc::new(Mutex::new((0, Vec::new())));
    let told = balances.clone();
    let job = Job::new("dynamite")
        .actor::<Task>()
        .strategy(strategy.parse::<StrategyName>().expect("it is a name"))
        .balance_every(LOOK)
        .on_balance(move |report: &BalanceReport| {
            let (moves, plans) = &mut *told.lock().unwrap_or_else(PoisonError::into_inner);
            *moves += report.moved;
            if report.moved > 0 {
                plans.push(format!("{} {report}", report.at));
            }
        })
        .main(async move |grid| {
            let indices = Ix1::range(plan.tasks);
            let tasks =
                grid.create_placed::<Task>(Placement::RoundRobin, indices, |_| plan).await?;
            tasks.broadcast(Message::Compute);
            let sums: Vec<u64> = tasks.reduction(Op::Sum).await?;
            let memories = (0..plan.tasks).map(|task| plan.memory_sum(task as i32)).sum();
            let rounds = u64::from(plan.tasks) * plan.rounds;
            if sums != [memories, rounds, plan.messages()] {
                return Err(format!("verified: no ({sums:?})").into());
            }
            Ok(())
        });
    let options = SimOptions::default().with_processors(1);
    let report = Simulation::new(job, grid(profile, load, lan)?, options)
        .map_err(|error| error.to_string())?
        .run();
    report.outcome.map_err(|error| error.to_string())?;
    let (moves, plans) =
        std::mem::take(&mut *balances.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(Outcome { time: Duration::from_nanos(report.virtual_time.as_nanos()), moves, plans })
}

fn grid(
    profile: &Profile,
    load: &[Episode],
    lan: gridspan_topology::Bandwidth,
) -> Result<GridSpec, String> {
    let link = Link::new(Latency(LATENCY), lan);
    let hosts = (0..profile.nodes).map(|node| HostSpec::new(host(node), profile.pes)).collect();
    let site = SiteSpec::new("site", hosts, link);
    let mut spec = GridSpec::new(vec![site]).map_err(|error| error.to_string())?;
    for &Episode { node, from, until, processes } in load {
        for (at, processes) in [(from, processes), (until, 0)] {
            let change = format!("at {:.0}ms node {} load={processes}", at * 1e3, host(node));
            spec = spec.with_change(&change).map_err(|error| error.to_string())?;
        }
    }
    Ok(spec)
}

fn host(node: u32) -> String {
    format!("n{node}")
}
