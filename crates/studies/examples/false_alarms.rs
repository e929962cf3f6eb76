//! Counts the nodes that are declared lost although they run: jobs in virtual time, or real
//! processes, under the disturbances that a detector must tolerate.
//!
//! ```text
//! cargo run --release -p gridspan-studies --example false_alarms -- virtual --hours 1000
//! cargo run --release -p gridspan-studies --example false_alarms -- real --trials 20
//! ```
//!
//! A real trial runs four processes on this machine. A trial is a false alarm if its job fails.
//! Linux only.

use clap::{Parser, Subcommand};
use gridspan_runtime::{Actor, Context, Grid, Ix1, Job, Op, Per, To};
use gridspan_sim::{FaultPlan, QuicFaults, SimOptions, Simulation};
use gridspan_studies::{gridctl, node_processes};
use gridspan_topology::GridSpec;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Virtual time of one simulated job.
const JOB: Duration = Duration::from_secs(3_600);
/// Probability that a connection breaks, or two sites do not reach each other, after a frame.
const BREAK: f64 = 0.003;
/// Longest outage and stop that the detector must tolerate, in virtual and in real time.
const OUTAGE: Duration = Duration::from_secs(2);
/// Time after which the nodes of a real job are connected.
const MET: Duration = Duration::from_millis(1_500);
/// Time after which a real trial has failed.
const LIMIT: Duration = Duration::from_secs(90);

#[derive(Parser)]
#[command(about = "Counts nodes that are declared lost although they run")]
struct Options {
    #[command(subcommand)]
    world: World,
}

#[derive(Subcommand)]
enum World {
    /// Jobs of an hour at two sites in virtual time, over QUIC.
    Virtual {
        /// Hours of virtual time, shared by the kinds of networks.
        #[arg(long, default_value_t = 40)]
        hours: u64,
    },
    /// Real processes.
    Real {
        /// Trials of each kind.
        #[arg(long, default_value_t = 20)]
        trials: u32,
    },
}

