//! The page of figures: generated tables between markers, and prose that is kept.
//!
//! A table begins behind the line `<!-- figures: NAME -->` and ends before
//! `<!-- end of figures -->`. Rows of suites that have no new run stay as they are, so that the
//! page may be written part by part; the first table gives the date and machine of each part.

use super::interval::Interval;
use super::record::{Figure, FigureRecord};
use super::rows::{ROWS, Row, RowTable};
use super::table::table_line;
use super::unit::{FigureGoal, FigureUnit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The end of a generated part.
const END: &str = "<!-- end of figures -->";
const RUNS_HEAD: &str = "\
| part | date | commit | took | compiler | machine |
| --- | --- | --- | --- | --- | --- |";
const FIGURES_HEAD: &str = "\
| figure (`cargo bench --bench …`) | ours | baseline | ratio | goal |
| --- | --- | --- | --- | --- |";
const CAMPAIGN_HEAD: &str = "| what happened | count |\n| --- | --- |";

/// The suite of the fault campaign, whose values are in a separate table.
const CAMPAIGN: &str = "campaign";

/// A part of the figures, from one run of its suite or command.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PageRun {
    /// The name of the suite.
    pub suite: String,
    /// The time that the run took, in seconds.
    pub took_s: u64,
    /// Its records.
    pub records: Vec<FigureRecord>,
}

/// Error of [`update_page`]. The page does not change.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// A generated part has no markers.
    #[error("the page has no part between `<!-- figures: {0} -->` and `{END}`")]
    NoPart(&'static str),
    /// A run lacks a figure of the page; run the whole suite.
    #[error("the run of {suite} has no figure `{title}`; run the whole suite")]
    NoFigure {
        /// The suite.
        suite: &'static str,
        /// The title of the figure.
        title: &'static str,
    },
    /// A comparison lacks a program of the page.
    #[error("the figure `{title}` has no `{baseline}` beside it")]
    NoBaseline {
        /// The title of the figure.
        title: &'static str,
        /// The name of the program.
        baseline: &'static str,
    },
    /// Figures of one row are of two runs, so that they cannot be compared; run the suite again.
    #[error("the row `{row}` mixes the runs {first} and {second}; run the suite again")]
    TwoRuns {
        /// The first cell of the row.
        row: &'static str,
        /// The run of its first figure.
        first: String,
        /// Another run.
        second: String,
    },
}

/// Returns the page with the rows of these runs. Fails if the page lacks a marker, if a run lacks a
/// figure or a baseline of the page, or if the figures of a row are of two runs.
pub fn update_page(page: &str, runs: &[PageRun]) -> Result<String, PageError> {
    let mut page = replace(page, "runs", |old| Ok(runs_table(old, runs)))?;
    let mut missed = Vec::new();
    for (name, table) in [("measured", RowTable::Measured), ("computed", RowTable::Computed)] {
        page = replace(&page, name, |old| {
            let lines = rows_of_table(table, old, runs)?;
            missed.extend(missed_of(&lines));
            Ok(format!("{FIGURES_HEAD}\n{}", lines.join("\n")))
        })?;
    }
    if let Some(run) = runs.iter().find(|run| run.suite == CAMPAIGN) {
        page = replace(&page, CAMPAIGN, |_| Ok(campaign_table(run)))?;
    }
    let none = || vec!["All goals are met.".to_owned()];
    let missed = if missed.is_empty() { none() } else { missed };
    replace(&page, "missed", |_| Ok(missed.join("\n")))
}

/// Returns the README with an updated table of figures: a row of the page replaces the row with the
/// same first cell. A row that the page does not have stays as it is.
pub fn update_readme(readme: &str, page: &str) -> String {
    let mut is_figures = false;
    let mut lines = Vec::new();
    for line in readme.lines() {
        is_figures = line.starts_with("| figure") || is_figures && line.starts_with('|');
        let is_row = is_figures && first_cell(line) != "---";
        let is_same = |row: &&str| is_row && first_cell(row) == first_cell(line);
        lines.push(page.lines().filter(|row| row.starts_with('|')).find(is_same).unwrap_or(line));
    }
    lines.join("\n") + "\n"
}

