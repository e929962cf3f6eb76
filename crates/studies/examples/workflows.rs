//! Compares heuristics that map workflows to servers, on recorded and generated workflows and four
//! platforms: the makespans as planned, and under perturbations that the heuristics do not know.
//!
//! ```sh
//! cargo run --release -p gridspan-studies --example workflows -- FOLDER
//! ```
//!
//! FOLDER contains workflows in WfFormat (`*.json`), such as those of the WfInstances collection;
//! without it only generated workflows are used.
#![allow(missing_docs, clippy::print_stdout)]

use gridspan_topology::dice::Dice;
use gridspan_workflow::execution::Execution;
use gridspan_workflow::heuristics::{NAMES, by_name};
use gridspan_workflow::simulate::{Perturbations, execute, execute_calls};
use gridspan_workflow::stragglers::StragglerPolicy;
use gridspan_workflow::study::{StudyPlatform, study_platforms};
use gridspan_workflow::wfcommons::{layered, load};
use gridspan_workflow::{Mapping, TaskGraph};
use std::fmt::Display;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

/// Number of seeds of each perturbed run.
const SEEDS: u64 = 6;
/// Standard deviation of the logarithm of run times.
const SIGMA: f64 = 0.3;
/// Slow-down of the slow server.
const SLOW: f64 = 3.0;

fn main() -> ExitCode {
    let mut graphs = vec![("generated-500".to_owned(), 500), ("generated-5000".to_owned(), 5000)]
        .into_iter()
        .filter_map(|(name, tasks)| Some((name, layered(tasks, 1).ok()?)))
        .collect::<Vec<_>>();
    match std::env::args().nth(1) {
        Some(folder) => match recorded(Path::new(&folder)) {
            Ok(mut found) => graphs.append(&mut found),
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::from(2);
            }
        },
        None => println!("no folder given: generated workflows only\n"),
    }
    let printed = Table::new(&graphs).and_then(|table| {
        table.print();
        surprises(&graphs)
    });
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn recorded(folder: &Path) -> Result<Vec<(String, TaskGraph)>, String> {
    let listing = std::fs::read_dir(folder)
        .map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
    let mut paths: Vec<_> = listing.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
        let workflow = text.and_then(|text| load(&text).map_err(|error| error.to_string()));
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        match workflow {
            Ok(workflow) => Ok((name, workflow.graph)),
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    };
    paths.iter().map(read).collect()
}

fn names() -> Vec<&'static str> {
    NAMES.iter().copied().filter(|name| *name != "exhaustive").collect()
}

/// Maps a workflow. A heuristic that cannot do so ends the study: results of the others alone would
/// not be comparable between workflows.
fn mapped(
    heuristic: &str,
    (workflow, graph): &(String, TaskGraph),
    study_platform: &StudyPlatform,
) -> Result<Mapping, String> {
    let place = study_platform.name;
    let failed =
        |error: &dyn Display| format!("`{heuristic}` cannot map {workflow} on {place}: {error}");
    let found = by_name(heuristic, 1).map_err(|error| failed(&error))?;
    found.map(graph, &study_platform.platform).map_err(|error| failed(&error))
}

/// The result of one heuristic for one workflow on one platform.
struct Cell {
    makespan_s: f64,
    predicted_s: f64,
    planned_in_s: f64,
    /// Bytes transferred between sites.
    between_sites: u64,
}

/// Results by platform, workflow and heuristic; plain GridRPC comes last.
struct Table {
    cells: Vec<Vec<Vec<Cell>>>,
    graphs: Vec<(String, usize)>,
}

impl Table {
    fn new(graphs: &[(String, TaskGraph)]) -> Result<Self, String> {
        let of_platform = |study_platform: &StudyPlatform| {
            let rows = graphs.iter().map(|workflow| Self::row(workflow, study_platform));
            rows.collect::<Result<Vec<_>, String>>()
        };
        let cells = study_platforms().iter().map(of_platform).collect::<Result<_, String>>()?;
        let graphs =
            graphs.iter().map(|(name, graph)| (name.clone(), graph.tasks().len())).collect();
        Ok(Self { cells, graphs })
    }

