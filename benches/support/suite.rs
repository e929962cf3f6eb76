//! The figures of one bench: single figures through criterion, and comparisons with other programs.
//!
//! A comparison is made in rounds. Each program runs once per round, in an order that is reversed
//! from round to round, and each round gives one ratio; `gridspan_jobs::paired` explains the
//! confidence interval of the ratio. Rounds are added until the time is used up. The processor time
//! of all threads and child processes is measured too. It shows the work even if the machine is
//! busy, but it includes busy waiting, and the start and the warm-up of the programs.
//!
//! The table at the end has one form for all figures. The suite appends each figure to
//! `target/comparisons/SUITE.jsonl` once it is measured, and the table gives the results of the
//! last run on this machine. A run as a test makes one short round, and stores and prints nothing.

use criterion::{Criterion, SamplingMode};
use gridspan_jobs::paired::ROUNDS_MIN;
use gridspan_studies::figures::{
    Comparison, ComputedValue, Figure, FigureGoal, FigureRecord, FigureRun, FigureUnit, Interval,
    ProgramRounds, TABLE_HEAD, append_record, first_filter, last_of, read_records, records_path,
    table_rows, target_folder,
};
use std::cell::Cell;
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time after which a comparison starts no further round, once it has the minimum number of rounds.
const COMPARISON_TIME: Duration = Duration::from_secs(10);
/// Maximum number of rounds: more would make the interval narrower than the variation between runs.
const ROUNDS_MAX: usize = 40;
/// The settings of criterion for single figures, most of which take milliseconds to seconds.
const SAMPLES: usize = 10;
const WARM_UP: Duration = Duration::from_millis(500);
const SINGLE_TIME: Duration = Duration::from_secs(4);
/// Criterion's file of estimates, in the folder of a figure.
const ESTIMATES: &str = "new/estimates.json";

/// The measurement of a program in one round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Time that passed.
    pub(crate) elapsed: Duration,
    /// Number of operations.
    pub(crate) operations: u64,
}

impl Sample {
    /// Measures `run`, which does `operations` operations.
    pub(crate) fn of(operations: u64, run: impl FnOnce()) -> Self {
        let begin = Instant::now();
        run();
        Self { elapsed: black_box(begin.elapsed()), operations }
    }

    fn nanoseconds_each(self) -> f64 {
        self.elapsed.as_nanos() as f64 / self.operations.max(1) as f64
    }
}

/// One of the programs of a comparison.
pub(crate) struct Contender<'a> {
    name: &'static str,
    goal: Option<FigureGoal>,
    run: Box<dyn FnMut() -> Sample + 'a>,
}

impl<'a> Contender<'a> {
    /// Creates a contender. Each call of `run` runs the program once and returns its measurement.
    pub(crate) fn new(name: &'static str, run: impl FnMut() -> Sample + 'a) -> Self {
        Self { name, goal: None, run: Box::new(run) }
    }

    /// Sets the goal for our figure divided by that of this program: a maximum for times, a minimum
    /// for rates.
    pub(crate) fn goal(mut self, ratio: f64) -> Self {
        self.goal = Some(FigureGoal::Ratio(ratio));
        self
    }

    /// Sets the goal that ours is faster than this program.
    pub(crate) fn slower(self) -> Self {
        self.goal(1.0)
    }

    /// Sets the maximum time of an operation of this program.
    pub(crate) fn limit(mut self, limit: Duration) -> Self {
        self.goal = Some(FigureGoal::limit(limit));
        self
    }

    /// Runs once, and adds the cost to `rounds`.
    fn run(&mut self, rounds: &mut ProgramRounds) {
        let before = processor_time();
        let sample = (self.run)();
        let work = processor_time().saturating_sub(before);
        rounds.times_ns.push(sample.nanoseconds_each());
        rounds.works_ns += Sample { elapsed: work, ..sample }.nanoseconds_each();
    }
}

/// The mode that the arguments of the process select.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Measure,
    /// One short round of everything.
    Test,
    /// The titles only.
    List,
}

/// All figures of one bench.
pub(crate) struct Suite {
    name: &'static str,
    mode: Mode,
    criterion: Criterion,
    /// Where criterion writes.
    estimates: PathBuf,
    records_path: PathBuf,
    run: FigureRun,
    before: Vec<FigureRecord>,
    records: Vec<FigureRecord>,
}

impl Suite {
    /// Reads the arguments of the process. `name` is that of the bench.
    pub(crate) fn new(name: &'static str) -> Self {
        let has = |name: &str| std::env::args().any(|argument| argument == name);
        // `cargo test` does not pass `--bench`; criterion uses this distinction, too.
        let mode = match () {
            () if has("--list") => Mode::List,
            () if has("--test") || !has("--bench") => Mode::Test,
            () => Mode::Measure,
        };
        let program = std::env::current_exe().unwrap_or_default();
        let target = target_folder(&program);
        let estimates = target.join("criterion");
        let criterion = Criterion::default()
            .output_directory(&estimates)
            .sample_size(SAMPLES)
            .warm_up_time(WARM_UP)
            .measurement_time(SINGLE_TIME)
            .configure_from_args();
        let records_path = records_path(&target, name);
        let is_measured = mode == Mode::Measure;
        let run = if is_measured { FigureRun::of_this_process() } else { FigureRun::default() };
        let before = if is_measured { read_records(&records_path) } else { Ok(Vec::new()) };
        let before = before.unwrap_or_else(|error| {
            eprintln!("cannot read {}: {error}", records_path.display());
            Vec::new()
        });
        let records = Vec::new();
        Self { name, mode, criterion, estimates, records_path, run, before, records }
    }

    /// Returns `full` in a real run and `quick` in a run as a test.
    pub(crate) fn choose<T>(&self, full: T, quick: T) -> T {
        if self.mode == Mode::Measure { full } else { quick }
    }