/// Replaces the generated part of this name.
fn replace(
    page: &str,
    name: &'static str,
    new: impl FnOnce(&str) -> Result<String, PageError>,
) -> Result<String, PageError> {
    let begin = format!("<!-- figures: {name} -->\n");
    let (before, rest) = page.split_once(&begin).ok_or(PageError::NoPart(name))?;
    let (old, after) = rest.split_once(END).ok_or(PageError::NoPart(name))?;
    Ok(format!("{before}{begin}\n{}\n\n{END}{after}", new(old.trim())?.trim()))
}

fn first_cell(line: &str) -> &str {
    line.split('|').nth(1).unwrap_or_default().trim()
}

/// Returns the rows of an existing table by their first cell, each with the lines below it whose
/// first cell is empty.
fn existing(table: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut rows: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut of = "";
    for line in table.lines().filter(|line| line.starts_with('|')).skip(2) {
        if !first_cell(line).is_empty() {
            of = first_cell(line);
        }
        rows.entry(of).or_default().push(line);
    }
    rows
}

fn runs_table(old: &str, runs: &[PageRun]) -> String {
    let mut rows: BTreeMap<String, String> = existing(old)
        .into_iter()
        .map(|(part, lines)| (part.to_owned(), lines.join("\n")))
        .collect();
    for PageRun { suite, took_s, records } in runs {
        if let Some(FigureRecord { run, .. }) = records.first() {
            let (part, took) = (format!("`{suite}`"), format!("{took_s} s"));
            let row =
                table_line(&[&part, &run.date, &run.commit, &took, &run.compiler, &run.machine]);
            rows.insert(part, row);
        }
    }
    let rows: Vec<String> = rows.into_values().collect();
    format!("{RUNS_HEAD}\n{}", rows.join("\n"))
}

fn rows_of_table(table: RowTable, old: &str, runs: &[PageRun]) -> Result<Vec<String>, PageError> {
    let existing = existing(old);
    let mut lines = Vec::new();
    for row in ROWS.iter().filter(|row| row.table == table) {
        match runs.iter().find(|run| run.suite == row.suite) {
            Some(run) => lines.extend(lines_of(row, &run.records)?),
            None => {
                let kept = existing.get(row.figure).into_iter().flatten();
                lines.extend(kept.map(|&line| line.to_owned()));
            }
        }
    }
    Ok(lines)
}

fn lines_of(row: &Row, records: &[FigureRecord]) -> Result<Vec<String>, PageError> {
    let records = records_of(row, records)?;
    let ours = joined(records.iter().map(|record| Ok(ours(record))))?;
    let own_goal = joined(records.iter().map(|record| Ok(own_goal(record))))?;
    if row.baselines.is_empty() {
        return Ok(vec![table_line(&[row.figure, &ours, "", "", &own_goal])]);
    }
    let mut lines = Vec::new();
    for (place, &name) in row.baselines.iter().enumerate() {
        let beside =
            || records.iter().zip(row.titles).map(|(record, title)| beside(record, title, name));
        let values = joined(beside().map(|cells| cells.map(|cells| cells.value)))?;
        let ratio = joined(beside().map(|cells| cells.map(|cells| cells.ratio)))?;
        let goal = joined(beside().map(|cells| cells.map(|cells| cells.goal)))?;
        let baseline =
            if values.is_empty() { name.to_owned() } else { format!("{name}, {values}") };
        lines.push(match place {
            0 => {
                let goals = [own_goal.as_str(), goal.as_str()];
                let goals: Vec<&str> = goals.into_iter().filter(|goal| !goal.is_empty()).collect();
                table_line(&[row.figure, &ours, &baseline, &ratio, &goals.join("; ")])
            }
            _ => table_line(&["", "", &baseline, &ratio, &goal]),
        });
    }
    Ok(lines)
}

/// Returns the records of a row, which must be of one run.
fn records_of<'a>(
    row: &Row,
    records: &'a [FigureRecord],
) -> Result<Vec<&'a FigureRecord>, PageError> {
    let mut found: Vec<&FigureRecord> = Vec::new();
    for &title in row.titles {
        let record = records.iter().rev().find(|record| record.title == title);
        let record = record.ok_or(PageError::NoFigure { suite: row.suite, title })?;
        if let Some(first) = found.first().filter(|first| first.run.id != record.run.id) {
            let (first, second) = (first.run.id.clone(), record.run.id.clone());
            return Err(PageError::TwoRuns { row: row.figure, first, second });
        }
        found.push(record);
    }
    Ok(found)
}

