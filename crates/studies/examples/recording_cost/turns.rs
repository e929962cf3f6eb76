//! Alternatives that are measured in turns, and the table of their ratios.

use gridspan_jobs::paired::MedianEstimate;
use gridspan_studies::figures::{FigureGoal, FigureUnit};
use std::error::Error;

/// One way to run something, whose cost is measured in nanoseconds.
pub(crate) struct Alternative<'a> {
    name: &'static str,
    goal: Option<FigureGoal>,
    measure: Box<dyn FnMut() -> Result<f64, Box<dyn Error>> + 'a>,
}

impl<'a> Alternative<'a> {
    pub(crate) fn new(
        name: &'static str,
        measure: impl FnMut() -> Result<f64, Box<dyn Error>> + 'a,
    ) -> Self {
        Self { name, goal: None, measure: Box::new(measure) }
    }

    /// Sets the goal for the ratio to the first alternative.
    pub(crate) fn goal(mut self, goal: Option<FigureGoal>) -> Self {
        self.goal = goal;
        self
    }
}

/// The times of each alternative, and its goal.
pub(crate) struct Table {
    rows: Vec<(&'static str, Option<FigureGoal>, Vec<f64>)>,
}

/// Measures each alternative once a round. Every second round runs in the reverse order.
pub(crate) fn in_turns(
    rounds: u32,
    mut alternatives: Vec<Alternative<'_>>,
) -> Result<Table, Box<dyn Error>> {
    let mut rows: Vec<_> = alternatives.iter().map(|it| (it.name, it.goal, Vec::new())).collect();
    for round in 0..rounds {
        let mut turns: Vec<_> = alternatives.iter_mut().zip(&mut rows).collect();
        if round % 2 == 1 {
            turns.reverse();
        }
        for (alternative, (_, _, values)) in turns {
            values.push((alternative.measure)()?);
        }
    }
    Ok(Table { rows })
}

impl Table {
    /// Prints the medians, and the ratios to the first row.
    pub(crate) fn print(&self, title: &str) {
        println!("\n{title}");
        println!("{:>12}{:>12}  ratio to off", "", "median");
        for (at, (name, goal, values)) in self.rows.iter().enumerate() {
            let median = FigureUnit::Time.show(MedianEstimate::of(values).median);
            if at == 0 {
                println!("{name:>12}{median:>12}");
                continue;
            }
            let ratio = MedianEstimate::of_paired_ratio(values, &self.rows[0].2);
            let verdict = goal.map(|goal| goal.show(FigureUnit::Time, ratio.into()));
            println!("{name:>12}{median:>12}  {ratio}  {}", verdict.unwrap_or_default());
        }
    }
}
