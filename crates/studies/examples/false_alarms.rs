//! Counts the nodes that are declared lost although they run: jobs in virtual time, or real
//! processes, under the disturbances that a detector must tolerate.
//!
//! ```text
//! cargo run --release -p gridspan-studies --example false_alarms -- virtual --hours 1000
//! cargo run --release -p gridspan-studies --example false_alarms -- real --trials 20
//! ```
//!
//! A virtual job runs for an hour on two nodes at each of two sites, over QUIC, and all nodes
//! communicate each second. The hours are shared by five kinds: a quiet network, 20 % of datagrams
//! lost, a link that is down for 2 s about every half minute, nodes that stop for 2 s, and handlers
//! of 30 s. In virtual time a handler delays only its PE, and never the transport of its node.
//!
//! A real trial runs four processes on this machine, with one of five disturbances.
//!
//! An hour or a trial is a false alarm if its job fails. The command then fails, too, and shows the
//! end of the output of a failed trial. Linux only.

use clap::{Parser, Subcommand};
use gridspan_runtime::{Actor, Context, Grid, Ix1, Job, Op, PeId, Per, Time, To};
use gridspan_sim::{FaultPlan, PauseFaults, QuicFaults, SimOptions, SimReport, Simulation};
use gridspan_studies::{gridctl, node_processes};
use gridspan_topology::GridSpec;
use gridspan_topology::dice::Dice;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Virtual time of one simulated job.
const JOB: Duration = Duration::from_secs(3_600);
/// The grid of simulated jobs, with one PE on each node.
const GRID: &str = "2x2,wan=30ms";
/// Duration of an outage or a stop, which the detector must tolerate, in virtual and in real time.
const OUTAGE: Duration = Duration::from_secs(2);
/// Least time between two outages, or between two stops of a node. Without it, two of them could
/// add up to a silence after which a node is rightly lost.
const APART: Duration = Duration::from_secs(10);
/// Mean time by which the time between two outages exceeds [`APART`], in seconds.
const MORE_APART: f64 = 20.0;
/// Probability that a datagram is lost.
const LOSS: f64 = 0.2;
/// Probability that a node stops after a turn of its PE.
const STOP: f64 = 0.01;
/// Duration of a long handler.
const HANDLER: Duration = Duration::from_secs(30);
/// Probability that a round of the job has a long handler.
const LONG: f64 = 0.5;
/// Time after which the nodes of a real job are connected.
const MET: Duration = Duration::from_millis(1_500);
/// Time after which a real trial has failed.
const LIMIT: Duration = Duration::from_secs(90);
/// Number of lines that are shown of the output of a failed trial.
const LINES_SHOWN: usize = 12;

#[derive(Parser)]
#[command(about = "Counts nodes that are declared lost although they run")]
struct Options {
    #[command(subcommand)]
    world: World,
}

