//! Executions as text: a table of heuristics, and one of the servers in the shortest execution.

use super::inputs::Inputs;
use super::trial::Trial;
use crate::quantity::{UNKNOWN, bytes, count, digits, time};
use crate::style::Style;
use crate::table::{Align, Table};
use std::time::Duration;

pub(super) fn render(
    inputs: &Inputs,
    trials: &[Trial],
    shortest: Option<&Trial>,
    style: Style,
) -> String {
    let mut text = heading(inputs);
    text.push('\n');
    text += &heuristics(inputs, trials, style);
    text += &transfers(inputs, trials);
    if let Some(trial) = shortest {
        text += &format!("\nwork of the servers with {}\n", trial.name);
        text += &servers(inputs, trial, style);
    }
    text
}

/// Describes the sources of data if these differ between heuristics, because times then depend on
/// more than the placement of tasks.
fn transfers(inputs: &Inputs, trials: &[Trial]) -> String {
    let by = |nearest| {
        let all = trials.iter().filter(|trial| trial.nearest == nearest);
        all.map(|trial| trial.name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let (nearest, first) = (by(true), by(false));
    match inputs.is_real || nearest.is_empty() || first.is_empty() {
        true => String::new(),
        false => format!(
            "data comes from the nearest copy, once to each site, by {nearest};\n\
             from its first holder, to each server by itself, by {first}\n"
        ),
    }
}

/// Formats a time in seconds with its unit.
pub(super) fn seconds(time_s: f64) -> String {
    Duration::try_from_secs_f64(time_s).map_or_else(|_| UNKNOWN.to_owned(), time)
}

/// Describes the workflow and its work on one core.
pub(super) fn workflow(inputs: &Inputs) -> String {
    let all: u64 = inputs.graph.data().iter().map(|data| data.bytes).sum();
    let recorded = inputs.recorded_s.map_or_else(String::new, |recorded_s| {
        format!("; it was recorded in {}", seconds(recorded_s))
    });
    format!(
        "{}: {} of {} on one core, with {} of data{recorded}",
        inputs.name,
        count(inputs.graph.tasks().len(), "task"),
        seconds(inputs.graph.work_s()),
        bytes(all)
    )
}

/// Describes the servers in one line.
pub(super) fn platform(inputs: &Inputs) -> String {
    format!(
        "{} with {} at {}, as {} describes them",
        count(inputs.platform.servers().len(), "server"),
        count(inputs.platform.cores() as usize, "core"),
        count(inputs.platform.sites().len(), "site"),
        inputs.source
    )
}

fn heading(inputs: &Inputs) -> String {
    let how = if inputs.is_real { "on these servers" } else { "in simulated time" };
    format!("{}\n{}; executed {how}\n", workflow(inputs), platform(inputs))
}

fn heuristics(inputs: &Inputs, trials: &[Trial], style: Style) -> String {
    let titles = [
        "HEURISTIC",
        "MAKESPAN",
        "PREDICTED",
        "SPEED-UP",
        "BETWEEN SITES",
        "OF THE CLIENT",
        "MOVED",
        "MAPPED IN",
    ];
    let align = |column| if column == 0 { Align::Left } else { Align::Right };
    let mut table = Table::new(titles.map(str::to_owned).into(), align);
    let known = |number: Option<f64>, show: fn(f64) -> String| {
        number.map_or_else(|| UNKNOWN.to_owned(), show)
    };
    for trial in trials {
        table.row(vec![
            trial.name.clone(),
            seconds(trial.execution.makespan_s),
            known(trial.predicted_s, seconds),
            known(trial.speed_up(inputs), digits),
            bytes(trial.between_sites),
            bytes(trial.of_client),
            trial.execution.moved.to_string(),
            time(trial.mapped_in),
        ]);
    }
    table.render(style.is_coloured)
}

fn servers(inputs: &Inputs, trial: &Trial, style: Style) -> String {
    let titles = ["SERVER", "SITE", "CORES", "TASKS", "COMPUTED", "BUSY"];
    let align = |column| if column < 2 { Align::Left } else { Align::Right };
    let mut table = Table::new(titles.map(str::to_owned).into(), align);
    for id in inputs.platform.server_ids() {
        let server = inputs.platform.server(id);
        let tasks = trial.execution.runs.iter().filter(|run| run.server == id).count();
        let busy_s = trial.execution.busy_s(id);
        let all_s = trial.execution.makespan_s * f64::from(server.cores);
        let share = if all_s > 0.0 { 100.0 * busy_s / all_s } else { 0.0 };
        table.row(vec![
            server.name.clone(),
            inputs.platform.sites()[server.site].name.clone(),
            server.cores.to_string(),
            tasks.to_string(),
            seconds(busy_s),
            format!("{share:.0} %"),
        ]);
    }
    table.render(style.is_coloured)
}