    fn row(
        workflow: &(String, TaskGraph),
        study_platform: &StudyPlatform,
    ) -> Result<Vec<Cell>, String> {
        let ((_, graph), platform) = (workflow, &study_platform.platform);
        let cell = |execution: &Execution, predicted_s, planned_in_s| Cell {
            makespan_s: execution.makespan_s,
            predicted_s,
            planned_in_s,
            between_sites: execution.bytes_between_sites(graph, platform),
        };
        let surprises = Perturbations::default();
        let mut row = Vec::new();
        for name in names() {
            let begin = Instant::now();
            let mapping = mapped(name, workflow, study_platform)?;
            let planned_in_s = begin.elapsed().as_secs_f64();
            let execution = execute(graph, platform, &mapping, &surprises, StragglerPolicy::None);
            row.push(cell(&execution, mapping.predicted_s, planned_in_s));
        }
        let called = execute_calls(graph, platform, &surprises);
        row.push(cell(&called, 0.0, 0.0));
        Ok(row)
    }

    fn print(&self) {
        let names: Vec<&str> = names().into_iter().chain(["gridrpc"]).collect();
        println!("makespan in s, by platform and workflow\n");
        for (cells, study_platform) in self.cells.iter().zip(study_platforms()) {
            println!("{}: {}", study_platform.name, study_platform.description);
            print!("{:42} {:>6}", "workflow", "tasks");
            names.iter().for_each(|name| print!(" {name:>9}"));
            println!();
            for (row, (name, tasks)) in cells.iter().zip(&self.graphs) {
                print!("{name:42} {tasks:6}");
                row.iter().for_each(|cell| print!(" {:9.0}", cell.makespan_s));
                println!();
            }
            println!();
        }
        self.summary(&names);
    }

    fn summary(&self, names: &[&str]) {
        println!(
            "geometric means over workflows, relative to `portfolio`; worst; planning; prediction"
        );
        println!(
            "{:10} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6} {:>10} {:>9} {:>12}",
            "", "A", "B", "C", "D", "all", "worst", "max plan s", "sim/plan", "C: GB across"
        );
        let reference = names.iter().position(|name| *name == "portfolio").unwrap_or(0);
        for (column, name) in names.iter().enumerate() {
            let ratio = |row: &Vec<Cell>| row[column].makespan_s / row[reference].makespan_s;
            let means = self.cells.iter().map(|rows| mean(rows.iter().map(ratio)));
            let all = || self.cells.iter().flatten();
            let worst = all().map(ratio).fold(0.0, f64::max);
            let plan_s = all().map(|row| row[column].planned_in_s).fold(0.0, f64::max);
            let honest = mean(
                all()
                    .filter(|row| row[column].predicted_s > 0.0)
                    .map(|row| row[column].makespan_s / row[column].predicted_s),
            );
            let across: u64 = self.cells[2].iter().map(|row| row[column].between_sites).sum();
            print!("{name:10}");
            means.for_each(|mean| print!(" {mean:6.2}"));
            println!(
                " {:6.2} {worst:6.2} {plan_s:10.3} {honest:9.2} {:12.0}",
                mean(all().map(ratio)),
                across as f64 * 1e-9
            );
        }
        println!();
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) =
        values.fold((0.0, 0.0), |(sum, count), value| (sum + value.ln(), count + 1.0));
    f64::exp(sum / f64::max(count, 1.0))
}

/// The strategies under perturbations: a heuristic, and the policy for stragglers while the group
/// is executed.
const STRATEGIES: [(&str, StragglerPolicy); 7] = [
    ("heft", StragglerPolicy::None),
    ("heft", StragglerPolicy::StealAndCopy),
    ("heft-c", StragglerPolicy::None),
    ("heft-c", StragglerPolicy::Steal),
    ("heft-c", StragglerPolicy::StealAndCopy),
    ("portfolio", StragglerPolicy::None),
    ("portfolio", StragglerPolicy::StealAndCopy),
];

