//! Counts the nodes of a published tree with many seeds, while guests join, leave, die and are
//! wrongly reported as dead.
//!
//! `cargo run --release -p gridspan-studies --example guests -- --seeds 500`
//!
//! Each seed draws a grid, a policy, network faults and six guests. Every run must find the
//! published count, and a second run of the same seed must be identical, packet by packet.
//!
//! - `--seeds N` or `--seeds A..B`: the seeds, at least one. Default 0..20.
//! - `--threads T`: number of threads, at least 1. Default one per core.

use gridspan_balance::stealing::{STEALING_POLICIES, StealingPolicyName};
use gridspan_jobs::uts::{Visit, VisitedNodes};
use gridspan_runtime::{GuestEvent, Job, JobError, SiteId};
use gridspan_sim::{
    Departure, FaultPlan, GuestPlan, PauseFaults, SessionFaults, SimOptions, SimReport, Simulation,
};
use gridspan_topology::dice::Dice;
use gridspan_topology::{GridSpec, Latency, Layout, Link};
use std::ops::{AddAssign, Range};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The published tree, a geometric one of 4,130,071 nodes.
const TREE: &str = "T1";
const GUESTS: u64 = 6;

fn main() -> ExitCode {
    let (seeds, threads) = match options(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("{problem}; see the head of examples/guests.rs for the options");
            return ExitCode::from(2);
        }
    };
    let begin = Instant::now();
    let (next, sum) = (AtomicU64::new(seeds.start), Mutex::new(Ok(Sum::default())));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| work(&next, seeds.end, &sum));
        }
    });
    match sum.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Ok(sum) => {
            println!("{sum}\n  {:.1} s on {threads} threads", begin.elapsed().as_secs_f64());
            ExitCode::SUCCESS
        }
        Err(problem) => {
            println!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn work(next: &AtomicU64, end: u64, sum: &Mutex<Result<Sum, String>>) {
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end {
            return;
        }
        let found = check(seed);
        let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
        match (&mut *sum, found) {
            (Ok(sum), Ok(found)) => *sum += found,
            (Ok(_), Err(problem)) => {
                *sum = Err(format!("{problem}; repeat it with --seeds {seed}..{}", seed + 1));
                return;
            }
            (Err(_), _) => return,
        }
    }
}

/// Totals over all seeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    seeds: u64,
    joined: u64,
    left: u64,
    lost: u64,
    disconnects: u64,
}

impl AddAssign for Sum {
    fn add_assign(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.joined += other.joined;
        self.left += other.left;
        self.lost += other.lost;
        self.disconnects += other.disconnects;
    }
}

impl std::fmt::Display for Sum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { seeds, joined, left, lost, disconnects } = self;
        write!(
            f,
            "{seeds} seeds, each run twice: every count of {TREE} as published, every run the same again\n  \
             {joined} guests joined, {left} left, {lost} were lost; {disconnects} connections broke"
        )
    }
}

/// Runs a seed twice and compares the runs.
fn check(seed: u64) -> Result<Sum, String> {
    let (report, sum) = run(seed)?;
    let (again, _) = run(seed)?;
    if report.log_hash != again.log_hash {
        return Err(format!("seed {seed} has two outcomes"));
    }
    Ok(sum)
}

