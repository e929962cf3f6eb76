//! The time of a step of a Jacobi iteration on two sites, over the latency between them, as a table
//! and as a chart. With 1, 4 and 16 ranks per PE, ranks wait for each message in turn; for
//! comparison, one rank per PE overlaps its messages with computing. After Koenig and Kalé (2005),
//! "Using Message-Driven Objects to Mask Latency in Grid Computing Applications".
//!
//! ```text
//! cargo run --release -p gridspan-studies --example jacobi_latency -- --out figure.svg
//! cargo run --release -p gridspan-studies --example jacobi_latency -- --real
//! ```
//!
//! The first command runs in virtual time on 128 PEs: 512 by 512 points, of which a PE computes its
//! 2048 in 24.576 ms. The second runs 64 by 64 points in real time on 2 PEs, which communicate by
//! QUIC over an emulated link and wait for 12 µs for each point. There the series take turns, in an
//! order that is reversed from round to round, and a time is the median of the rounds with its
//! range, or from 6 rounds with its interval of 95 % (`gridspan_jobs::paired`).
//!
//! # The bound
//!
//! A step of a subdomain needs the faces of its neighbours after the previous step. So with one
//! layer of ghost points, a step takes on average at least one latency between the sites, and at
//! least the compute time of the points of a PE: the bound is the larger of the two.
//!
//! A step can take longer, because some points can be computed only after a message from the other
//! site has arrived: all points of a rank with the blocking exchange, and those of the border with
//! the overlapped one. Only ranks that exchange several layers at once could be faster than the
//! bound, since one message would serve several steps. They would compute the points of these
//! layers twice.

use clap::Parser;
use gridspan_jobs::jacobi::job::{JacobiOptions, job_with};
use gridspan_jobs::paired::{MedianEstimate, ROUNDS_MIN};
use gridspan_runtime::driver::embedded;
use gridspan_sim::{SimOptions, Simulation};
use gridspan_studies::charts::{Curve, Panel, Scale, picture};
use gridspan_topology::GridSpec;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

/// Name, and arguments of the job. The overlapped one is the last.
const SERIES: [(&str, &str); 4] = [
    ("1 rank, blocking", "--exchange blocking --ranks-per-pe 1"),
    ("4 ranks, blocking", "--exchange blocking --ranks-per-pe 4"),
    ("16 ranks, blocking", "--exchange blocking --ranks-per-pe 16"),
    ("1 rank, overlapped", "--exchange overlap --ranks-per-pe 1"),
];
const OVERLAPPED: usize = SERIES.len() - 1;

/// Width of a column of times.
const WIDTH: usize = 19;
/// The same if each has its range.
const WIDTH_WITH_RANGE: usize = 26;

/// A problem, and where it runs.
struct Setting {
    /// In ms, one way.
    latencies: &'static [u64],
    /// On two sites of one PE per node.
    pes: u32,
    /// Points along each of two axes.
    size: u32,
    point_cost: Duration,
    steps: u64,
    is_real: bool,
}

const VIRTUAL: Setting = Setting {
    latencies: &[1, 2, 4, 8, 16, 32, 64],
    pes: 128,
    size: 512,
    point_cost: Duration::from_micros(12),
    steps: 30,
    is_real: false,
};
const REAL: Setting = Setting {
    latencies: &[1, 2, 4, 8, 16, 32, 64],
    pes: 2,
    size: 64,
    point_cost: Duration::from_micros(12),
    steps: 40,
    is_real: true,
};