#[derive(Subcommand)]
enum World {
    /// Jobs of an hour in virtual time.
    Virtual {
        /// Hours of virtual time, shared by the kinds.
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

/// A disturbance of a simulated job.
#[derive(Clone, Copy, PartialEq)]
enum Network {
    Quiet,
    Lossy,
    LinkDown,
    Stopped,
    LongHandlers,
}

/// The kinds of simulated jobs, with their names and those of the events that disturb them.
const NETWORKS: [(Network, &str, &str); 5] = [
    (Network::Quiet, "quiet", "events"),
    (Network::Lossy, "20 % of datagrams lost", "lost datagrams"),
    (Network::LinkDown, "a link down for 2 s", "outages"),
    (Network::Stopped, "nodes stopped for 2 s", "stops"),
    (Network::LongHandlers, "handlers of 30 s", "handlers"),
];

fn simulate(hours: u64) -> Result<u64, Box<dyn Error>> {
    println!(
        "{:24}{:>8}{:>26}{:>14}{:>10}",
        "network", "hours", "disturbed by", "false alarms", "seconds"
    );
    let jobs = hours.div_ceil(NETWORKS.len() as u64);
    let mut all = 0;
    for (network, name, what) in NETWORKS {
        let begin = Instant::now();
        let (mut alarms, mut events, mut simulated) = (0, 0, 0.0);
        for seed in 0..jobs {
            let (report, disturbed) = simulate_hour(network, seed)?;
            events += disturbed;
            simulated += report.virtual_time.as_secs_f64() / JOB.as_secs_f64();
            if let Err(error) = report.outcome {
                println!("seed {seed}: {error}");
                alarms += 1;
            }
        }
        let (disturbed, seconds) = (format!("{events} {what}"), begin.elapsed().as_secs_f64());
        println!("{name:24}{simulated:>8.1}{disturbed:>26}{alarms:>14}{seconds:>10.1}");
        if network != Network::Quiet && jobs > 0 && events == 0 {
            return Err(format!("{name}: nothing disturbed the jobs").into());
        }
        all += alarms;
    }
    Ok(all)
}

/// Runs a job of an hour. Returns its report and the number of events that disturbed it.
fn simulate_hour(network: Network, seed: u64) -> Result<(SimReport, u64), Box<dyn Error>> {
    let mut grid = GridSpec::from_emulate(GRID)?;
    let mut quic = QuicFaults::default().with_loss(0.0).with_duplicate(0.0).with_disconnect(0.0);
    let mut faults = FaultPlan::default();
    let (mut outages, mut long) = (Vec::new(), 0.0);
    match network {
        Network::Quiet => {}
        Network::Lossy => quic = quic.with_loss(LOSS),
        Network::LinkDown => {
            outages = draw_outages(seed);
            grid = with_outages(grid, &outages)?;
        }
        Network::Stopped => {
            let stops = PauseFaults::new(STOP, OUTAGE).with_shortest(OUTAGE).with_apart(APART);
            faults = faults.with_pauses(stops);
        }
        Network::LongHandlers => long = LONG,
    }
    let handlers = Arc::new(AtomicU64::new(0));
    let job = hour(grid.layout().pe_count(), long, seed, handlers.clone());
    let options = SimOptions::with_seed(seed).with_faults(faults.with_quic(quic));
    let report = Simulation::new(job, grid, options)?.run();
    let events = match network {
        Network::Quiet => 0,
        Network::Lossy => report.quic.datagrams_lost,
        Network::LinkDown => {
            let has_begun = |at: &&Duration| Time::ZERO + **at <= report.virtual_time;
            outages.iter().filter(has_begun).count() as u64
        }
        Network::Stopped => report.faults.pauses,
        Network::LongHandlers => handlers.load(Ordering::Relaxed),
    };
    Ok((report, events))
}

/// Draws the times at which the link between the sites goes down.
fn draw_outages(seed: u64) -> Vec<Duration> {
    let mut dice = Dice::new(seed);
    let mut at = Duration::ZERO;
    let drawn = std::iter::from_fn(|| {
        at += APART + Duration::from_secs_f64(dice.exponential(MORE_APART));
        let begin = at;
        at += OUTAGE;
        Some(begin)
    });
    drawn.take_while(|begin| *begin + OUTAGE < JOB).collect()
}

/// Adds outages of the link between the sites to a grid.
fn with_outages(mut grid: GridSpec, outages: &[Duration]) -> Result<GridSpec, Box<dyn Error>> {
    for &begin in outages {
        let end = begin + OUTAGE;
        for (at, loss) in [(begin, "100%"), (end, "0%")] {
            grid = grid.with_change(&format!("at {}ns link a-b loss={loss}", at.as_nanos()))?;
        }
    }
    Ok(grid)
}

/// A member on each PE, which takes part in a reduction each second.
#[derive(Serialize, Deserialize)]
struct Pulse;

impl Actor for Pulse {
    type Index = Ix1;
    type Init = ();
    /// The PE whose handler is long, if there is one.
    type Message = Option<PeId>;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, busy: Option<PeId>, cx: &mut Context<'_, Self>) {
        if busy == Some(cx.pe()) {
            cx.charge(HANDLER);
        }
        cx.contribute(Op::Sum, 1_u64, To::main());
    }
}

/// A job of an hour in which all nodes communicate each second. With probability `long`, a round
/// has a long handler on one of the `pes`, which `handlers` counts.
fn hour(pes: u32, long: f64, seed: u64, handlers: Arc<AtomicU64>) -> Job {
    Job::new("hour").actor::<Pulse>().main(async move |grid: Grid| {
        let mut dice = Dice::new(seed);
        let pulses = grid.create_group::<Pulse>(Per::Pe, |_| ()).await?;
        let begin = grid.now().await?;
        while grid.now().await?.since(begin) < JOB {
            let is_long = dice.chance(long);
            let busy = is_long.then(|| PeId(dice.below(pes)));
            handlers.fetch_add(u64::from(is_long), Ordering::Relaxed);
            pulses.broadcast(busy);
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
    let (grid, output) = (folder.join("outage.toml"), folder.join("output"));
    std::fs::write(&grid, OUTAGE_GRID)?;
    println!("{:32}{:>8}{:>14}", "disturbance", "trials", "false alarms");
    let mut all = 0;
    for (kind, name) in KINDS {
        let mut alarms = 0;
        for _ in 0..trials {
            if !runs(kind, &gridctl, &grid, File::create(&output)?)? {
                alarms += 1;
                eprintln!("{name}: the job failed; the end of its output:");
                eprintln!("{}", last_lines(&std::fs::read_to_string(&output)?));
            }
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

/// The last lines of a text.
fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n")
}

/// Runs one trial, whose output goes to a file. Returns whether the job succeeded.
fn runs(kind: Kind, gridctl: &Path, grid: &Path, output: File) -> Result<bool, Box<dyn Error>> {
    let grid = grid.to_string_lossy();
    let arguments: Vec<&str> = match kind {
        Kind::Stopped | Kind::Loaded => vec!["-n", "4", "drill", "--wait", "5"],
        Kind::LinkDown => vec!["-d", "cluster", "--emulate", &grid, "drill", "--wait", "6"],
        Kind::Lossy => {
            vec!["-d", "cluster", "--emulate", "2x2,wan=10ms,loss=20%", "drill", "--wait", "5"]
        }
        Kind::LongHandler => vec!["-n", "4", "drill", "--busy", "30"],
    };
    let mut command = Command::new(gridctl);
    command.arg("run").args(arguments);
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
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
