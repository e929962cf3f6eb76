//! Runs in virtual time stay the same, event by event, unless a change intends otherwise.
//!
//! `runs.txt` has one line for each run: a hash over all packets (time, source, destination,
//! bytes), the number of events, the number of handled messages, the virtual time at its end, and
//! its name. Every run also has to succeed: the built-in jobs verify their results, and the
//! campaign checks that each message is handled exactly once.
//!
//! A commit that changes lines explains why. To store new ones:
//!
//! ```text
//! STORE_DIGESTS=1 cargo test --test digests
//! ```
#![allow(clippy::unwrap_used)]

use gridspan_runtime::Job;
use gridspan_sim::campaign::{Planted, Scenario, run_scenario};
use gridspan_sim::{SimOptions, SimReport, Simulation};
use gridspan_topology::GridSpec;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Number of seeds of the campaign.
const SEEDS: u64 = 20;
/// Number of virtual seconds during which each seed starts new operations.
const SECONDS: u64 = 4;

/// Jobs with arguments that keep them short.
const JOBS: &[(&str, &str)] = &[
    ("bcast", "--bytes 8B,20kB,300kB --rounds 12 --root 3"),
    ("bcast", "--bytes 8B,20kB --rounds 12 --root 3 --unordered"),
    ("drill", "--lines 2 --migrations 200"),
    ("fem", "--size 12 --form redundant"),
    ("fem", "--problem elasticity --size 10 --ranks 5 --exchange gather"),
    ("fib", "--n 22"),
    ("hydropad", "--n 16 --steps 4 --window 2"),
    ("jacobi", "--dims 3 --size 12 --steps 20 --check 10"),
    ("knapsack", "--items 30"),
    ("leanmd", "--steps 12"),
    ("mandelbrot", "--size 64 --steps 200"),
    ("nas", "is --ranks 6"),
    ("nas", "cg --ranks 6"),
    ("pic", "--cells 96 --particles 4000 --steps 20 --blocks 6 --sync-every 5"),
    ("pingpong", "--seconds 0.01 --max-bytes 65536"),
    ("queens", "--n 9 --grain 4"),
    ("ranks", "--bytes 8B,100kB --ranks 6 --seconds 0.01"),
    ("ring", "--members 16 --rounds 3"),
    ("stencil", "--n 128 --blocks 4 --iterations 20 --sync-every 5"),
    ("tsp", ""),
    ("uts", "--tree T1"),
];
/// The grids on which each job runs.
const GRIDS: &[&str] = &["1x4", "2x2,wan=5ms", "3x3,wan=20ms,rate=100mbit"];

/// A run, identified by its parameters.
enum Run {
    Campaign(u64),
    Job { name: &'static str, arguments: &'static str, grid: &'static str },
}

impl Run {
    fn all() -> Vec<Self> {
        let on_grids = |&(name, arguments): &(&'static str, &'static str)| {
            GRIDS.iter().map(move |&grid| Self::Job { name, arguments, grid })
        };
        (0..SEEDS).map(Self::Campaign).chain(JOBS.iter().flat_map(on_grids)).collect()
    }

    fn name(&self) -> String {
        match self {
            Self::Campaign(seed) => format!("campaign {seed}"),
            Self::Job { name, arguments, grid } => {
                format!("{grid} {name} {arguments}").trim_end().to_owned()
            }
        }
    }

    fn report(&self) -> SimReport {
        match *self {
            Self::Campaign(seed) => {
                let scenario = Scenario::new(seed, Duration::from_secs(SECONDS), Planted::None);
                let (report, _, problem) = run_scenario(&scenario, false);
                assert_eq!(problem, None, "{}", self.name());
                report
            }
            Self::Job { name, arguments, grid } => {
                let arguments: Vec<String> =
                    arguments.split_whitespace().map(str::to_owned).collect();
                let entry = gridspan_jobs::find(name).unwrap();
                let job: Job = (entry.build)(&arguments).unwrap();
                let spec = GridSpec::from_emulate(grid).unwrap();
                let report = Simulation::new(job, spec, SimOptions::default()).unwrap().run();
                assert_eq!(report.outcome, Ok(()), "{}", self.name());
                report
            }
        }
    }

    fn line(&self) -> String {
        let SimReport { events, messages, virtual_time, log_hash, .. } = self.report();
        format!("{log_hash:016x} {events} {messages} {} {}", virtual_time.as_nanos(), self.name())
    }
}

/// Returns the lines of all runs.
fn lines() -> Vec<String> {
    let runs = Run::all();
    let (next, lines) = (AtomicUsize::new(0), Mutex::new(vec![String::new(); runs.len()]));
    let work = || {
        while let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let line = run.line();
            let at = runs.iter().position(|other| std::ptr::eq(other, run)).unwrap();
            lines.lock().unwrap()[at] = line;
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    lines.into_inner().unwrap()
}

fn stored() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/digests/runs.txt")
}

#[test]
fn every_built_in_job_has_a_digest() {
    for entry in gridspan_jobs::ENTRIES {
        assert!(JOBS.iter().any(|(name, _)| *name == entry.name), "no digest of {}", entry.name);
    }
}

#[test]
fn runs_equal_the_stored_ones() {
    let lines = lines();
    if std::env::var_os("STORE_DIGESTS").is_some() {
        std::fs::write(stored(), lines.join("\n") + "\n").unwrap();
        return;
    }
    let stored = std::fs::read_to_string(stored()).unwrap();
    let stored: Vec<&str> = stored.lines().collect();
    let changed = lines.iter().filter(|line| !stored.contains(&line.as_str()));
    let changed: Vec<&str> = changed.map(String::as_str).collect();
    assert!(
        changed.is_empty() && lines.len() == stored.len(),
        "{} of {} runs have changed (hash, events, messages, ns of virtual time, run):\n  {}\n\
         If this is intended, say why in the commit, and store them: STORE_DIGESTS=1 cargo test --test digests",
        changed.len(),
        lines.len(),
        changed.join("\n  ")
    );
}
