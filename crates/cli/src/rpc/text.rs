//! Executions for people: a table of heuristics, and one of the servers in the shortest.

use super::scene::Scene;
use super::trial::Trial;
use crate::quantity::{UNKNOWN, bytes, count, digits, time};
use crate::style::Style;
use crate::table::{Align, Table};
use std::time::Duration;

/// Everything in words.
pub(super) fn render(
    scene: &Scene,
    trials: &[Trial],
    shortest: Option<&Trial>,
    style: Style,
) -> String {
    let mut text = heading(scene);
    text.push('\n');
    text += &heuristics(scene, trials, style);
    text += &transfers(scene, trials);
    if let Some(trial) = shortest {
        text += &format!("\nwhat the servers did by {}\n", trial.name);
        text += &servers(scene, trial, style);
    }
    text
}

/// How data goes, if that is not the same for all: then times differ by more than by where tasks
/// are.
fn transfers(scene: &Scene, trials: &[Trial]) -> String {
    let by = |nearest| {
        let all = trials.iter().filter(|trial| trial.nearest == nearest);
        all.map(|trial| trial.name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let (nearest, first) = (by(true), by(false));
    match scene.is_real || nearest.is_empty() || first.is_empty() {
        true => String::new(),
        false => format!(
            "data comes from the nearest copy, once to each site, by {nearest};\n\
             from whoever had it first, to each server by itself, by {first}\n"
        ),
    }
}

/// A time in seconds with its unit.
pub(super) fn seconds(time_s: f64) -> String {
    Duration::try_from_secs_f64(time_s).map_or_else(|_| UNKNOWN.to_owned(), time)
}

/// The workflow, and what it takes alone.
pub(super) fn workflow(scene: &Scene) -> String {
    let all: u64 = scene.graph.data().iter().map(|data| data.bytes).sum();
    let recorded = scene.recorded_s.map_or_else(String::new, |recorded_s| {
        format!("; it was recorded in {}", seconds(recorded_s))
    });
    format!(
        "{}: {} of {} on one core, with {} of data{recorded}",
        scene.name,
        count(scene.graph.tasks().len(), "task"),
        seconds(scene.graph.work_s()),
        bytes(all)
    )
}

/// The servers in one line.
pub(super) fn platform(scene: &Scene) -> String {
    format!(
        "{} with {} at {}, as {} describes them",
        count(scene.platform.servers().len(), "server"),
        count(scene.platform.cores() as usize, "core"),
        count(scene.platform.sites().len(), "site"),
        scene.source
    )
}

fn heading(scene: &Scene) -> String {
    let how = if scene.is_real { "on these servers" } else { "in simulated time" };
    format!("{}\n{}; executed {how}\n", workflow(scene), platform(scene))
}

fn heuristics(scene: &Scene, trials: &[Trial], style: Style) -> String {
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
            known(trial.speed_up(scene), digits),
            bytes(trial.between_sites),
            bytes(trial.of_client),
            trial.execution.moved.to_string(),
            time(trial.mapped_in),
        ]);
    }
    table.render(style.is_coloured)
}

fn servers(scene: &Scene, trial: &Trial, style: Style) -> String {
    let titles = ["SERVER", "SITE", "CORES", "TASKS", "COMPUTED", "BUSY"];
    let align = |column| if column < 2 { Align::Left } else { Align::Right };
    let mut table = Table::new(titles.map(str::to_owned).into(), align);
    for id in scene.platform.server_ids() {
        let server = scene.platform.server(id);
        let tasks = trial.execution.runs.iter().filter(|run| run.server == id).count();
        let busy_s = trial.execution.busy_s(id);
        let all_s = trial.execution.makespan_s * f64::from(server.cores);
        let share = if all_s > 0.0 { 100.0 * busy_s / all_s } else { 0.0 };
        table.row(vec![
            server.name.clone(),
            scene.platform.sites()[server.site].name.clone(),
            server.cores.to_string(),
            tasks.to_string(),
            seconds(busy_s),
            format!("{share:.0} %"),
        ]);
    }
    table.render(style.is_coloured)
}
