//! The NAS kernels on ranks: parallel efficiency on two PEs, and the cost of four times as many
//! ranks as PEs.
//!
//! ```text
//! cargo run --release -p gridspan-studies --example nas_ranks
//! ```
//!
//! For each kernel, one rank alone, two such programs at the same time, two ranks on two PEs, and
//! eight ranks on two PEs take turns. All rates are Mop/s as NPB counts them. The efficiency is the
//! rate on two PEs over twice that of one rank. Two independent programs show what the machine's
//! memory and caches leave to two cores: no parallel program can be much faster than they are
//! together. Each figure is the median over the rounds, of the ratio in each round.
//!
//! The last column gives the least share of the machine's memory bandwidth that one rank of `cg` or
//! `mg` needs: its traffic per operation with a cache of less than one vector, times its rate, over
//! the rate of a triad on one thread (McCalpin, "Memory Bandwidth and Machine Balance in Current
//! High Performance Computers", 1995).

use clap::Parser;
use gridspan_studies::gridctl;
use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Instant;

#[derive(Parser)]
#[command(about = "Parallel efficiency of the NAS kernels, and the cost of many ranks")]
struct Options {
    /// Kernels, each with its class.
    #[arg(long, value_delimiter = ',', default_value = "cg:A,mg:A,ft:A,is:B,ep:A")]
    kernels: Vec<String>,
    /// Number of rounds.
    #[arg(long, default_value_t = 10)]
    rounds: usize,
}

/// Elements of each of the three vectors of the triad: 64 MiB, more than the caches of a machine.
const TRIAD_ELEMENTS: usize = 8 << 20;
/// Passes of the triad, of which the fastest counts.
const TRIAD_PASSES: usize = 20;

/// The rates of a round in Mop/s.
struct Round {
    one: f64,
    copies: f64,
    two: f64,
    eight: f64,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let gridctl = gridctl()?;
    let triad = triad_bytes_per_ns();
    println!("medians of {} rounds on two PEs of one process; rates in Mop/s", options.rounds);
    println!(
        "{:>8}{:>12}{:>12}{:>12}{:>12}{:>14}{:>14}{:>14}{:>14}",
        "kernel",
        "1 rank",
        "2 copies",
        "2 ranks",
        "8 ranks",
        "efficiency",
        "of copies",
        "8 over 2",
        "of memory"
    );
    for kernel in &options.kernels {
        let (name, class) = kernel.split_once(':').ok_or("a kernel needs a class, as in cg:A")?;
        let mut rounds = Vec::new();
        for _ in 0..options.rounds {
            rounds.push(round(&gridctl, name, class)?);
        }
        let median = |of: fn(&Round) -> f64| median(rounds.iter().map(of).collect());
        let of_memory = match bytes_per_operation(name) {
            // A million operations a second, of some bytes each, are a thousandth of that in GB/s.
            Some(bytes) => format!("{:.3}", median(|round| round.one) * bytes / 1e3 / triad),
            None => "-".to_owned(),
        };
        println!(
            "{kernel:>8}{:>12.1}{:>12.1}{:>12.1}{:>12.1}{:>14.3}{:>14.3}{:>14.3}{of_memory:>14}",
            median(|round| round.one),
            median(|round| round.copies),
            median(|round| round.two),
            median(|round| round.eight),
            median(|round| round.two / (2.0 * round.one)),
            median(|round| round.two / round.copies),
            median(|round| round.two / round.eight),
        );
    }
    println!("of copies: the rate of 2 ranks over that of 2 independent programs together");
    println!("8 over 2: the time of 8 ranks over that of 2");
    println!("of memory: the least traffic of 1 rank over a triad of one thread, {triad:.1} GB/s");
    Ok(())
}

/// Bytes to and from memory for each operation that NPB counts, at least; `None` for a kernel that
/// is not bound by memory.
fn bytes_per_operation(kernel: &str) -> Option<f64> {
    match kernel {
        // An element of the matrix has a value of 8 bytes and a column of 4, for two operations.
        "cg" => Some(12.0 / 2.0),
        // NPB counts 58 operations for a point of the finest level in an iteration. In 8-byte
        // numbers: the projection reads 1, the interpolation reads and writes 1, two residuals each
        // read 1 and write 1, and the smoother reads 2 and writes 1. Coarser levels add a seventh.
        "mg" => Some(8.0 * (1.0 + 2.0 + 2.0 * 2.0 + 3.0) * (8.0 / 7.0) / 58.0),
        _ => None,
    }
}

/// The rate of `a = b + 3 c` over vectors in memory, with 24 bytes for each element.
fn triad_bytes_per_ns() -> f64 {
    let mut a = vec![0.0_f64; TRIAD_ELEMENTS];
    let (b, c) = (vec![1.0_f64; TRIAD_ELEMENTS], vec![2.0_f64; TRIAD_ELEMENTS]);
    let pass = |_| {
        let begin = Instant::now();
        for (a, (b, c)) in a.iter_mut().zip(b.iter().zip(&c)) {
            *a = b + 3.0 * c;
        }
        black_box(&mut a);
        begin.elapsed().as_nanos() as f64
    };
    let fastest = (0..TRIAD_PASSES).map(pass).fold(f64::INFINITY, f64::min);
    24.0 * TRIAD_ELEMENTS as f64 / fastest
}

fn round(gridctl: &Path, name: &str, class: &str) -> Result<Round, Box<dyn Error>> {
    let start = |place, ranks| start(gridctl, place, [name, "--class", class, "--ranks", ranks]);
    let one = rate(start("1x1", "1")?)?;
    let copies = [start("1x1", "1")?, start("1x1", "1")?];
    let copies = copies.into_iter().map(rate).sum::<Result<f64, _>>()?;
    let two = rate(start("1x1x2", "2")?)?;
    let eight = rate(start("1x1x2", "8")?)?;
    Ok(Round { one, copies, two, eight })
}

fn start(gridctl: &Path, place: &str, kernel: [&str; 5]) -> std::io::Result<Child> {
    let mut command = Command::new(gridctl);
    command.args(["run", "-e", place, "nas"]).args(kernel);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()
}

/// The rate that a kernel prints; its values must be right.
fn rate(kernel: Child) -> Result<f64, Box<dyn Error>> {
    let output = kernel.wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let unit = words.iter().position(|word| *word == "Mop/s").and_then(|at| at.checked_sub(1));
    match unit {
        Some(at) if output.status.success() => Ok(words[at].parse()?),
        _ => Err(format!("a kernel ended with {}:\n{text}", output.status).into()),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
