//! Broadcasts from one of four sites while the load of other traffic changes: over the tree derived
//! from the layout, and over planned trees.
//!
//! ```text
//! cargo run --release -p gridspan-studies --example broadcast_load
//! cargo run --release -p gridspan-studies --example broadcast_load -- --simulated
//! ```
//!
//! There are four sites of two nodes, with 10 ms and 50 Mbit/s between any two sites. A broadcast
//! of 300 kB begins half a second after the end of the previous one. For the middle third of the
//! time, other traffic leaves only a tenth of the bandwidth of the links between the first site and
//! two others. In real time, nodes communicate by QUIC over emulated links. A broadcast is over
//! when the small confirmations of all members have returned to the first site.

use clap::Parser;
use gridspan_bcast::Mode;
use gridspan_runtime::driver::embedded;
use gridspan_runtime::{Actor, Context, Ix1, Job, JobError, Op, To};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::{GridSpec, TimelineError};
use serde::{Deserialize, Serialize};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

/// The grid without other traffic.
const GRID: &str = "4x2,wan=10ms,rate=50mbit";
/// The links that carry other traffic for part of the time.
const LOADED: [&str; 2] = ["a-c", "a-d"];
/// Time between the end of a broadcast and the next one.
const PAUSE: Duration = Duration::from_millis(500);

#[derive(Parser)]
struct Arguments {
    /// Run in virtual time.
    #[arg(long)]
    simulated: bool,
    /// Duration of each part, in seconds.
    #[arg(long, default_value_t = 15)]
    seconds: u64,
    /// Bytes of a broadcast.
    #[arg(long, default_value_t = 300_000)]
    bytes: usize,
}

/// A member that confirms each payload with the sum of its bytes.
#[derive(Serialize, Deserialize)]
struct Listener;

impl Actor for Listener {
    type Index = Ix1;
    type Init = ();
    type Message = Vec<u8>;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, message: Vec<u8>, cx: &mut Context<'_, Self>) {
        let sum: u64 = message.iter().map(|&byte| u64::from(byte)).sum();
        cx.contribute(Op::Sum, sum, To::main());
    }
}

/// The start of a broadcast relative to the first, and its duration.
type Sample = (Duration, Duration);

fn job(mode: Mode, arguments: &Arguments, out: mpsc::Sender<Sample>) -> Job {
    let (bytes, end) = (arguments.bytes, Duration::from_secs(3 * arguments.seconds));
    let job = Job::new("listeners").actor::<Listener>().broadcasts(mode);
    job.main(async move |grid| {
        let members = grid.layout().pe_count();
        let listeners = grid.create::<Listener>(Ix1::range(members), |_| ()).await?;
        let start = grid.now().await?;
        for round in 1_u8.. {
            let begin = grid.now().await?;
            if begin.since(start) >= end {
                return Ok(());
            }
            listeners.broadcast(vec![round; bytes]);
            let sum: u64 = listeners.reduction(Op::Sum).await?;
            if sum != u64::from(members) * u64::from(round) * bytes as u64 {
                return Err(JobError::Failed(format!("broadcast {round} came as {sum}")));
            }
            let took = grid.now().await?.since(begin);
            out.send((begin.since(start), took)).map_err(|_| "the receiver is gone")?;
            grid.sleep(PAUSE).await?;
        }
        Ok(())
    })
}

fn grid(arguments: &Arguments) -> Result<GridSpec, Box<dyn std::error::Error>> {
    let from = arguments.seconds;
    let changes = LOADED.iter().flat_map(|link| {
        [
            format!("at {from}s link {link} rate=5mbit"),
            format!("at {}s link {link} rate=50mbit", 2 * from),
        ]
    });
    let add = |spec: GridSpec, change: String| -> Result<GridSpec, TimelineError> {
        spec.with_change(&change)
    };
    Ok(changes.into_iter().try_fold(GridSpec::from_emulate(GRID)?, add)?)
}

/// Returns the median time of each part without its first broadcasts, which still adapt to the
/// change.
fn medians(samples: &[Sample], part: Duration) -> [Option<Duration>; 3] {
    /// Time allowed to detect the change and plan again.
    const SETTLING: Duration = Duration::from_secs(5);
    [0, 1, 2].map(|number| {
        let (begin, end) = (part * number, part * (number + 1));
        let settled = begin + SETTLING.min(part / 2);
        let mut times: Vec<Duration> = samples
            .iter()
            .filter(|(at, _)| (settled..end).contains(at))
            .map(|&(_, took)| took)
            .collect();
        times.sort_unstable();
        times.get(times.len() / 2).copied()
    })
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let spec = grid(arguments)?;
    let part = Duration::from_secs(arguments.seconds);
    let place = if arguments.simulated { "virtual" } else { "real" };
    println!("{} bytes over {GRID}, in {place} time; medians in ms", arguments.bytes);
    println!("{:<24}{:>10}{:>10}{:>10}", "", "quiet", "loaded", "quiet");
    for (name, mode) in [("the layout's tree", Mode::Layout), ("planned", Mode::Planned)] {
        let (out, samples) = mpsc::channel();
        let job = job(mode, arguments, out);
        match arguments.simulated {
            true => Simulation::new(job, spec.clone(), SimOptions::default())?.run().outcome?,
            false => embedded::run_emulated(job, &spec)?,
        }
        let samples: Vec<Sample> = samples.iter().collect();
        let shown = medians(&samples, part).map(|median| match median {
            Some(median) => format!("{:>10.1}", 1e3 * median.as_secs_f64()),
            None => format!("{:>10}", "-"),
        });
        println!("{name:<24}{}", shown.concat());
    }
    Ok(())
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
