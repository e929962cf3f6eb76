//! The NAS kernels, as ranks that really compute and move, while the load of other programs goes
//! from node to node: table 1 of Iskra et al. (2000), "Performance Measurements on Dynamite/DPVM".
//!
//! ```text
//! cargo run --release -p gridspan-studies --example dynamite_ranks
//! ```
//!
//! Four ranks on eight nodes, in virtual time. One process of another user computes on each of the
//! four nodes where ranks start, in turn, for a sixth of the time that the kernel takes alone: the
//! paper's kernels take half an hour, and the load stays for five minutes. Ranks may move after each
//! iteration, with all of their data. A link carries as many bytes in a second of computing as the
//! paper's Fast Ethernet did: its processors had 200 MHz, and the kernels charge for about 3 GHz.

use clap::Parser;
use gridspan_studies::gridctl;
use std::error::Error;
use std::path::Path;
use std::process::{Command, ExitCode};

const RANKS: usize = 4;
const NODES: usize = 8;
/// Share of the time alone for which the load stays on a node.
const STAY: f64 = 1.0 / 6.0;
/// The load goes on for this many times the time alone.
const CYCLES: f64 = 4.0;

/// A kernel with its class, and the published slowdowns in percent: without Dynamite, and with it.
struct Row {
    kernel: &'static str,
    class: &'static str,
    published: [f64; 2],
}

const ROWS: [Row; 5] = [
    Row { kernel: "cg", class: "A", published: [87.0, 24.0] },
    Row { kernel: "ep", class: "A", published: [18.0, 9.0] },
    Row { kernel: "ft", class: "A", published: [45.0, 20.0] },
    Row { kernel: "is", class: "A", published: [12.0, 16.0] },
    Row { kernel: "mg", class: "A", published: [40.0, 6.0] },
];

#[derive(Parser)]
#[command(about = "The NAS kernels on ranks under the load of other programs")]
struct Options {
    /// Bandwidth of the links.
    #[arg(long, default_value = "1500mbit")]
    lan: String,
    /// The strategies, compared with `none`.
    #[arg(long, value_delimiter = ',', default_value = "vacate,auto")]
    strategies: Vec<String>,
    /// Only this kernel.
    #[arg(long)]
    only: Option<String>,
}

fn main() -> ExitCode {
    match table(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn table(options: &Options) -> Result<(), Box<dyn Error>> {
    let gridctl = gridctl()?;
    println!("slowdown by other programs' load in %; links of {}", options.lan);
    print!("{:>6}{:>10}{:>16}{:>10}{:>8}", "", "alone, s", "paper: without", "with", "none");
    for strategy in &options.strategies {
        print!("{strategy:>8}{:>12}", "monitoring");
    }
    println!();
    let is_wanted = |row: &&Row| options.only.as_deref().is_none_or(|only| only == row.kernel);
    for row in ROWS.iter().filter(is_wanted) {
        let run = |strategy: &str, stay: Option<f64>| {
            seconds(&gridctl, row, strategy, &options.lan, stay)
        };
        let alone = run("none", None)?;
        let stay = Some(alone * STAY);
        let percent = |seconds: f64| (seconds / alone - 1.0) * 100.0;
        let [without, with] = row.published;
        print!("{:>6}{alone:>10.2}{without:>16.0}{with:>10.0}", row.kernel);
        print!("{:>8.1}", percent(run("none", stay)?));
        for strategy in &options.strategies {
            let (loaded, monitored) = (run(strategy, stay)?, run(strategy, None)?);
            print!("{:>8.1}{:>12.2}", percent(loaded), percent(monitored));
        }
        println!();
    }
    println!("monitoring: the slowdown with the strategy when no other program runs");
    Ok(())
}

/// The time that a kernel prints, in virtual seconds, under a load that stays on each node for
/// `stay` seconds.
fn seconds(
    gridctl: &Path,
    Row { kernel, class, .. }: &Row,
    strategy: &str,
    lan: &str,
    stay: Option<f64>,
) -> Result<f64, Box<dyn Error>> {
    let mut grid = format!("1x{NODES},lanrate={lan}");
    if let Some(stay) = stay {
        let turns = (CYCLES / STAY) as usize;
        for turn in 0..turns {
            // Ranks start on every second node.
            let node = format!("a{}", 1 + (turn % RANKS) * NODES / RANKS);
            for (at, load) in [(turn, 1), (turn + 1, 0)] {
                let ms = at as f64 * stay * 1e3;
                grid.push_str(&format!("; at {ms:.0}ms node {node} load={load}"));
            }
        }
    }
    let ranks = RANKS.to_string();
    let mut command = Command::new(gridctl);
    command.args(["sim", "-e", &grid, "--balance", strategy, "nas", kernel, "--class", class]);
    let output = command.args(["--ranks", &ranks, "--migrate-every", "1"]).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let unit = words.iter().position(|word| *word == "s,").and_then(|at| at.checked_sub(1));
    match unit {
        Some(at) if output.status.success() => Ok(words[at].parse()?),
        _ => {
            let errors = String::from_utf8_lossy(&output.stderr);
            Err(format!("{kernel} ended with {}:\n{text}{errors}", output.status).into())
        }
    }
}