    /// Whether the filter of the command line selects figures of this title.
    pub(crate) fn wants(&self, title: &str) -> bool {
        let filter = first_filter(std::env::args().skip(1));
        let is_selected = filter.is_none_or(|filter| title.contains(&filter));
        if is_selected && self.mode == Mode::List {
            println!("{title}: benchmark");
        }
        is_selected && self.mode != Mode::List
    }

    /// Compares programs; the first is ours.
    pub(crate) fn compare(
        &mut self,
        title: &str,
        unit: FigureUnit,
        mut contenders: Vec<Contender<'_>>,
    ) {
        if !self.wants(title) {
            return;
        }
        let is_measured = self.mode == Mode::Measure;
        let rounds = in_turns(&mut contenders, is_measured);
        if let Some((ours, others)) = rounds.split_first() {
            let comparison = Comparison::new(unit, ours, others);
            self.record(title, Figure::Comparison(comparison));
        }
    }

    /// Measures a program of ours alone: an iteration of criterion is one `run`.
    pub(crate) fn single(
        &mut self,
        title: &str,
        unit: FigureUnit,
        limit: Option<Duration>,
        mut run: impl FnMut() -> Sample,
    ) {
        if !self.wants(title) {
            return;
        }
        let folder = self.estimates.join(safe(self.name)).join(safe(title));
        // An estimate of an earlier run must not count as that of this run.
        let _ = fs::remove_file(folder.join(ESTIMATES));
        let operations = Cell::new(None);
        let mut group = self.criterion.benchmark_group(self.name);
        group.sampling_mode(SamplingMode::Flat);
        group.bench_function(title, |bencher| {
            bencher.iter_custom(|iterations| {
                let mut measure = || {
                    let sample = run();
                    operations.set(Some(sample.operations));
                    sample.elapsed
                };
                (0..iterations).map(|_| measure()).sum()
            });
        });
        group.finish();
        let (Mode::Measure, Some(operations)) = (self.mode, operations.get()) else { return };
        match estimate(&folder, operations) {
            Some(time_ns) => {
                let goal = limit.map(FigureGoal::limit);
                self.record(title, Figure::Single { unit, time_ns, goal });
            }
            None => eprintln!("criterion has left no estimate in {}", folder.display()),
        }
    }

    /// Adds a value that is not a time.
    pub(crate) fn value(&mut self, title: &str, value: ComputedValue) {
        self.record(title, Figure::Value(value));
    }

    fn record(&mut self, title: &str, figure: Figure) {
        let (run, suite) = (self.run.clone(), self.name.to_owned());
        let record = FigureRecord { run, suite, title: title.to_owned(), figure };
        if self.mode == Mode::Measure
            && let Err(error) = append_record(&self.records_path, &record)
        {
            eprintln!("cannot write {}: {error}", self.records_path.display());
        }
        self.records.push(record);
    }

    /// Prints the table.
    pub(crate) fn finish(self) {
        self.criterion.final_summary();
        if self.mode != Mode::Measure || self.records.is_empty() {
            return;
        }
        println!("\n{}, {}, {}", self.run.machine, self.run.compiler, self.run.date);
        println!("\n{TABLE_HEAD}");
        for record in &self.records {
            let before = last_of(&self.before, &record.title, &self.run.machine);
            table_rows(record, before).iter().for_each(|row| println!("{row}"));
        }
    }
}

/// Runs all contenders in turns: a single time, or until the time is used up.
fn in_turns(contenders: &mut [Contender<'_>], is_measured: bool) -> Vec<ProgramRounds> {
    let named = |contender: &Contender<'_>| ProgramRounds {
        name: contender.name.to_owned(),
        goal: contender.goal,
        ..ProgramRounds::default()
    };
    let mut rounds: Vec<ProgramRounds> = contenders.iter().map(named).collect();
    let begin = Instant::now();
    let fewest = if is_measured { ROUNDS_MIN } else { 1 };
    let most = if is_measured { ROUNDS_MAX } else { 1 };
    for round in 0..most {
        if round >= fewest && begin.elapsed() >= COMPARISON_TIME {
            break;
        }
        let mut turns: Vec<_> = contenders.iter_mut().zip(&mut rounds).collect();
        if round % 2 == 1 {
            turns.reverse();
        }
        turns.into_iter().for_each(|(contender, rounds)| contender.run(rounds));
    }
    rounds
}

/// Returns criterion's estimate of the median time of an operation, with its interval.
fn estimate(folder: &Path, operations: u64) -> Option<Interval> {
    let text = fs::read_to_string(folder.join(ESTIMATES)).ok()?;
    let estimates: serde_json::Value = serde_json::from_str(&text).ok()?;
    let median = estimates.get("median")?;
    let interval = median.get("confidence_interval")?;
    let each = |value: &serde_json::Value| Some(value.as_f64()? / operations.max(1) as f64);
    Some(Interval {
        median: each(median.get("point_estimate")?)?,
        low: each(interval.get("lower_bound")?)?,
        high: each(interval.get("upper_bound")?)?,
    })
}

/// Returns the name of criterion's folder for a title of at most 64 bytes.
fn safe(title: &str) -> String {
    title.replace(['?', '"', '/', '\\', '*', '<', '>', ':', '|', '^'], "_")
}

/// Returns the processor time of this process and its ended children, in steps of 10 ms.
fn processor_time() -> Duration {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name, in parentheses, may contain anything; user and system time, and those of the
    // children, are the 12th to 15th words after it.
    let words = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks = words.skip(11).take(4).filter_map(|word| word.parse::<u64>().ok()).sum::<u64>();
    Duration::from_millis(10 * ticks)
}
