//! Branch and bound by tasks of Gridspan, by rayon and by a single thread: the same searches of the
//! same instances with the same bounds. All branches of a search share the best known value.
//!
//! The three take turns, so that other load on the machine affects all equally, and each must find
//! the optimum: a published one, or that of dynamic programming. The number of choices that a
//! search looks at depends on when it finds good values, so the output has both times and choices.
//!
//! `cargo run --release -p gridspan-studies --example branch_and_bound [-- --workers 2 --rounds 7]`

use clap::Parser;
use gridspan_jobs::knapsack::Choice;
use gridspan_jobs::tsp::{Path, ShortestTour};
use gridspan_kernels::knapsack::{Instance, PartialPacking};
use gridspan_kernels::tsp::{Best, PartialTour, Sample};
use gridspan_runtime::driver::embedded;
use gridspan_runtime::{Job, Search};
use rayon::prelude::*;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

#[derive(Parser)]
struct Options {
    /// PEs of Gridspan, and threads of rayon.
    #[arg(long, default_value_t = 2)]
    workers: u32,
    /// Rounds of measurements; the median of an odd number of them is a measured value.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Items of the generated knapsack.
    #[arg(long, default_value_t = 70, value_parser = clap::value_parser!(u32).range(1..=200))]
    items: u32,
}

/// The result and the cost of one search.
struct Found {
    value: u64,
    examined: u64,
    elapsed: Duration,
}

/// A way to search, with its name.
type Way<'a> = (&'static str, Box<dyn Fn() -> Result<Found, String> + 'a>);

