//! Figures measured in turns, recorded by criterion, and printed next to those of their
//! competitors.
//!
//! All contenders of one comparison run once per round, so that other load on the machine affects
//! all of them alike, and their medians can be divided. The table also gives the processor time of
//! all threads and second processes, including their start: it measures the work even where the
//! machine is busy, and counts busy waiting as work. Criterion gets the same samples, for its
//! history and its filters. A run as a test makes one short round.

use criterion::{Criterion, SamplingMode};
use std::cell::{OnceCell, RefCell};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// The measurement of a contender in one round.
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

/// The unit of a figure, which determines whether more is better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Unit {
    /// The time of an operation; less is better.
    Time,
    /// Operations per second; more is better.
    Rate,
    /// Bits per second, given the number of bytes of an operation; more is better.
    Bits(u64),
}

impl Unit {
    fn show(self, nanoseconds: f64) -> String {
        match self {
            Self::Time if nanoseconds < 1e3 => format!("{nanoseconds:.2} ns"),
            Self::Time if nanoseconds < 1e6 => format!("{:.2} µs", nanoseconds / 1e3),
            Self::Time => format!("{:.2} ms", nanoseconds / 1e6),
            Self::Rate if nanoseconds < 1e4 => format!("{:.2} M/s", 1e3 / nanoseconds),
            Self::Rate => format!("{:.0} /s", 1e9 / nanoseconds),
            Self::Bits(bytes) => {
                let gigabits = 8.0 * bytes as f64 / nanoseconds;
                if gigabits < 1.0 {
                    format!("{:.2} Mbit/s", gigabits * 1e3)
                } else {
                    format!("{gigabits:.2} Gbit/s")
                }
            }
        }
    }

    /// Returns the ratio of ours to a peer, in the direction of the unit.
    fn ratio(self, ours: f64, peer: f64) -> f64 {
        match self {
            Self::Time => ours / peer,
            Self::Rate | Self::Bits(_) => peer / ours,
        }
    }

    fn judge(self, ratio: f64, goal: f64) -> String {
        let (sign, met) = match self {
            Self::Time => ("<=", ratio <= goal),
            Self::Rate | Self::Bits(_) => (">=", ratio >= goal),
        };
        format!("{sign} {goal} {}", if met { "met" } else { "MISSED" })
    }
}

/// One of the programs under comparison.
pub(crate) struct Contender<'a> {
    name: &'static str,
    goal: Option<f64>,
    limit: Option<Duration>,
    run: Box<dyn FnMut() -> Sample + 'a>,
}

impl<'a> Contender<'a> {
    /// A contender that `run` measures, repeatedly.
    pub(crate) fn new(name: &'static str, run: impl FnMut() -> Sample + 'a) -> Self {
        Self { name, goal: None, limit: None, run: Box::new(run) }
    }

    /// Sets the ratio that ours should have to this peer: at most for times, at least for rates.
    pub(crate) fn goal(mut self, ratio: f64) -> Self {
        self.goal = Some(ratio);
        self
    }

    /// Sets the maximum time of an operation of this contender.
    pub(crate) fn limit(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    fn judge(&self, unit: Unit, ratio: f64, nanoseconds: f64) -> String {
        match (self.goal, self.limit) {
            (Some(goal), _) => unit.judge(ratio, goal),
            (None, Some(limit)) => {
                let met = nanoseconds <= limit.as_nanos() as f64;
                format!("<= {limit:?} {}", if met { "met" } else { "MISSED" })
            }
            (None, None) => String::new(),
        }
    }
}

/// All figures of one bench.
pub(crate) struct Figures {
    criterion: Criterion,
    quick: bool,
    lines: Vec<String>,
}

impl Figures {
    /// Reads the arguments of the process.
    pub(crate) fn new() -> Self {
        let has = |name: &str| std::env::args().any(|argument| argument == name);
        // As criterion does: `cargo test` does not pass `--bench`.
        let quick = has("--test") || !has("--bench");
        let criterion = Criterion::default()
            .sample_size(10)
            .warm_up_time(Duration::from_nanos(1))
            .measurement_time(Duration::from_millis(1))
            .configure_from_args();
        Self { criterion, quick, lines: Vec::new() }
    }