/// Joins the texts of several figures with slashes; equal ones are given once.
fn joined(texts: impl Iterator<Item = Result<String, PageError>>) -> Result<String, PageError> {
    let texts: Vec<String> = texts.collect::<Result<_, _>>()?;
    let is_same = texts.windows(2).all(|pair| pair[0] == pair[1]);
    Ok(if is_same { texts.into_iter().next().unwrap_or_default() } else { texts.join(" / ") })
}

fn ours(record: &FigureRecord) -> String {
    match &record.figure {
        Figure::Comparison(comparison) => comparison.unit.show(comparison.ours.time_ns.median),
        Figure::Single { unit, time_ns, .. } => unit.show(time_ns.median),
        Figure::Value(value) => value.ours.clone(),
    }
}

/// The goal of ours alone.
fn own_goal(record: &FigureRecord) -> String {
    let judged = |goal: Option<FigureGoal>, unit: FigureUnit, time_ns: Interval| {
        goal.map(|goal| goal.show(unit, time_ns)).unwrap_or_default()
    };
    match &record.figure {
        Figure::Comparison(comparison) => {
            judged(comparison.ours.limit, comparison.unit, comparison.ours.time_ns)
        }
        Figure::Single { unit, time_ns, goal } => judged(*goal, *unit, *time_ns),
        Figure::Value(value) => {
            let goal = value.goal.as_ref();
            goal.map(|(goal, verdict)| format!("{goal}: {verdict}")).unwrap_or_default()
        }
    }
}

/// The cells of a baseline.
struct Cells {
    value: String,
    ratio: String,
    goal: String,
}

fn beside(
    record: &FigureRecord,
    title: &'static str,
    baseline: &'static str,
) -> Result<Cells, PageError> {
    let missing = PageError::NoBaseline { title, baseline };
    match &record.figure {
        Figure::Comparison(comparison) => {
            let found = comparison.baseline(baseline).ok_or(missing)?;
            let unit = comparison.unit;
            let goal = found.goal.map(|goal| goal.show(unit, found.ratio));
            Ok(Cells {
                value: unit.show(found.program.time_ns.median),
                ratio: found.ratio.to_string(),
                goal: goal.unwrap_or_default(),
            })
        }
        Figure::Value(value) => {
            let place = value.others.iter().position(|(name, _)| name == baseline);
            let place = place.ok_or(missing)?;
            let ratio = value.ratio.clone().filter(|_| place == 0).unwrap_or_default();
            Ok(Cells { value: value.others[place].1.clone(), ratio, goal: String::new() })
        }
        Figure::Single { .. } => Err(missing),
    }
}

/// Returns a line of the list for each goal of a table that is not met.
fn missed_of(lines: &[String]) -> Vec<String> {
    let mut figure = "";
    let mut missed = Vec::new();
    let is_open = |goal: &str| ["missed", "lose", "not decided"].iter().any(|w| goal.contains(w));
    for line in lines {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, first, ours, baseline, ratio, goal, ..] = cells[..] else { continue };
        if !first.is_empty() {
            figure = first;
        }
        for goal in goal.split("; ").filter(|goal| is_open(goal)) {
            missed.push(if is_of_ratio(goal) && !ratio.is_empty() {
                format!("- {figure}, beside {baseline}: {ratio}, {goal}")
            } else {
                format!("- {figure}: {ours}, {goal}")
            });
        }
    }
    missed
}

/// Whether this text of a goal and its verdict is about a ratio: then its number has no unit.
fn is_of_ratio(goal: &str) -> bool {
    let bound = goal.split(':').next().unwrap_or_default();
    let last = bound.split(' ').next_back().unwrap_or_default();
    last == "faster" || last.parse::<f64>().is_ok()
}

fn campaign_table(run: &PageRun) -> String {
    let rows = run.records.iter().filter_map(|record| match &record.figure {
        Figure::Value(value) => Some(format!("| {} | {} |", record.title, value.ours)),
        _ => None,
    });
    format!("{CAMPAIGN_HEAD}\n{}", rows.collect::<Vec<_>>().join("\n"))
}