fn main() -> ExitCode {
    match compare(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

fn compare(options: &Options) -> Result<(), String> {
    let Options { workers, rounds, items } = *options;
    let threads = rayon::ThreadPoolBuilder::new().num_threads(workers as usize).build();
    let threads = threads.map_err(|error| error.to_string())?;
    println!("{workers} workers, medians of {rounds} rounds");
    println!("{:<24} {:<10} {:>10} {:>12}  / RAYON", "INSTANCE", "BY", "TIME, ms", "LOOKED AT");
    for name in ["burma14", "gr17", "ulysses16"] {
        let (root, sample) = PartialTour::first(name, 9).ok_or("there is no such sample")?;
        let ways: [Way<'_>; 3] = [
            (
                "gridspan",
                Box::new(move || {
                    by_tasks(Path(root), workers, |best: &ShortestTour| tour_of(&best.0))
                }),
            ),
            ("rayon", Box::new(|| threads.install(|| tour_by_rayon(root, sample)))),
            ("one thread", Box::new(|| tour_alone(root, sample))),
        ];
        table(&format!("tsp {name}"), sample.optimum.into(), rounds, &ways)?;
    }
    let drawn = format!("knapsack of {items}, drawn");
    for (name, items) in [("knapsack P08, published", None), (drawn.as_str(), Some(items))] {
        let make = || items.map_or_else(Instance::published, |items| Instance::drawn(items, 1));
        let optimum = items.map_or(Instance::PUBLISHED_OPTIMUM, |_| make().best_by_table());
        let root = PartialPacking::none(make(), 16);
        let ways: [Way<'_>; 3] = [
            (
                "gridspan",
                Box::new(|| {
                    let root = Choice(root.clone());
                    by_tasks(root, workers, |best| (best.profit(), best.examined()))
                }),
            ),
            ("rayon", Box::new(|| threads.install(|| Ok(profit_by_rayon(&root))))),
            ("one thread", Box::new(|| Ok(profit_alone(&root)))),
        ];
        table(name, optimum, rounds, &ways)?;
    }
    Ok(())
}

/// Measures all ways in turn, and prints a row for each.
fn table(instance: &str, optimum: u64, rounds: u32, ways: &[Way<'_>]) -> Result<(), String> {
    let mut all: Vec<Vec<Found>> = ways.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds {
        for ((name, search), found) in ways.iter().zip(&mut all) {
            let new = search()?;
            if new.value != optimum {
                return Err(format!("{instance} by {name}: {} is not {optimum}", new.value));
            }
            found.push(new);
        }
    }
    let medians: Vec<(f64, u64)> = all.iter_mut().map(|found| median(found)).collect();
    let peer = medians.get(1).map_or(f64::NAN, |(time, _)| *time);
    for ((name, _), (ms, examined)) in ways.iter().zip(medians) {
        let ratio = ms / peer;
        println!("{instance:<24} {name:<10} {ms:>10.3} {examined:>12}  {ratio:>7.2}");
    }
    Ok(())
}

/// Returns the median time in milliseconds, and the number of choices of that run.
fn median(found: &mut [Found]) -> (f64, u64) {
    found.sort_by_key(|found| found.elapsed);
    let middle = &found[found.len() / 2];
    (middle.elapsed.as_secs_f64() * 1e3, middle.examined)
}

/// Runs a search in a pool of tasks; the time excludes the start of the job.
fn by_tasks<S: Search>(
    root: S,
    pes: u32,
    tell: impl Fn(&S::Total) -> (u64, u64) + Send + 'static,
) -> Result<Found, String> {
    let (send, receive) = mpsc::channel();
    let job = Job::new("branch-and-bound").search::<S>().main(async move |grid| {
        let pool = grid.search_pool::<S>().await?;
        let begin = Instant::now();
        let total = pool.run(root).await?;
        let elapsed = begin.elapsed();
        let (value, examined) = tell(&total);
        // The receiver exists until the job is over.
        let _ = send.send(Found { value, examined, elapsed });
        Ok(())
    });
    embedded::run(job, pes).map_err(|error| error.to_string())?;
    receive.recv().map_err(|error| error.to_string())
}

/// Measures a search without tasks: serial, or with rayon.
fn timed(search: impl FnOnce() -> (u64, u64)) -> Found {
    let begin = Instant::now();
    let (value, examined) = search();
    Found { value, examined, elapsed: begin.elapsed() }
}

fn tour_of(best: &Best) -> (u64, u64) {
    (best.length.into(), best.examined)
}

fn tour_by_rayon(root: PartialTour, sample: &Sample) -> Result<Found, String> {
    fn visit(path: PartialTour, sample: &Sample, shortest: &AtomicU32) -> Best {
        let mut share = |length: u32| match length {
            u32::MAX => shortest.load(Ordering::Relaxed),
            length => shortest.fetch_min(length, Ordering::SeqCst).min(length),
        };
        let mut best = Best { examined: 1, ..Best::default() };
        let known = share(u32::MAX);
        if path.lower(sample) >= known {
            return best;
        }
        if path.is_small(sample) {
            best.examined = 0;
            path.finish(sample, &mut best, &mut share);
            return best;
        }
        let next = path.split(sample, known).into_par_iter();
        let below = next.map(|path| visit(path, sample, shortest)).reduce(Best::default, merged);
        merged(best, below)
    }
    let shortest = AtomicU32::new(u32::MAX);
    Ok(timed(|| tour_of(&visit(root, sample, &shortest))))
}

fn merged(mut one: Best, other: Best) -> Best {
    one.merge(other);
    one
}

fn tour_alone(root: PartialTour, sample: &Sample) -> Result<Found, String> {
    let (mut shortest, mut best) = (u32::MAX, Best::default());
    Ok(timed(|| {
        root.finish(sample, &mut best, &mut |length| {
            shortest = shortest.min(length);
            shortest
        });
        tour_of(&best)
    }))
}

fn profit_by_rayon(root: &PartialPacking) -> Found {
    fn visit(choice: &PartialPacking, best: &AtomicU64) -> u64 {
        let mut share = |profit: u64| best.fetch_max(profit, Ordering::SeqCst).max(profit);
        if choice.is_small() {
            return choice.finish(&mut share);
        }
        let known = share(choice.profit());
        let next: Vec<PartialPacking> = choice.split(known).collect();
        // The more promising choice comes last and must be visited first.
        next.par_iter().rev().map(|choice| visit(choice, best)).sum::<u64>() + 1
    }
    let best = AtomicU64::new(0);
    timed(|| {
        let examined = visit(root, &best);
        (best.load(Ordering::SeqCst), examined)
    })
}

fn profit_alone(root: &PartialPacking) -> Found {
    let mut best = 0;
    timed(|| {
        let examined = root.finish(&mut |profit| {
            best = best.max(profit);
            best
        });
        (best, examined)
    })
}