/// Prints the results with noise and slow servers unknown to the heuristics, relative to the best
/// of all strategies and of a portfolio that knows which server is slow.
fn surprises(graphs: &[(String, TaskGraph)]) -> Result<(), String> {
    println!(
        "with surprises: geometric means relative to the best strategy, or to a portfolio that knows \
         the slow server"
    );
    println!(
        "{:10} {:13} {:>7} {:>7} {:>7} {:>7} {:>6}",
        "", "", "exact", "noise", "slow", "both", "worst"
    );
    let mut ratios: Vec<[Vec<f64>; 4]> = vec![Default::default(); STRATEGIES.len()];
    for workflow in graphs.iter().filter(|(_, graph)| graph.tasks().len() < 4000) {
        for study_platform in study_platforms() {
            study(workflow, &study_platform, &mut ratios)?;
        }
    }
    for (ratios, (name, policy)) in ratios.iter().zip(STRATEGIES) {
        print!("{name:10} {:13}", format!("{policy:?}"));
        ratios.iter().for_each(|ratios| print!(" {:7.2}", mean(ratios.iter().copied())));
        println!(" {:6.2}", ratios.iter().flatten().copied().fold(0.0, f64::max));
    }
    Ok(())
}

fn study(
    workflow: &(String, TaskGraph),
    study_platform: &StudyPlatform,
    ratios: &mut [[Vec<f64>; 4]],
) -> Result<(), String> {
    let ((_, graph), platform) = (workflow, &study_platform.platform);
    let map = |(name, _): &(&str, StragglerPolicy)| mapped(name, workflow, study_platform);
    let mappings = STRATEGIES.iter().map(map).collect::<Result<Vec<_>, String>>()?;
    for (kind, (is_noisy, is_slow)) in
        [(false, false), (true, false), (false, true), (true, true)].into_iter().enumerate()
    {
        for seed in 0..if kind == 0 { 1 } else { SEEDS } {
            let surprises = draw(graph, study_platform, seed, is_noisy, is_slow);
            let run = |(mapping, (_, policy)): (&Mapping, &(&str, StragglerPolicy))| {
                execute(graph, platform, mapping, &surprises, *policy).makespan_s
            };
            let times: Vec<f64> = mappings.iter().zip(&STRATEGIES).map(run).collect();
            let clairvoyant_s = clairvoyant_s(graph, study_platform, &surprises);
            let best_s = times.iter().copied().fold(clairvoyant_s, f64::min);
            for (ratios, time_s) in ratios.iter_mut().zip(&times) {
                ratios[kind].push(time_s / best_s);
            }
        }
    }
    Ok(())
}

fn draw(
    graph: &TaskGraph,
    study_platform: &StudyPlatform,
    seed: u64,
    is_noisy: bool,
    is_slow: bool,
) -> Perturbations {
    let mut dice = Dice::new(seed);
    let mut normal = || {
        let (one, other) = (f64::max(dice.unit(), 1e-12), dice.unit());
        (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos()
    };
    let mut surprises = Perturbations::default();
    if is_noisy {
        surprises.tasks = graph.tasks().iter().map(|_| (SIGMA * normal()).exp()).collect();
    }
    if is_slow {
        surprises.servers = vec![1.0; study_platform.platform.servers().len()];
        let place = seed as usize * 5 % surprises.servers.len();
        surprises.servers[place] = SLOW;
    }
    surprises
}

/// Returns the portfolio's makespan if it knows which server is slow.
fn clairvoyant_s(
    graph: &TaskGraph,
    study_platform: &StudyPlatform,
    surprises: &Perturbations,
) -> f64 {
    let platform = &study_platform.platform;
    let mut servers = platform.servers().to_vec();
    for (server, factor) in servers.iter_mut().zip(&surprises.servers) {
        server.speed /= factor;
    }
    let known =
        gridspan_workflow::Platform::new(servers, platform.sites().to_vec(), *platform.client());
    let Ok(Ok(mapping)) = by_name("portfolio", 1).map(|best| best.map(graph, &known)) else {
        return f64::INFINITY;
    };
    let rest = Perturbations::default().with_tasks(surprises.tasks.clone());
    execute(graph, &known, &mapping, &rest, StragglerPolicy::None).makespan_s
}
