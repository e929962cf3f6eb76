//! The cost of starting and ending an empty job on this machine: `gridctl run -n N`, beside
//! `mpirun` of Open MPI and MPICH, and `srun`.
//!
//! ```text
//! apt-get install openmpi-bin libopenmpi-dev mpich libmpich-dev
//! cargo run --release -p gridspan-studies --example start_costs
//! .ci/slurm --start-costs
//! ```
//!
//! The last command starts a Slurm for the measurement, on this machine.
//!
//! Each program starts N processes: ours are nodes with one PE, those of MPI call `MPI_Init` and
//! `MPI_Finalize`, and those of `srun` run `true`. Outside of an allocation, `srun` also waits for
//! one. Programs take turns, in an order that is reversed from round to round. The time from start
//! to end is the median of the rounds; `ours over it` is the median of the ratios of the rounds,
//! with its interval of 95 % (`gridspan_jobs::paired`). Processor times are those of the command
//! and of all processes below it that were waited for; they are means, since Linux counts them in
//! units of 10 ms. Those of `srun` include its tasks, and what the daemons of Slurm use for them
//! and for the allocation beyond their use when idle ([`daemons`]); outside of `.ci/slurm` they are
//! not known, and `-` is printed. After each `srun` there is a pause, in which the daemons complete
//! it. A program that is missing is skipped, and the reason is printed. Below the table, a line for
//! each program has the exponent with which the processor time grows between the two largest
//! numbers of processes: 1 is linear.
//!
//! The second table counts handshakes of QUIC and TLS, as the nodes themselves do, in runs that are
//! not measured. Each handshake is counted at both ends. Two nodes connect when one of them first
//! sends to the other; if their first messages cross, both dial, and one of two handshakes is in
//! vain. Main's node leaves the first dial to the others. So where few pairs talk, the number for
//! each node stays the same while the number of nodes grows; if all pairs talked, it would be the
//! number of nodes less one.

mod bounded;
mod daemons;
mod job;
mod peers;

use bounded::{Bounded, Cost};
use clap::Parser;
use gridspan_jobs::paired::MedianEstimate;
use gridspan_studies::gridctl;
use job::Kind;
use peers::{Peer, found, job_command};
use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Largest number of processes, so that a mistake does not exhaust the machine.
const NODES_MAX: i64 = 256;
/// The variable that makes the nodes log their handshakes.
const LOG: (&str, &str) = ("RUST_LOG", "gridspan_runtime::net::transport=debug");
/// The text before the number of handshakes in a line of the log.
const HANDSHAKES: &str = "handshakes=";

#[derive(Parser)]
#[command(about = "The start and end of an empty job, beside MPI and Slurm")]
struct Options {
    /// Numbers of processes.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "2,16,64",
        value_parser = clap::value_parser!(u32).range(1..=NODES_MAX)
    )]
    nodes: Vec<u32>,
    /// Number of rounds; with fewer than 6, the range replaces the interval.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Seconds after which a run is ended.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    limit: u64,
}

