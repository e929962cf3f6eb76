//! A Gantt chart: a line for each core of each server, and a bar for each task, coloured by the
//! kind of the task.

use super::inputs::Inputs;
use super::text::{platform, seconds, workflow};
use super::trial::Trial;
use crate::quantity::bytes;
use crate::svg::{Anchor, Heading, STEPS, Text, colour, end, line, width_of};
use crate::text::put;
use gridspan_workflow::execution::TaskRun;
use gridspan_workflow::{Endpoint, ServerId};
use std::collections::BTreeMap;

const MARGIN: f64 = 32.0;
/// Top of the chart, below the heading.
const TOP: f64 = 112.0;
const CHART: f64 = 900.0;
/// Space between servers.
const GAP: f64 = 6.0;
/// Approximate height of the lines of all servers together.
const HEIGHT: f64 = 640.0;
/// Bounds of the height of one core's line.
const CORE: [f64; 2] = [2.0, 14.0];
/// Height of the line of a server's incoming transfers, below its cores.
const LINK: f64 = 3.0;
const NAME_SIZE: f64 = 10.0;
/// Space below the chart, for the axis and the legend.
const FOOT: f64 = 92.0;
/// Largest number of kinds of tasks in the legend.
const KINDS_MAX: usize = 8;
const TICKS: u32 = 6;
const RECEIVED_COLOUR: &str = "#c2412d";
const WASTED_COLOUR: &str = "#bbb";

/// Renders the picture.
pub(super) fn render(inputs: &Inputs, trial: &Trial) -> String {
    let heading = Heading {
        title: format!("{}: {}", trial.name, seconds(trial.execution.makespan_s)),
        subtitles: vec![
            workflow(inputs),
            format!("{}; {} went between sites", platform(inputs), bytes(trial.between_sites)),
        ],
    };
    let chart = GanttChart::new(inputs, trial);
    let width = (MARGIN * 2.0 + chart.left + CHART).max(heading.width() + 2.0 * MARGIN);
    let mut svg = heading.begin([width, TOP + chart.height + FOOT], MARGIN);
    chart.draw(&mut svg);
    end(&mut svg);
    svg
}

struct GanttChart<'a> {
    inputs: &'a Inputs,
    trial: &'a Trial,
    /// Left end of the bars, right of the names.
    left: f64,
    height: f64,
    /// Height of one core's line.
    core: f64,
    /// Top of each server.
    tops: Vec<f64>,
    /// The number of each kind of task.
    kinds: BTreeMap<&'a str, usize>,
}

/// Returns the kind of a task: the part of its name before a number, such as `mProject` in
/// `mProject_ID0000001`.
fn kind(name: &str) -> &str {
    let name = name.split("_ID").next().unwrap_or(name);
    name.trim_end_matches(|letter: char| letter.is_ascii_digit() || "_-.:#()".contains(letter))
}

impl<'a> GanttChart<'a> {
    fn new(inputs: &'a Inputs, trial: &'a Trial) -> Self {
        let servers = inputs.platform.servers();
        let fixed = servers.len() as f64 * (GAP + LINK);
        let cores = f64::from(inputs.platform.cores().max(1));
        let core = ((HEIGHT - fixed) / cores).clamp(CORE[0], CORE[1]);
        let (mut tops, mut height) = (Vec::new(), 0.0);
        for server in servers {
            tops.push(TOP + height);
            height += f64::from(server.cores) * core + LINK + GAP;
        }
        let names = servers.iter().map(|server| width_of(&server.name, NAME_SIZE));
        let left = MARGIN + names.fold(40.0, f64::max) + 8.0;
        let mut kinds = BTreeMap::new();
        for task in inputs.graph.tasks() {
            let next = kinds.len();
            kinds.entry(kind(&task.name)).or_insert(next);
        }
        Self { inputs, trial, left, height, core, tops, kinds }
    }

    fn x(&self, time_s: f64) -> f64 {
        self.left + CHART * time_s / self.trial.execution.makespan_s.max(f64::MIN_POSITIVE)
    }

