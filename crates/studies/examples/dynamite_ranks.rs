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
//! iteration, with all of their data. Processors have a hundredth of the speed of the core for which
//! kernels charge, so that a kernel takes minutes, and links are as much slower than the paper's
//! Fast Ethernet as processors are slower than the paper's, which had 200 MHz: 15 Mbit/s.
//!
//! A migration point is collective. So ranks of `ep`, which do not communicate in the paper, wait
//! for each other here, and it loses more without balancing.

use clap::Parser;
use gridspan_studies::gridctl;
use std::error::Error;
use std::path::Path;
use std::process::{self, Command, ExitCode};
use std::{env, fs};

const RANKS: usize = 4;
const NODES: usize = 8;
/// Speed of processors, of that for which kernels charge.
const SPEED: &str = "1/100";
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
    #[arg(long, default_value = "15mbit")]
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
    let file = env::temp_dir().join(format!("dynamite_ranks-{}.toml", process::id()));
    fs::write(&file, grid(lan, stay))?;
    let ranks = RANKS.to_string();
    let mut command = Command::new(gridctl);
    command.args(["sim", "--balance", strategy, "--grid"]).arg(&file);
    command.args(["nas", kernel, "--class", class]);
    let output = command.args(["--ranks", &ranks, "--migrate-every", "1"]).output();
    fs::remove_file(&file)?;
    let output = output?;
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

/// The grid file: one site, and the load that goes around.
fn grid(lan: &str, stay: Option<f64>) -> String {
    let mut changes = Vec::new();
    let turns = stay.map_or(0, |_| (CYCLES / STAY) as usize);
    for turn in 0..turns {
        // Ranks start on every second node.
        let node = (turn % RANKS) * NODES / RANKS;
        for (at, load) in [(turn, 1), (turn + 1, 0)] {
            let ms = at as f64 * stay.unwrap_or_default() * 1e3;
            changes.push(format!("  \"at {ms:.0}ms node n{node} load={load}\",\n"));
        }
    }
    let (changes, last) = (changes.concat(), NODES - 1);
    let lan = format!("[lan]\nlatency = \"50us\"\nbandwidth = \"{lan}\"\n");
    format!(
        "timeline = [\n{changes}]\n{lan}[site.a]\nhosts = [\"n[0-{last}]\"]\nspeed = \"{SPEED}\"\n"
    )
}
