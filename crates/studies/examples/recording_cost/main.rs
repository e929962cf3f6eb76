//! The cost of recording a job, and of watching its counters.
//!
//! ```text
//! cargo run --release -p gridspan-studies --example recording_cost
//! ```
//!
//! All alternatives of a table run once in each round, close together in time, in an order that is
//! reversed from round to round. A ratio is the median of the ratios of the rounds, with its
//! interval of 95 % (`gridspan_jobs::paired`). `off again` is a second run of `off` in each round:
//! its ratio shows how exact the measurement is on this machine.
//!
//! - *Messages* are in one process, on one PE or between two: ns for each message without
//!   observation, with the counters read five times a second, and with all events recorded.
//! - *leanmd* on two PEs of one process, and on four processes at two emulated sites: processor
//!   time of all threads and processes, with the launcher. With four processes, `counters` means
//!   that `gridctl top` runs beside them; its own time does not count.
//! - *A sample of top* is the time that a node takes for a sample, as the nodes measure it: for
//!   each tick, the mean and the maximum over the nodes. `processor_micros` of `gridctl top --json`
//!   is the processor time, for which there is a goal. `telemetry_micros` is the time by the clock.
//!   Where PEs are busy on all processors, it includes the time in which they had the processor.
//!
//! Linux only. Nothing else should run on the machine.

mod messages;
mod molecules;
mod observed;
mod turns;

use clap::Parser;
use gridspan_jobs::paired::MedianEstimate;
use gridspan_studies::figures::{FigureGoal, FigureUnit};
use messages::BENCHES;
use molecules::{Molecules, SampleTimes, WatchedRun};
use observed::Observed;
use std::cell::RefCell;
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;
use turns::{Alternative, in_turns};

/// Goal for the processor time of a recorded job, divided by that of the job alone.
const RECORDED_MAX: f64 = 1.02;
/// Goal for the processor time of a sample, for each node and tick.
const SAMPLE_MAX: Duration = Duration::from_micros(20);

#[derive(Parser)]
#[command(about = "Measures what it costs to record a job, and to watch its counters")]
struct Options {
    /// Number of rounds of each table; with fewer than 6, the range replaces the interval.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Number of messages of a run, in millions.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=1000))]
    millions: u64,
    /// Steps of molecular dynamics.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    steps: u64,
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
    message_times(options)?;
    let molecules = Molecules::new(options.steps)?;
    on_threads(options, &molecules)?;
    let samples = in_processes(options, &molecules)?;
    println!("\na sample of top, of {} ticks: processor time", samples.processor.mean_ns.len());
    print_times(&samples.processor, true);
    println!("\nthe same samples: time by the clock");
    print_times(&samples.wall, false);
    Ok(())
}

fn print_times(times: &SampleTimes, has_goal: bool) {
    for (name, values) in [("mean", &times.mean_ns), ("largest", &times.largest_ns)] {
        let estimate = MedianEstimate::of(values);
        let [median, low, high] = [estimate.median, estimate.low, estimate.high]
            .map(|value| FigureUnit::Time.show(value));
        let goal = has_goal.then(|| FigureGoal::limit(SAMPLE_MAX));
        let verdict = goal.map(|goal| goal.show(FigureUnit::Time, estimate.into()));
        println!("{name:>12}  {median} [{low}, {high}]  {}", verdict.unwrap_or_default());
    }
}

fn message_times(options: &Options) -> Result<(), Box<dyn Error>> {
    for bench in BENCHES {
        let alternative = |name, by: Observed| {
            let measure = move || messages::measure(bench, options.millions * 1_000_000, by);
            Alternative::new(name, measure)
        };
        let alternatives = vec![
            alternative("off", Observed::Nothing),
            alternative("off again", Observed::Nothing),
            alternative("counters", Observed::Counters),
            alternative("events", Observed::Events),
        ];
        let title = format!("{}: time of a message", bench.name);
        in_turns(options.rounds, alternatives)?.print(&title);
    }
    Ok(())
}

fn on_threads(options: &Options, molecules: &Molecules) -> Result<(), Box<dyn Error>> {
    let alternative = |name, is_recorded| {
        Alternative::new(name, move || molecules.on_threads(is_recorded))
            .goal(is_recorded.then_some(FigureGoal::Ratio(RECORDED_MAX)))
    };
    let alternatives = vec![
        alternative("off", false),
        alternative("off again", false),
        alternative("events", true),
    ];
    let table = in_turns(options.rounds, alternatives)?;
    table.print("leanmd on two PEs of a process: processor time");
    Ok(())
}

/// Returns the times of the samples of all runs that were watched.
fn in_processes(options: &Options, molecules: &Molecules) -> Result<WatchedRun, Box<dyn Error>> {
    let samples = RefCell::new(WatchedRun::default());
    let alternatives = vec![
        Alternative::new("off", || molecules.in_processes(Observed::Nothing).map(|it| it.work_ns)),
        Alternative::new("off again", || {
            molecules.in_processes(Observed::Nothing).map(|it| it.work_ns)
        }),
        Alternative::new("counters", || {
            let run = molecules.in_processes(Observed::Counters)?;
            let mut samples = samples.borrow_mut();
            samples.wall.extend(&run.wall);
            samples.processor.extend(&run.processor);
            Ok(run.work_ns)
        }),
        Alternative::new("events", || {
            molecules.in_processes(Observed::Events).map(|it| it.work_ns)
        })
        .goal(Some(FigureGoal::Ratio(RECORDED_MAX))),
    ];
    let table = in_turns(options.rounds, alternatives)?;
    table.print("leanmd on four processes at two sites: processor time");
    Ok(samples.into_inner())
}