#[derive(Parser)]
struct Arguments {
    /// Run two PEs in real time, over QUIC.
    #[arg(long)]
    real: bool,
    /// Number of rounds in real time; with fewer than 6, the range replaces the interval.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Write the chart to this file.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let setting = if arguments.real { REAL } else { VIRTUAL };
    // In virtual time all rounds would be the same.
    let rounds = if arguments.real { arguments.rounds } else { 1 };
    match study(&setting, rounds, arguments.out) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

fn study(setting: &Setting, rounds: u32, out: Option<PathBuf>) -> Result<(), String> {
    println!("{}: ms a step", setting.title());
    let width = if setting.is_real { WIDTH_WITH_RANGE } else { WIDTH };
    print!("{:>8}", "latency");
    SERIES.iter().for_each(|(name, _)| print!(" {name:>width$}"));
    println!(" {:>9}", "bound");
    let mut curves: Vec<Vec<(f64, f64)>> = vec![Vec::new(); SERIES.len()];
    for &latency in setting.latencies {
        print!("{:>8}", format!("{latency} ms"));
        let steps = setting.in_turns(latency, rounds)?;
        for (curve, step) in curves.iter_mut().zip(&steps) {
            curve.push((latency as f64, step.median));
        }
        // The values are compared as printed, so that the marks agree with the table.
        let printed = |step: &MedianEstimate| (step.median * 100.0).round();
        let best = steps[..OVERLAPPED].iter().map(printed).fold(f64::INFINITY, f64::min);
        for (at, step) in steps.iter().enumerate() {
            let is_marked = at == OVERLAPPED && printed(step) <= best;
            let mark = if is_marked { '*' } else { ' ' };
            print!(" {:>width$}", format!("{}{mark}", shown(*step)));
        }
        println!(" {:>9.2}", setting.bound(latency));
    }
    println!("* as good as the best blocking exchange, or better");
    if setting.is_real {
        println!(
            "medians of {rounds} rounds with their range, or from {ROUNDS_MIN} rounds with their \
             interval of 95 %"
        );
    }
    if let Some(path) = out {
        let error = |error| format!("cannot write {}: {error}", path.display());
        std::fs::write(&path, chart(setting, &curves)).map_err(error)?;
    }
    Ok(())
}

/// Formats a time with its range, if it has one.
fn shown(MedianEstimate { median, low, high }: MedianEstimate) -> String {
    match low == high {
        true => format!("{median:.2}"),
        false => format!("{median:.2} [{low:.2}, {high:.2}]"),
    }
}

fn chart(setting: &Setting, curves: &[Vec<(f64, f64)>]) -> String {
    let measured = SERIES.iter().zip(curves).map(|((name, _), points)| Curve {
        name: (*name).to_owned(),
        points: points.clone(),
        is_bound: false,
    });
    let last = setting.latencies.last().copied().unwrap_or_default();
    let points = (1..=last).map(|latency| (latency as f64, setting.bound(latency)));
    let bound = Curve { name: "bound".to_owned(), points: points.collect(), is_bound: true };
    let panel = Panel {
        title: setting.title(),
        axes: ["latency between the sites, one way (ms)", "step (ms)"],
        curves: measured.chain([bound]).collect(),
    };
    picture("Jacobi iteration", Scale::Linear, &[vec![panel]])
}

impl Setting {
    fn title(&self) -> String {
        let Self { pes, size, is_real, .. } = self;
        let time = if *is_real { "real" } else { "virtual" };
        format!("{size} x {size} points, {pes} PEs at two sites, {time} time")
    }

    /// The compute time of a PE in a step.
    fn compute(&self) -> Duration {
        self.point_cost * (self.size.pow(2) / self.pes)
    }

    /// Lower bound of a step in ms.
    fn bound(&self, latency: u64) -> f64 {
        millis(self.compute()).max(latency as f64)
    }

    /// Runs each series once in each round, in an order that is reversed from round to round.
    /// Returns the times of a step in ms.
    fn in_turns(&self, latency: u64, rounds: u32) -> Result<Vec<MedianEstimate>, String> {
        let mut times: Vec<Vec<f64>> = vec![Vec::new(); SERIES.len()];
        for round in 0..rounds {
            let mut turns: Vec<_> = SERIES.iter().zip(&mut times).collect();
            if round % 2 == 1 {
                turns.reverse();
            }
            for ((_, arguments), times) in turns {
                times.push(millis(self.step(latency, arguments)?));
            }
        }
        Ok(times.iter().map(|times| MedianEstimate::of(times)).collect())
    }

    /// Runs the job, which fails if a value is wrong. Returns the time of a step.
    fn step(&self, latency: u64, arguments: &str) -> Result<Duration, String> {
        let Self { pes, size, point_cost, steps, is_real, .. } = self;
        let wait = if *is_real { "--wait" } else { "" };
        let cost = point_cost.as_nanos();
        let words = format!(
            "jacobi --size {size} --steps {steps} --check 0 --compute {cost}ns {wait} {arguments}"
        );
        let options = JacobiOptions::try_parse_from(words.split_ascii_whitespace());
        let (tell, told) = mpsc::channel();
        let job = job_with(options.map_err(|error| error.to_string())?, move |outcome| {
            tell.send(outcome.step).map_err(|error| error.to_string().into())
        });
        // Only latency is added between the sites; the bandwidth stays the same.
        let spec = format!("2x{},wan={latency}ms,rate=100gbit,lanrate=100gbit", pes / 2);
        let spec = GridSpec::from_emulate(&spec).map_err(|error| error.to_string())?;
        let outcome = match is_real {
            true => embedded::run_emulated(job, &spec),
            false => {
                let simulation = Simulation::new(job, spec, SimOptions::default());
                simulation.map_err(|error| error.to_string())?.run().outcome
            }
        };
        outcome.map_err(|error| format!("{arguments} at {latency} ms: {error}"))?;
        told.recv().map_err(|error| error.to_string())
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
