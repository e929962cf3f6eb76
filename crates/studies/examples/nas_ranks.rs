//! The NAS kernels on ranks: parallel efficiency on two PEs, and the cost of four times as many
//! ranks as PEs.
//!
//! ```text
//! cargo run --release -p gridspan-studies --example nas_ranks
//! ```
//!
//! For each kernel, one rank alone, two such programs at the same time, two ranks on two PEs, and
//! eight ranks on two PEs take turns, in an order that is reversed from round to round. All rates
//! are Mop/s as NPB counts them. The efficiency is the rate on two PEs over twice that of one rank.
//! Two independent programs show what the machine's memory and caches leave to two cores: no
//! parallel program can be much faster than they are together. A rate is the median of the rounds,
//! and a ratio the median of the ratios of the rounds, with its interval of 95 %
//! (`gridspan_jobs::paired`).
//!
//! The last column is a lower bound of the share of the memory bandwidth that one rank of `cg` or
//! `mg` uses, if its vectors do not fit into the cache: the least traffic of an operation, times
//! the rate of the rank, over the bandwidth of a triad on one thread (McCalpin, "Memory Bandwidth
//! and Machine Balance in Current High Performance Computers", 1995).

use clap::Parser;
use gridspan_jobs::paired::MedianEstimate;
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
    /// Number of rounds; with fewer than 6, the range replaces the interval.
    #[arg(long, default_value_t = 10)]
    rounds: usize,
}

/// Elements of each of the three vectors of the triad: 64 MiB, more than the caches of a machine.
const TRIAD_ELEMENTS: usize = 8 << 20;
/// Passes of the triad, of which the fastest counts.
const TRIAD_PASSES: usize = 20;

/// What runs in a turn.
#[derive(Clone, Copy)]
enum Ranks {
    /// One rank.
    One,
    /// Two programs of one rank each, at the same time.
    Copies,
    /// Two ranks on two PEs.
    Two,
    /// Eight ranks on two PEs.
    Eight,
}

/// The turns of a round.
const TURNS: [Ranks; 4] = [Ranks::One, Ranks::Copies, Ranks::Two, Ranks::Eight];

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
        "{:>8}{:>12}{:>12}{:>12}{:>12}{:>22}{:>22}{:>22}{:>11}",
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
        let mut rates: [Vec<f64>; 4] = Default::default();
        for round in 0..options.rounds {
            let mut turns = TURNS;
            if round % 2 == 1 {
                turns.reverse();
            }
            for ranks in turns {
                rates[ranks as usize].push(ranks.rate(&gridctl, name, class)?);
            }
        }
        let [one, copies, two, eight] = &rates;
        let medians = rates.each_ref().map(|rates| MedianEstimate::of(rates).median);
        let twice: Vec<f64> = one.iter().map(|one| 2.0 * one).collect();
        let ratio = |of: &[f64], to: &[f64]| MedianEstimate::of_paired_ratio(of, to).to_string();
        let of_memory = match bytes_per_operation(name) {
            // Mop/s times bytes per operation are MB/s, and the triad is in GB/s.
            Some(bytes) => format!("{:.3}", medians[0] * bytes / 1e3 / triad),
            None => "-".to_owned(),
        };
        println!(
            "{kernel:>8}{:>12.1}{:>12.1}{:>12.1}{:>12.1}{:>22}{:>22}{:>22}{of_memory:>11}",
            medians[0],
            medians[1],
            medians[2],
            medians[3],
            ratio(two, &twice),
            ratio(two, copies),
            ratio(two, eight),
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

impl Ranks {
    /// The rate in Mop/s, of all ranks together.
    fn rate(self, gridctl: &Path, name: &str, class: &str) -> Result<f64, Box<dyn Error>> {
        let start =
            |place, ranks| start(gridctl, place, [name, "--class", class, "--ranks", ranks]);
        match self {
            Self::One => rate(start("1x1", "1")?),
            Self::Copies => [start("1x1", "1")?, start("1x1", "1")?].into_iter().map(rate).sum(),
            Self::Two => rate(start("1x1x2", "2")?),
            Self::Eight => rate(start("1x1x2", "8")?),
        }
    }
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
