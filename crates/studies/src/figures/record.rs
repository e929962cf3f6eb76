//! The records of measured figures: a line of JSON for each figure and run. All programs of a
//! comparison are in one record, so that a ratio is always of one run.

use super::interval::Interval;
use super::unit::{FigureGoal, FigureUnit, FigureVerdict};
use gridspan_jobs::paired::MedianEstimate;
use serde::{Deserialize, Serialize};

/// The run of a program that measured something.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FigureRun {
    /// Identifies the run: its begin and its process.
    pub id: String,
    /// The day, in UTC, as in `2026-01-31`.
    pub date: String,
    /// The commit, with `+` behind it if files were changed since; empty if it is not known.
    pub commit: String,
    /// The processor, the number of cores, the memory and the kernel.
    pub machine: String,
    /// The compiler and its version.
    pub compiler: String,
}

/// One figure, as one run has measured it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FigureRecord {
    /// The run.
    pub run: FigureRun,
    /// The name of the bench, or the command.
    pub suite: String,
    /// The name of the figure, unique in its suite.
    pub title: String,
    /// The measured values.
    pub figure: Figure,
}

/// The measured values of a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Programs that took turns.
    Comparison(Comparison),
    /// A time that criterion measured.
    Single {
        /// The unit to show it in.
        unit: FigureUnit,
        /// The time of an operation in nanoseconds.
        time_ns: Interval,
        /// Its goal.
        goal: Option<FigureGoal>,
    },
    /// A value that is not a time.
    Value(ComputedValue),
}

/// Programs that took turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The unit to show times in.
    pub unit: FigureUnit,
    /// Number of rounds.
    pub rounds: usize,
    /// The program of Gridspan.
    pub ours: ComparedProgram,
    /// The programs that it is compared with.
    pub baselines: Vec<ComparedBaseline>,
}

/// The cost of an operation of one program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparedProgram {
    /// Its name.
    pub name: String,
    /// The time in nanoseconds.
    pub time_ns: Interval,
    /// The processor time in nanoseconds, of all threads and processes and of their start.
    pub work_ns: f64,
    /// The goal for the time.
    pub limit: Option<FigureGoal>,
}

/// A program beside ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparedBaseline {
    /// Its cost.
    pub program: ComparedProgram,
    /// The ratio of our time or rate to that of the baseline, from the rounds of this run.
    pub ratio: Interval,
    /// The goal for the ratio.
    pub goal: Option<FigureGoal>,
}

/// The times of one program, in all rounds.
#[derive(Clone, Debug, Default)]
pub struct ProgramRounds {
    /// The name of the program.
    pub name: String,
    /// The time of an operation in each round, in nanoseconds.
    pub times_ns: Vec<f64>,
    /// The sum of the processor times of an operation over all rounds, in nanoseconds.
    pub works_ns: f64,
    /// The goal for the ratio of ours to it, or for its time.
    pub goal: Option<FigureGoal>,
}

impl ProgramRounds {
    fn cost(&self) -> ComparedProgram {
        ComparedProgram {
            name: self.name.clone(),
            time_ns: MedianEstimate::of(&self.times_ns).into(),
            work_ns: self.works_ns / self.times_ns.len().max(1) as f64,
            limit: self.goal.filter(|goal| matches!(goal, FigureGoal::Limit(_))),
        }
    }
}

impl Comparison {
    /// Evaluates the rounds of programs that took turns.
    pub fn new(unit: FigureUnit, ours: &ProgramRounds, others: &[ProgramRounds]) -> Self {
        let baselines = others.iter().map(|other| {
            let pairs = ours.times_ns.iter().zip(&other.times_ns);
            let ratios: Vec<f64> =
                pairs.map(|(&ours, &theirs)| unit.ratio_of_times(ours, theirs)).collect();
            ComparedBaseline {
                program: other.cost(),
                ratio: MedianEstimate::of(&ratios).into(),
                goal: other.goal.filter(|goal| matches!(goal, FigureGoal::Ratio(_))),
            }
        });
        let baselines = baselines.collect();
        Self { unit, rounds: ours.times_ns.len(), ours: ours.cost(), baselines }
    }

    /// Returns the baseline of this name.
    pub fn baseline(&self, name: &str) -> Option<&ComparedBaseline> {
        self.baselines.iter().find(|baseline| baseline.program.name == name)
    }
}

/// A value that is not a time, with those of other methods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ComputedValue {
    /// The value as text, with its unit.
    pub ours: String,
    /// Values of other methods: name and value.
    pub others: Vec<(String, String)>,
    /// The ratio of ours to the first of them, as text.
    pub ratio: Option<String>,
    /// The goal as text, and whether it is met.
    pub goal: Option<(String, FigureVerdict)>,
}

impl ComputedValue {
    /// A value without values of other methods.
    pub fn new(ours: impl Into<String>) -> Self {
        Self { ours: ours.into(), ..Self::default() }
    }

    /// Adds the value of another method.
    #[must_use]
    pub fn beside(mut self, name: &str, value: impl Into<String>) -> Self {
        self.others.push((name.to_owned(), value.into()));
        self
    }

    /// Sets the ratio to the first other method.
    #[must_use]
    pub fn ratio(mut self, ratio: impl Into<String>) -> Self {
        self.ratio = Some(ratio.into());
        self
    }

    /// Sets the goal.
    #[must_use]
    pub fn goal(mut self, goal: impl Into<String>, is_met: bool) -> Self {
        self.goal = Some((goal.into(), FigureVerdict::of(is_met)));
        self
    }
}

/// Returns the records of a file of lines. Lines that are no records, such as those of an older
/// form, are left out.
pub fn parse_records(text: &str) -> Vec<FigureRecord> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Returns the last of the records of this title that is of the same machine.
pub fn last_of<'a>(
    records: &'a [FigureRecord],
    title: &str,
    machine: &str,
) -> Option<&'a FigureRecord> {
    records.iter().rev().find(|record| record.title == title && record.run.machine == machine)
}