    /// Returns `full` in a real run and `quick` in a run as a test.
    pub(crate) fn choose<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// Measures contenders in turns for `rounds` rounds. The first contender is ours.
    pub(crate) fn compare(
        &mut self,
        title: &str,
        unit: Unit,
        rounds: usize,
        contenders: Vec<Contender<'_>>,
    ) {
        let rounds = self.choose(rounds, 1);
        let names: Vec<_> = contenders.iter().map(|contender| contender.name).collect();
        let contenders = RefCell::new(contenders);
        let measured = OnceCell::new();
        // Measures when criterion first runs one of them, so that its filters save the time.
        let samples = || measured.get_or_init(|| in_turns(&mut contenders.borrow_mut(), rounds));
        let mut group = self.criterion.benchmark_group(title);
        group.sampling_mode(SamplingMode::Flat);
        for (position, name) in names.iter().enumerate() {
            let mut next = 0;
            group.bench_function(*name, |bencher| {
                bencher.iter_custom(|iterations| {
                    let all: &Vec<Cost> = &samples()[position];
                    next += 1;
                    Duration::from_nanos((all[next % all.len()].time * iterations as f64) as u64)
                });
            });
        }
        group.finish();
        let Some(samples) = measured.get() else { return };
        let medians: Vec<Cost> = samples.iter().map(|all| Cost::median(all)).collect();
        for (contender, cost) in contenders.borrow().iter().zip(&medians) {
            let ratio = unit.ratio(medians[0].time, cost.time);
            let judged = contender.judge(unit, ratio, cost.time);
            let (name, value) = (contender.name, unit.show(cost.time));
            let work = Unit::Time.show(cost.work);
            let work_ratio = medians[0].work / cost.work;
            self.lines.push(format!(
                "| {title} | {name} | {value} | {ratio:.2} | {judged} | {work} | {work_ratio:.2} |"
            ));
        }
    }

    /// Adds a figure that was measured elsewhere.
    pub(crate) fn note(&mut self, title: &str, name: &str, value: &str) {
        self.lines.push(format!("| {title} | {name} | {value} | | | | |"));
    }

    /// Whether the filters of the command line select figures that start with `title`.
    pub(crate) fn wants(&self, title: &str) -> bool {
        let mut filters = std::env::args().skip(1).filter(|argument| !argument.starts_with('-'));
        filters.next().is_none_or(|filter| title.contains(&filter))
    }

    /// Prints the table.
    pub(crate) fn finish(self) {
        self.criterion.final_summary();
        let kind = if self.quick { " (one short round: no figures to quote)" } else { "" };
        println!("\nMedians{kind}; the ratio is ours against this.\n");
        println!("| figure | program | median | ratio | goal | processor time each | its ratio |");
        println!("| --- | --- | --- | --- | --- | --- | --- |");
        self.lines.iter().for_each(|line| println!("{line}"));
    }
}

/// The cost of one operation in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Cost {
    time: f64,
    /// Processor time.
    work: f64,
}

impl Cost {
    fn median(costs: &[Self]) -> Self {
        let of = |part: fn(&Self) -> f64| median(costs.iter().map(part).collect());
        Self { time: of(|cost| cost.time), work: of(|cost| cost.work) }
    }
}

fn in_turns(contenders: &mut [Contender<'_>], rounds: usize) -> Vec<Vec<Cost>> {
    let mut costs = vec![Vec::new(); contenders.len()];
    for _ in 0..rounds {
        for (contender, costs) in contenders.iter_mut().zip(&mut costs) {
            let before = processor_time();
            let sample = (contender.run)();
            let work = processor_time().saturating_sub(before);
            let whole = Sample { elapsed: work, ..sample };
            let (time, work) = (sample.nanoseconds_each(), whole.nanoseconds_each());
            costs.push(Cost { time, work });
        }
    }
    costs
}

/// Returns the processor time of this process and its ended children, in steps of 10 ms.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name, in parentheses, may contain anything; user and system time, and those of the
    // children, are the 12th to 15th words after it.
    let words = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks = words.skip(11).take(4).filter_map(|word| word.parse::<u64>().ok()).sum::<u64>();
    Duration::from_millis(10 * ticks)
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    let middle = samples.len() / 2;
    match samples.len() % 2 {
        0 => (samples[middle - 1] + samples[middle]) / 2.0,
        _ => samples[middle],
    }
}
