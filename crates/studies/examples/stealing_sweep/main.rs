//! Compares the default stealing policy with every other, over jobs, grids and latencies, in
//! virtual time.
//!
//! `cargo run --release -p gridspan-studies --example stealing_sweep -- --random 100 --seed 7`
//!
//! One JSON object per cell goes to standard output: the job, the grid, the median time of each
//! policy in milliseconds over `--seeds` runs, the time of the first site alone, where the job
//! starts, and the ratios of the first policy to the best other one and to the first site alone.
//! The last object is a summary. Every run is checked against the known count of its job.
//! `--random` adds cells whose job and grid are drawn from `--seed`: the same seed gives the same
//! cells on every machine.

mod cell;
mod grids;
mod random_tree;
mod summary;
mod workload;

use cell::{Cell, measure};
use clap::Parser;
use grids::SHAPES;
use gridspan_balance::stealing::STEALING_POLICIES;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use summary::Summary;
use workload::Workload;

#[derive(Clone, Debug, Parser)]
struct Options {
    /// Jobs: fib:N, queens:N, mandelbrot:SIZE, uts:TREE; none with an empty value.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "fib:24,fib:30,queens:13,mandelbrot:512,uts:T1"
    )]
    jobs: Vec<String>,
    /// Latencies between sites, one way, in milliseconds.
    #[arg(long, value_delimiter = ',', default_value = "1,2,5,10,20,50,100")]
    wan_ms: Vec<f64>,
    /// Sites with their numbers of nodes, such as 2x8 or 60+4+4+4.
    #[arg(long, value_delimiter = ',', default_values_t = SHAPES.map(str::to_owned))]
    grids: Vec<String>,
    /// Number of random cells to add.
    #[arg(long, default_value_t = 0)]
    random: usize,
    /// Seed of the random cells.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Policies; the first is compared with the others.
    #[arg(long, value_delimiter = ',', default_values_t = STEALING_POLICIES.iter().map(|&name| name.to_owned()))]
    policies: Vec<String>,
    /// Runs per policy and cell, of which the median counts.
    #[arg(long, default_value_t = 5)]
    seeds: u64,
    /// Run only the cell of this number, counted from 0 in the order of the table.
    #[arg(long)]
    cell: Option<usize>,
    /// Use only this number of first sites of each grid: 1 shows how work spreads inside a site.
    #[arg(long)]
    sites: Option<usize>,
    /// Threads that run simulations.
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), String> {
    let cells = cells(options)?;
    let next = AtomicUsize::new(0);
    let done = Mutex::new((BTreeMap::new(), 0, Summary::default()));
    let work = || -> Result<(), String> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(cell) = cells.get(number) else { return Ok(()) };
            let measured = measure(cell, &options.policies, options.seeds)?;
            let mut done = done.lock().map_err(|_| "another thread has failed")?;
            let (waiting, printed, summary) = &mut *done;
            summary.add(&measured);
            waiting.insert(number, measured);
            // Lines are printed in the order of cells, not in the order in which they are measured.
            while let Some(measured) = waiting.remove(printed) {
                println!("{}", measured.json(&options.policies));
                *printed += 1;
            }
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..options.threads.max(1)).map(|_| scope.spawn(work)).collect();
        let ends = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err("a simulation has panicked".to_owned()))
        });
        ends.collect::<Result<Vec<()>, String>>()
    })?;
    let (.., summary) = done.into_inner().map_err(|_| "another thread has failed")?;
    println!("{}", summary.json(options.seed));
    Ok(())
}

fn cells(options: &Options) -> Result<Vec<Cell>, String> {
    let mut cells = Vec::new();
    for job in options.jobs.iter().filter(|job| !job.is_empty()) {
        let workload = Workload::parse(job)?;
        for grid in &options.grids {
            for &wan_ms in &options.wan_ms {
                cells.push(Cell { workload: workload.clone(), grid: grids::grid(grid, wan_ms)? });
            }
        }
    }
    for number in 0..options.random as u64 {
        cells.push(Cell::random(options.seed, number)?);
    }
    for cell in &mut cells {
        if let Some(count) = options.sites {
            cell.grid = cell.grid.first(count)?;
        }
    }
    match options.cell {
        None => Ok(cells),
        Some(number) if number < cells.len() => Ok(vec![cells.swap_remove(number)]),
        Some(number) => Err(format!("there are {} cells; number {number} is not one", cells.len())),
    }
}