    fn colour(&self, name: &str) -> String {
        let number = self.kinds.get(kind(name)).copied().unwrap_or(0);
        // Steps of about the golden section of the scale give consecutive kinds very different
        // colours.
        let spread = (number as f64 * 0.618).fract();
        colour((spread * STEPS as f64) as usize)
    }

    fn draw(&self, svg: &mut String) {
        self.axis(svg);
        for id in self.inputs.platform.server_ids() {
            self.server(id, svg);
        }
        self.legend(svg);
    }

    fn server(&self, id: ServerId, svg: &mut String) {
        let server = self.inputs.platform.server(id);
        let top = self.tops[id.index()];
        let cores = f64::from(server.cores) * self.core;
        Text::at(self.left - 6.0, top + cores / 2.0 + 3.0)
            .size(NAME_SIZE)
            .anchor(Anchor::End)
            .write(&server.name, svg);
        let execution = &self.trial.execution;
        let mut runs: Vec<(&TaskRun, bool)> =
            execution.runs.iter().map(|run| (run, true)).collect();
        runs.extend(execution.wasted.iter().map(|run| (run, false)));
        runs.retain(|(run, _)| run.server == id);
        runs.sort_by(|one, other| one.0.start_s.total_cmp(&other.0.start_s));
        let mut free_s = vec![0.0; server.cores as usize];
        for (run, is_needed) in runs {
            // The core is not recorded; this is the first one that is free, up to rounding.
            let free = free_s.iter().position(|&free_s| free_s <= run.start_s + 1e-9);
            let core = free.unwrap_or(0);
            free_s[core] = run.end_s;
            let y = top + core as f64 * self.core;
            let name = &self.inputs.graph.task(run.task).name;
            let fill = if is_needed { self.colour(name) } else { WASTED_COLOUR.to_owned() };
            self.bar([run.start_s, run.end_s], [y, self.core - 0.5], &fill, svg);
        }
        let to = Endpoint::Server(id);
        for transfer in execution.transfers.iter().filter(|transfer| transfer.to == to) {
            let span = [transfer.start_s, transfer.end_s];
            self.bar(span, [top + cores, LINK - 1.0], RECEIVED_COLOUR, svg);
        }
    }

    fn bar(&self, span_s: [f64; 2], [y, height]: [f64; 2], fill: &str, svg: &mut String) {
        let [start, end] = span_s.map(|time_s| self.x(time_s));
        let width = (end - start).max(0.3);
        put(
            svg,
            format_args!(
                "<rect x=\"{start:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
                 fill=\"{fill}\"/>\n"
            ),
        );
    }

    fn axis(&self, svg: &mut String) {
        let bottom = TOP + self.height;
        for tick in 0..=TICKS {
            let time_s = self.trial.execution.makespan_s * f64::from(tick) / f64::from(TICKS);
            let x = self.x(time_s);
            line([x, TOP - 4.0, x, bottom], "stroke=\"#ddd\"", svg);
            Text::at(x, bottom + 14.0)
                .size(NAME_SIZE)
                .anchor(Anchor::Middle)
                .write(&seconds(time_s), svg);
        }
    }

    fn legend(&self, svg: &mut String) {
        let y = TOP + self.height + 40.0;
        let mut x = self.left;
        let mut entry = |fill: &str, text: &str| {
            put(
                svg,
                format_args!(
                    "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"10\" height=\"10\" fill=\"{fill}\"/>\n",
                    y - 9.0
                ),
            );
            Text::at(x + 14.0, y).size(NAME_SIZE).write(text, svg);
            x += 28.0 + width_of(text, NAME_SIZE);
        };
        entry(RECEIVED_COLOUR, "receives");
        if !self.trial.execution.wasted.is_empty() {
            entry(WASTED_COLOUR, "wasted");
        }
        let mut kinds: Vec<(&str, usize)> =
            self.kinds.iter().map(|(kind, number)| (*kind, *number)).collect();
        kinds.sort_by_key(|(_, number)| *number);
        for (kind, _) in kinds.iter().take(KINDS_MAX) {
            entry(&self.colour(kind), kind);
        }
        if kinds.len() > KINDS_MAX {
            Text::at(x, y).size(NAME_SIZE).write("…", svg);
        }
    }
}
