//! Messages between two ranks, beside Open MPI and MPICH on the same machine.
//!
//! ```text
//! apt-get install openmpi-bin libopenmpi-dev mpich libmpich-dev
//! cargo run --release -p gridspan-studies --example mpi_messages
//! ```
//!
//! A figure is half of a round trip between two ranks: on one PE, on two PEs of a process, in two
//! processes, at two emulated sites, whose latency is subtracted, and in two processes of each MPI.
//! Each rank sends a buffer and receives into it. With `touch`, ranks also overwrite it before each
//! send and read all of it after each receive. With `move`, our ranks send and receive whole
//! vectors, without copies inside a process, and that table also has messages between actors on two
//! PEs of a process: what the runtime's own send takes.
//!
//! Programs take turns, in an order that is reversed from round to round, and each figure is the
//! median of the rounds. Below each table, another one has the ratios of ours on one machine to
//! each MPI, and with `move` that of ranks on two PEs to actors, whose goal is at most 1.3: the
//! median of the ratios of the rounds, with its interval of 95 % (`gridspan_jobs::paired`).
//!
//! An MPI process that waits for a message polls, and occupies its processor. Ours sleep. So two
//! more tables compare equal ways of waiting between two processes: in `both poll` our PEs test for
//! the message all the time, too, while the threads of the network sleep; in `both sleep` the ranks
//! of an MPI sleep for 50 µs between two tests. The last row of each table of times gives the
//! number of processors that each program uses. An MPI that is not installed is skipped.

use clap::Parser;
use gridspan_jobs::paired::MedianEstimate;
use gridspan_studies::mpi::{IMPLEMENTATIONS, Mpi};
use gridspan_studies::{children_seconds, gridctl};
use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

/// One-way latency between the emulated sites in ns.
const LATENCY_NS: f64 = 2e6;
/// The name of our program on two PEs of a process.
const TWO_PES: &str = "two PEs";
/// The name of our program in two processes of this machine.
const BETWEEN_PROCESSES: &str = "two processes";

#[derive(Parser)]
#[command(about = "Messages between two ranks, beside Open MPI and MPICH")]
struct Options {
    /// Sizes in bytes.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1,8,64,1024,8192,65536,262144,1048576,4194304"
    )]
    bytes: Vec<usize>,
    /// Number of rounds; with fewer than 6, the range replaces the interval.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Minimum seconds of a measurement.
    #[arg(long, default_value_t = 0.1)]
    seconds: f64,
}

/// A program that measures round trips.
struct Program {
    name: &'static str,
    command: Vec<String>,
    /// Latency in ns that is subtracted from each way.
    latency_ns: f64,
    /// The form of its output.
    output: Output,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Output {
    /// Of the job `ranks`: a JSON object for each figure.
    Ranks,
    /// Of the job `pingpong` with `--pairs`: a JSON object for each figure.
    PingPong,
    /// Of `round_trips.c`.
    Mpi,
}

/// One-way times in ns, by size.
type Times = BTreeMap<usize, f64>;

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
    let folder = env::current_exe()?.parent().ok_or("this program has no folder")?.to_owned();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/mpi_messages/round_trips.c");
    let mut mpis = Vec::new();
    for mpi in IMPLEMENTATIONS {
        match mpi.compile(&source, &folder) {
            Ok(program) => mpis.push((mpi, program)),
            Err(reason) => println!("{} is skipped: {reason}", mpi.name),
        }
    }
    for handling in ["keep", "touch", "move"] {
        let mut programs = ours(&gridctl, handling, options);
        if handling != "move" {
            programs
                .extend(mpis.iter().map(|(mpi, program)| theirs(*mpi, program, handling, options)));
        }
        table(handling, &programs, options)?;
    }
    for (title, our_handling, their_handling) in
        [("both poll", "poll", "keep"), ("both sleep", "keep", "sleep")]
    {
        let mut programs = ours(&gridctl, our_handling, options);
        programs.retain(|program| program.name == BETWEEN_PROCESSES);
        for (mpi, program) in &mpis {
            programs.push(theirs(*mpi, program, their_handling, options));
        }
        table(title, &programs, options)?;
    }
    Ok(())
}

fn ours(gridctl: &Path, handling: &str, options: &Options) -> Vec<Program> {
    let sites = format!("2x1,wan={}ms,rate=100gbit,lanrate=100gbit", LATENCY_NS / 1e6);
    let places: [(&str, &[&str], f64); 4] = [
        ("one PE", &["-e", "1x1"], 0.0),
        (TWO_PES, &["-e", "1x1x2"], 0.0),
        (BETWEEN_PROCESSES, &["-n", "2"], 0.0),
        ("two sites", &["-e", &sites], LATENCY_NS),
    ];
    let sizes: Vec<String> = options.bytes.iter().map(|bytes| format!("{bytes}B")).collect();
    let (sizes, seconds) = (sizes.join(","), options.seconds.to_string());
    let program = |(name, place, latency_ns): &(&'static str, &[&str], f64)| {
        let mut command = vec![gridctl.display().to_string(), "run".to_owned()];
        command.extend(place.iter().map(|&word| word.to_owned()));
        let job = ["ranks", "--json", "--no-collectives", "--handling", handling];
        command.extend(job.map(str::to_owned));
        let measured = ["--ranks", "2", "--seconds", &seconds, "--bytes", &sizes];
        command.extend(measured.map(str::to_owned));
        Program { name, command, latency_ns: *latency_ns, output: Output::Ranks }
    };
    let mut programs: Vec<Program> = places.iter().map(program).collect();
    if handling == "move" {
        let mut command = vec![gridctl.display().to_string()];
        let job = ["run", "-e", "1x1x2", "pingpong", "--pairs", "--json", "--rounds", "1"];
        command.extend(job.map(str::to_owned));
        command.extend(["--seconds", &seconds, "--bytes", &sizes].map(str::to_owned));
        let output = Output::PingPong;
        programs.push(Program { name: "actors", command, latency_ns: 0.0, output });
    }
    programs
}

