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

use clap::Parser;
use gridspan_studies::gridctl;
use std::error::Error;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};

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
    println!("medians of {} rounds on two PEs of one process; rates in Mop/s", options.rounds);
    println!(
        "{:>8}{:>12}{:>12}{:>12}{:>12}{:>14}{:>14}{:>14}",
        "kernel", "1 rank", "2 copies", "2 ranks", "8 ranks", "efficiency", "of copies", "8 over 2"
    );
    for kernel in &options.kernels {
        let (name, class) = kernel.split_once(':').ok_or("a kernel needs a class, as in cg:A")?;
        let mut rounds = Vec::new();
        for _ in 0..options.rounds {
            rounds.push(round(&gridctl, name, class)?);
        }
        let median = |of: fn(&Round) -> f64| median(rounds.iter().map(of).collect());
        println!(
            "{kernel:>8}{:>12.1}{:>12.1}{:>12.1}{:>12.1}{:>14.3}{:>14.3}{:>14.3}",
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
    Ok(())
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