fn run(seed: u64) -> Result<(SimReport, Sum), String> {
    let mut dice = Dice::new(seed);
    let spec = grid(&mut dice)?;
    let policy = dice.one_of(STEALING_POLICIES);
    let events = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&events);
    let job = Job::new("guests")
        .search::<Visit>()
        .stealing(policy.parse::<StealingPolicyName>().expect("it is a name"))
        .seed(seed)
        .tolerate_lost_guests(true)
        .on_guests(move |event| {
            told.lock().unwrap_or_else(PoisonError::into_inner).push(event.clone());
        })
        .main(async |grid| {
            let (root, sample) = Visit::root(TREE).ok_or("there is no such tree")?;
            let VisitedNodes(census) = grid.run_search(root).await?;
            if census != sample.census {
                return Err(format!("{census:?} instead of {:?}", sample.census).into());
            }
            Ok::<(), JobError>(())
        });
    let options = SimOptions::with_seed(seed)
        .with_faults(faults(&mut dice))
        .with_guests(guests(&mut dice, spec.layout().site_count()))
        .with_silence(up_to_ms(&mut dice, 50));
    let simulation = Simulation::new(job, spec, options).map_err(|error| error.to_string())?;
    let report = simulation.run();
    if let Err(error) = &report.outcome {
        return Err(format!("seed {seed} under {policy}: {error}"));
    }
    let events = events.lock().unwrap_or_else(PoisonError::into_inner);
    let count = |is_it: fn(&GuestEvent) -> bool| events.iter().filter(|event| is_it(event)).count();
    let sum = Sum {
        seeds: 1,
        joined: count(|event| matches!(event, GuestEvent::Joined { .. })) as u64,
        left: count(|event| matches!(event, GuestEvent::Left { .. })) as u64,
        lost: count(|event| matches!(event, GuestEvent::Lost { .. })) as u64,
        disconnects: report.faults.disconnects,
    };
    Ok((report, sum))
}

/// Returns a grid of one to three sites of one to three nodes of one or two PEs.
fn grid(dice: &mut Dice) -> Result<GridSpec, String> {
    let mut site = |name: &str| {
        let nodes = (0..=dice.below(3_u32)).map(|_| 1 + dice.below(2_u32)).collect();
        (name.to_owned(), nodes)
    };
    let mut sites = vec![site("a"), site("b"), site("c")];
    sites.truncate(1 + dice.below(3_usize));
    let wan = Link::wan().with_latency(Latency::from_millis(1 + dice.below(20_u64)));
    let spec = GridSpec::from_layout(&Layout::new(sites)).map_err(|error| error.to_string())?;
    Ok(spec.with_wan(wan))
}

/// Returns the faults of a run: delays in every run, broken connections in two of three runs, and
/// pauses of nodes in two of three runs.
fn faults(dice: &mut Dice) -> FaultPlan {
    let sessions = SessionFaults::default().with_outage_max(Duration::from_millis(30));
    let pauses = PauseFaults::new(0.001, Duration::from_millis(10));
    FaultPlan::default()
        .with_local_delay(0.02)
        .with_delay_max(Duration::from_millis(2))
        .with_reorder(dice.chance(0.5))
        .with_sessions((dice.below(3_u32) > 0).then_some(sessions))
        .with_pauses((dice.below(3_u32) > 0).then_some(pauses))
}

fn guests(dice: &mut Dice, sites: u32) -> Vec<GuestPlan> {
    let plan = |_| {
        let joins = up_to_ms(dice, 60);
        let how = match dice.below(5_u32) {
            0 => None,
            1 | 2 => Some(Departure::Leaves),
            3 => Some(Departure::Killed),
            _ => Some(Departure::Mistaken),
        };
        let departs = how.map(|how| (joins + up_to_ms(dice, 60), how));
        let site = SiteId(dice.below(sites));
        GuestPlan::new(site, 1 + dice.below(3_u32), joins).with_departure(departs)
    };
    (0..GUESTS).map(plan).collect()
}

fn up_to_ms(dice: &mut Dice, milliseconds: u64) -> Duration {
    Duration::from_micros(dice.below(milliseconds * 1000))
}

fn options(mut args: impl Iterator<Item = String>) -> Result<(Range<u64>, usize), String> {
    let number = |text: &str| text.parse().map_err(|_| format!("{text} is not a number"));
    let mut seeds = 0..20;
    let mut threads = thread::available_parallelism().map_or(1, usize::from);
    while let Some(option) = args.next() {
        let value = args.next().ok_or(format!("{option} needs a value"))?;
        match option.as_str() {
            "--seeds" => {
                seeds = match value.split_once("..") {
                    Some((first, end)) => number(first)?..number(end)?,
                    None => 0..number(&value)?,
                };
            }
            "--threads" => threads = number(&value)? as usize,
            _ => return Err(format!("there is no option {option}")),
        }
    }
    if seeds.is_empty() || threads == 0 {
        return Err("without a seed and a thread nothing is checked".to_owned());
    }
    Ok((seeds, threads))
}