fn main() -> ExitCode {
    let counted = match Options::parse().world {
        World::Virtual { hours } => simulate(hours),
        World::Real { trials } => execute(trials),
    };
    match counted {
        Ok(0) => ExitCode::SUCCESS,
        Ok(alarms) => {
            eprintln!("{alarms} false alarms");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The networks in virtual time: the name, the grid, the probability that a datagram is lost, and
/// the probability that two sites do not reach each other for up to [`OUTAGE`] when a connection
/// between them would break.
const NETWORKS: [(&str, &str, f64, f64); 5] = [
    ("one site", "1x4", 0.0, 0.0),
    ("30 ms", "2x2,wan=30ms", 0.001, 0.0),
    ("30 ms, 5 % lost", "2x2,wan=30ms", 0.05, 0.0),
    ("300 ms, 1 % lost", "2x2,wan=300ms", 0.01, 0.0),
    ("30 ms, outages of up to 2 s", "2x2,wan=30ms", 0.005, 0.5),
];

fn simulate(hours: u64) -> Result<u64, Box<dyn Error>> {
    println!(
        "{:30}{:>8}{:>12}{:>14}{:>10}",
        "network", "hours", "partitions", "false alarms", "seconds"
    );
    let mut all = 0;
    for (name, grid, loss, outages) in NETWORKS {
        let begin = Instant::now();
        let hours = hours.div_ceil(NETWORKS.len() as u64);
        let (mut alarms, mut partitions) = (0, 0);
        for seed in 0..hours {
            let quic = QuicFaults::default().with_loss(loss).with_partitions(outages, OUTAGE);
            let quic = quic.with_disconnect(BREAK);
            let faults = FaultPlan::default().with_quic(quic);
            let options = SimOptions::with_seed(seed).with_faults(faults);
            let report = Simulation::new(hour(), GridSpec::from_emulate(grid)?, options)?.run();
            partitions += report.faults.partitions;
            if let Err(error) = report.outcome {
                println!("seed {seed}: {error}");
                alarms += 1;
            }
        }
        let seconds = begin.elapsed().as_secs_f64();
        println!("{name:30}{hours:>8}{partitions:>12}{alarms:>14}{seconds:>10.1}");
        all += alarms;
    }
    Ok(all)
}

/// A member on each PE, which takes part in a reduction each second.
#[derive(Serialize, Deserialize)]
struct Pulse;

impl Actor for Pulse {
    type Index = Ix1;
    type Init = ();
    type Message = ();

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, (): (), cx: &mut Context<'_, Self>) {
        cx.contribute(Op::Sum, 1_u64, To::main());
    }
}

/// A job of an hour in which all nodes communicate each second.
fn hour() -> Job {
    Job::new("hour").actor::<Pulse>().main(async |grid: Grid| {
        let pulses = grid.create_group::<Pulse>(Per::Pe, |_| ()).await?;
        for _ in 0..JOB.as_secs() {
            pulses.broadcast(());
            let _: u64 = pulses.reduction(Op::Sum).await?;
            grid.sleep(Duration::from_secs(1)).await?;
        }
        Ok(())
    })
}

/// A disturbance of a real job.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Stopped,
    LinkDown,
    Lossy,
    LongHandler,
    Loaded,
}

const KINDS: [(Kind, &str); 5] = [
    (Kind::Stopped, "a process stopped for 2 s"),
    (Kind::LinkDown, "a link down for 2 s"),
    (Kind::Lossy, "20 % lost between sites"),
    (Kind::LongHandler, "a handler of 30 s on each PE"),
    (Kind::Loaded, "two busy threads per core"),
];

fn execute(trials: u32) -> Result<u64, Box<dyn Error>> {
    let gridctl = gridctl()?;
    let folder = std::env::temp_dir().join(format!("false_alarms-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let file = folder.join("outage.toml");
    std::fs::write(&file, OUTAGE_GRID)?;
    println!("{:32}{:>8}{:>14}", "disturbance", "trials", "false alarms");
    let mut all = 0;
    for (kind, name) in KINDS {
        let mut alarms = 0;
        for _ in 0..trials {
            alarms += u64::from(!runs(kind, &gridctl, &file)?);
        }
        println!("{name:32}{trials:>8}{alarms:>14}");
        all += alarms;
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(all)
}

/// Two sites whose link is down for two seconds.
const OUTAGE_GRID: &str = r#"
timeline = ["at 2s link a-b loss=100%", "at 4s link a-b loss=0%"]

[wan]
latency = "10ms"

[site.a]
hosts = ["a1", "a2"]

[site.b]
hosts = ["b1", "b2"]
"#;

/// Runs one trial. Returns whether the job succeeded.
fn runs(kind: Kind, gridctl: &Path, file: &Path) -> Result<bool, Box<dyn Error>> {
    let file = file.to_string_lossy();
    let arguments: Vec<&str> = match kind {
        Kind::Stopped | Kind::Loaded => vec!["-n", "4", "drill", "--wait", "5"],
        Kind::LinkDown => vec!["-d", "cluster", "--emulate", &file, "drill", "--wait", "6"],
        Kind::Lossy => {
            vec!["-d", "cluster", "--emulate", "2x2,wan=10ms,loss=20%", "drill", "--wait", "5"]
        }
        Kind::LongHandler => vec!["-n", "4", "drill", "--busy", "30"],
    };
    let mut command = Command::new(gridctl);
    command.arg("run").args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        if kind == Kind::Loaded {
            for _ in 0..2 * thread::available_parallelism().map_or(2, usize::from) {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        std::hint::black_box(0);
                    }
                });
            }
        }
        if kind == Kind::Stopped {
            thread::sleep(MET);
            stop_one(&child)?;
        }
        let ended = wait(&mut child);
        is_over.store(true, Ordering::Relaxed);
        ended
    })
}

/// Stops the third node of a job for a while.
fn stop_one(launcher: &Child) -> Result<(), Box<dyn Error>> {
    let third = *node_processes(launcher.id()).get(2).ok_or("the job has no third node")?;
    let process = Pid::from_raw(third.try_into()?).ok_or("process 0")?;
    kill_process(process, Signal::STOP)?;
    thread::sleep(OUTAGE);
    kill_process(process, Signal::CONT)?;
    Ok(())
}

/// Returns whether the program succeeds; kills it if it does not end.
fn wait(child: &mut Child) -> Result<bool, Box<dyn Error>> {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        if begin.elapsed() > LIMIT {
            child.kill()?;
            child.wait()?;
            return Ok(false);
        }
        thread::sleep(Duration::from_millis(20));
    }
}