fn theirs(mpi: Mpi, program: &Path, handling: &str, options: &Options) -> Program {
    let mut command = mpi.launch(2, program);
    command.extend([options.seconds.to_string(), handling.to_owned()]);
    command.extend(options.bytes.iter().map(usize::to_string));
    Program { name: mpi.name, command, latency_ns: 0.0, output: Output::Mpi }
}

/// Runs the programs in turn, and prints a column for each.
fn table(handling: &str, programs: &[Program], options: &Options) -> Result<(), Box<dyn Error>> {
    let mut rounds: Vec<Vec<Times>> = vec![Vec::new(); programs.len()];
    let mut used = vec![Vec::new(); programs.len()];
    for round in 0..options.rounds {
        let mut turns: Vec<usize> = (0..programs.len()).collect();
        if round % 2 == 1 {
            turns.reverse();
        }
        for at in turns {
            let (before, begin) = (children_seconds()?, Instant::now());
            rounds[at].push(programs[at].run()?);
            let seconds = children_seconds()? - before;
            used[at].push(seconds / begin.elapsed().as_secs_f64());
        }
    }
    println!("\none way in us, {handling}: medians of {} rounds", options.rounds);
    let row = |first: &str, cells: Vec<String>| {
        let cells: String = cells.iter().map(|cell| format!("{cell:>15}")).collect();
        println!("{first:>10}{cells}");
    };
    row("bytes", programs.iter().map(|program| program.name.to_owned()).collect());
    let shown = |values: &[f64], decimals: usize| match values.is_empty() {
        true => "-".to_owned(),
        false => format!("{:.decimals$}", MedianEstimate::of(values).median),
    };
    for &bytes in &options.bytes {
        let cell = |times: &Vec<Times>| {
            let us: Vec<f64> =
                times.iter().filter_map(|times| Some(of_size(times, bytes)? / 1e3)).collect();
            shown(&us, 3)
        };
        row(&bytes.to_string(), rounds.iter().map(cell).collect());
    }
    row("processors", used.iter().map(|used| shown(used, 2)).collect());
    ratios(programs, &rounds, options);
    Ok(())
}

/// Prints the ratios of ours on one machine to each MPI, and to actors.
fn ratios(programs: &[Program], rounds: &[Vec<Times>], options: &Options) {
    let all = || programs.iter().zip(rounds);
    for (other, theirs) in all().filter(|(program, _)| program.output != Output::Ranks) {
        let ours: Vec<(&Program, &Vec<Times>)> =
            all().filter(|(program, _)| program.is_compared_with(other)).collect();
        println!("over {}", other.name);
        let names: String =
            ours.iter().map(|(program, _)| format!("{:>24}", program.name)).collect();
        println!("{:>10}{names}", "bytes");
        for &bytes in &options.bytes {
            let cell = |(_, ours): &(&Program, &Vec<Times>)| {
                let pair = |(ours, theirs)| Some((of_size(ours, bytes)?, of_size(theirs, bytes)?));
                let (ours, theirs): (Vec<f64>, Vec<f64>) =
                    ours.iter().zip(theirs).filter_map(pair).unzip();
                format!("{:>24}", MedianEstimate::of_paired_ratio(&ours, &theirs).to_string())
            };
            println!("{bytes:>10}{}", ours.iter().map(cell).collect::<String>());
        }
    }
}

/// The time for this size.
fn of_size(times: &Times, bytes: usize) -> Option<f64> {
    times.get(&bytes).copied()
}

impl Program {
    /// Whether ratios of this program to another one are printed: of ranks on one machine to an
    /// MPI, and of ranks on two PEs to actors, which are on two PEs, too.
    fn is_compared_with(&self, other: &Self) -> bool {
        let is_here = self.output == Output::Ranks && self.latency_ns == 0.0;
        is_here && (other.output == Output::Mpi || self.name == TWO_PES)
    }

    fn run(&self) -> Result<Times, Box<dyn Error>> {
        let (program, arguments) = self.command.split_first().ok_or("a command is empty")?;
        let output = Command::new(program).args(arguments).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            let command = self.command.join(" ");
            return Err(format!("{command}: {}\n{text}{errors}", output.status).into());
        }
        let times = text.lines().filter_map(|line| self.output.time(line));
        Ok(times.map(|(bytes, ns)| (bytes, ns - self.latency_ns)).collect())
    }
}

impl Output {
    /// The size and the one-way time in ns of a line, if it has them.
    fn time(self, line: &str) -> Option<(usize, f64)> {
        match self {
            Self::Ranks | Self::PingPong => {
                let figure: serde_json::Value =
                    serde_json::from_str(&line[line.find('{')?..]).ok()?;
                // `pingpong` also measures on one PE.
                let is_wanted = figure["operation"] == "round trip"
                    && (self == Self::Ranks || figure["between"] == "pes");
                let bytes = figure["bytes"].as_u64()? as usize;
                is_wanted.then_some((bytes, figure["ns"].as_f64()? / 2.0))
            }
            Self::Mpi => {
                let mut words = line.split_ascii_whitespace();
                Some((words.next()?.parse().ok()?, words.next()?.parse::<f64>().ok()? / 2.0))
            }
        }
    }
}