fn main() -> ExitCode {
    if let Some(kind) = env::args().nth(1).and_then(|word| Kind::of(&word)) {
        return job::take_part(kind);
    }
    match study(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn study(options: &Options) -> Result<(), Box<dyn Error>> {
    let (gridctl, program) = (gridctl()?, env::current_exe()?);
    let folder = program.parent().ok_or("this program has no folder")?;
    let errors = folder.join("start_costs.errors");
    let mut peers = vec![Peer::Gridctl { gridctl: gridctl.clone(), program: program.clone() }];
    peers.extend(found(folder, &errors));
    costs(&peers, options, &errors)?;
    println!("\nhandshakes for each node: mean, and largest number");
    println!("{:>8}{:>20}{:>20}{:>12}", "nodes", "empty job", "talk in pairs", "all pairs");
    for &nodes in &options.nodes {
        print!("{nodes:>8}");
        for kind in Kind::ALL {
            let words = job_command(&gridctl, &program, kind, nodes);
            let counts = handshakes(&words, nodes, options, &errors)?;
            let mean = counts.iter().sum::<u64>() as f64 / f64::from(nodes);
            let most = counts.iter().max().copied().unwrap_or_default();
            print!("{:>20}", format!("{mean:.2} {most:>4}"));
        }
        println!("{:>12}", nodes - 1);
    }
    Ok(fs::remove_file(errors)?)
}

/// Runs the programs in turn, and prints a row for each number of processes and each program. If
/// `gridctl` fails, the study fails. If another program fails, it is skipped for that number of
/// processes.
fn costs(peers: &[Peer], options: &Options, errors: &Path) -> Result<(), Box<dyn Error>> {
    println!("\nstart and end, {} rounds", options.rounds);
    println!(
        "{:>8}{:>14}{:>12}{:>18}{:>14}{:>12}{:>24}",
        "nodes", "program", "median ms", "from-to", "processor ms", "each", "ours over it"
    );
    let mut means: BTreeMap<&str, BTreeMap<u32, f64>> = BTreeMap::new();
    for &nodes in &options.nodes {
        let mut costs: Vec<Result<Vec<Cost>, String>> = peers.iter().map(|_| Ok(vec![])).collect();
        for round in 0..options.rounds {
            let mut turns: Vec<_> = peers.iter().zip(&mut costs).collect();
            if round % 2 == 1 {
                turns.reverse();
            }
            for (peer, costs) in turns {
                let Ok(known) = costs else { continue };
                match peer.cost(|| run(&peer.command(nodes), &[], options, errors)) {
                    Ok(cost) => known.push(cost),
                    Err(error) if matches!(peer, Peer::Gridctl { .. }) => return Err(error),
                    Err(error) => *costs = Err(error.to_string()),
                }
            }
        }
        // The first program is ours, which has not failed.
        let ours = costs.first().and_then(|costs| costs.as_ref().ok());
        let ours = ours.map(|costs| walls_ms(costs)).unwrap_or_default();
        for (peer, costs) in peers.iter().zip(costs) {
            match costs {
                Ok(costs) => {
                    let is_ours = matches!(peer, Peer::Gridctl { .. });
                    let ours = (!is_ours).then_some(&ours[..]);
                    let mean = row(nodes, peer, &costs, ours);
                    means.entry(peer.name()).or_default().extend(mean.map(|mean| (nodes, mean)));
                }
                Err(reason) => println!("{nodes:>8}{:>14}  is skipped: {reason}", peer.name()),
            }
        }
    }
    for (name, means) in means {
        if let Some((from, to, power)) = growth(&means) {
            println!("{name}: from {from} to {to} processes, processor time grows as n^{power:.2}");
        }
    }
    Ok(())
}

/// Returns the two largest numbers of processes, and the exponent with which the processor time
/// grows between them. `None` for fewer numbers, or times too short to be counted.
fn growth(means: &BTreeMap<u32, f64>) -> Option<(u32, u32, f64)> {
    let mut last = means.iter().rev();
    let ((&to, &most), (&from, &least)) = (last.next()?, last.next()?);
    let power = (most / least).ln() / (f64::from(to) / f64::from(from)).ln();
    power.is_finite().then_some((from, to, power))
}

/// The times from start to end in milliseconds, round by round.
fn walls_ms(costs: &[Cost]) -> Vec<f64> {
    costs.iter().map(|cost| cost.wall_s * 1e3).collect()
}

/// Prints a row, and returns the mean of the processor milliseconds, if it is known. `ours` are the
/// times of `gridctl run` in the same rounds, if the row is of another program.
fn row(nodes: u32, peer: &Peer, costs: &[Cost], ours: Option<&[f64]>) -> Option<f64> {
    let mut ms = walls_ms(costs);
    let ratio = ours.map(|ours| MedianEstimate::of_paired_ratio(ours, &ms).to_string());
    let ratio = ratio.unwrap_or_default();
    ms.sort_by(f64::total_cmp);
    let (least, most) = (ms.first()?, ms.last()?);
    let range = format!("{least:.0}-{most:.0}");
    let MedianEstimate { median, .. } = MedianEstimate::of(&ms);
    let processor_s: f64 = costs.iter().map(|cost| cost.processor_s).sum();
    let processor_ms = peer.is_complete().then_some(processor_s * 1e3 / costs.len() as f64);
    let cell = |ms: f64, decimals: usize| format!("{ms:.decimals$}");
    let [all, each] = match processor_ms {
        Some(ms) => [cell(ms, 0), cell(ms / f64::from(nodes), 2)],
        None => ["-".to_owned(), "-".to_owned()],
    };
    let name = peer.name();
    println!("{nodes:>8}{name:>14}{median:>12.0}{range:>18}{all:>14}{each:>12}{ratio:>24}");
    processor_ms
}

fn run(
    words: &[String],
    variables: &[(&str, &str)],
    options: &Options,
    errors: &Path,
) -> Result<Cost, Box<dyn Error>> {
    Bounded { words, variables, limit: Duration::from_secs(options.limit), errors }.run()
}

/// Runs a job, and returns the number of handshakes of each node.
fn handshakes(
    words: &[String],
    nodes: u32,
    options: &Options,
    errors: &Path,
) -> Result<Vec<u64>, Box<dyn Error>> {
    run(words, &[LOG], options, errors)?;
    let log = fs::read_to_string(errors)?;
    let counts = log.lines().filter_map(counted).collect::<Vec<u64>>();
    match counts.len() == nodes as usize {
        true => Ok(counts),
        false => Err(format!("{} of {nodes} nodes have logged their end", counts.len()).into()),
    }
}

/// The number of handshakes in a line of the log.
fn counted(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once(HANDSHAKES)?;
    let digits = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_read_from_a_line_of_the_log() {
        let line = "local/1│ 2026-01-01T00:00:00Z DEBUG gridspan_runtime::net::transport: closed \
                    handshakes=17";
        assert_eq!(counted(line), Some(17));
        assert_eq!(counted("closed handshakes=4 bytes=9"), Some(4));
        assert_eq!(counted("local/1│ DEBUG gridspan_runtime::net::transport: dial"), None);
    }

    #[test]
    fn growth_is_the_power_between_the_two_largest_numbers() {
        let means = |pairs: &[(u32, f64)]| pairs.iter().copied().collect::<BTreeMap<u32, f64>>();
        let (from, to, power) = growth(&means(&[(2, 90.0), (16, 40.0), (64, 640.0)])).unwrap();
        assert_eq!((from, to), (16, 64));
        assert!((power - 2.0).abs() < 1e-9, "{power}");
        assert_eq!(growth(&means(&[(2, 90.0)])), None);
        assert_eq!(growth(&means(&[(2, 0.0), (16, 40.0)])), None);
    }

    #[test]
    fn a_command_that_does_not_end_is_ended() {
        let errors = env::temp_dir().join(format!("start_costs.{}", std::process::id()));
        let bounded = |script: &str, limit| {
            let words = ["sh", "-c", script].map(str::to_owned);
            Bounded { words: &words, variables: &[], limit, errors: &errors }.run()
        };
        let long = Duration::from_secs(600);
        assert!(bounded("true", long).is_ok());
        let failed = bounded("echo no place >&2; exit 3", long).unwrap_err().to_string();
        assert!(failed.contains("no place") && failed.contains("exit status: 3"), "{failed}");
        let late = bounded("sleep 600", Duration::from_millis(200)).unwrap_err().to_string();
        assert!(late.contains("after 200ms"), "{late}");
        fs::remove_file(errors).unwrap();
    }
}
