//! The experiment of Zhang et al. (2007), "Dynamic Load-Balancing and High Performance
//! Communication in Jcluster", section 5.1, with the scheduler of the runtime in virtual time:
//! workers, agents, loans and totals as in every job, on nodes of one PE each.
//!
//! `cargo run --release -p gridspan-studies --example stealing [-- --nodes 32,64 --sites 1,4
//! --wan-ms 20 --out FOLDER]`
//!
//! Tasks appear where they do in `cargo bench --bench stealing`, which studies the policies without
//! the runtime. An attempt is a request of an idle node for tasks, whether it gets any or not; all
//! attempts from the start of the first batch to the end of the last count. Messages are those
//! between agents, except the packets with tasks and results. The makespan of a batch is the time
//! from the appearance of its tasks, on all nodes at once, until the last is done, as in the paper.
//! Below the table of each number of sites, the program compares the last policy with the others,
//! by geometric means. It writes charts like figures 4 to 8 of the paper to FOLDER, one for each
//! load: a row for each number of sites, with attempts, messages and makespans, and one curve for
//! each policy.

mod compare;
mod experiment;

use clap::Parser;
use compare::{Measure, Row, attempts, compare, messages, time};
use experiment::run;
use gridspan_runtime::StealStatistics;
use gridspan_studies::charts::{Curve, Panel, Scale, picture};
use gridspan_studies::stealing::{LoadSpread, StealingExperiment};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

#[derive(Parser)]
struct Options {
    /// Numbers of nodes.
    #[arg(long, value_delimiter = ',', default_value = "32,64,128,256,512,1024")]
    nodes: Vec<u32>,
    /// Numbers of sites.
    #[arg(long, value_delimiter = ',', default_value = "1")]
    sites: Vec<u32>,
    /// Latency between sites, one way, in milliseconds.
    #[arg(long, default_value_t = 20)]
    wan_ms: u64,
    /// The policies.
    #[arg(long, value_delimiter = ',', default_value = "random,shis,transitive,directory")]
    policies: Vec<String>,
    /// Where tasks appear: all, half, 1/8, 1/3b, 1/8b; the last two are binomial.
    #[arg(long, value_delimiter = ',', default_value = "all,half,1/8,1/3b,1/8b")]
    loads: Vec<String>,
    /// Seed of the loads.
    #[arg(long, default_value_t = 2)]
    seed: u64,
    /// Folder for the charts.
    #[arg(long)]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    match table(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

fn spread(name: &str) -> Result<LoadSpread, String> {
    match name {
        "all" => Ok(LoadSpread::All),
        "half" => Ok(LoadSpread::Half),
        "1/8" => Ok(LoadSpread::Eighth),
        "1/3b" => Ok(LoadSpread::BinomialThird),
        "1/8b" => Ok(LoadSpread::BinomialEighth),
        _ => Err(format!("there is no load `{name}`: all, half, 1/8, 1/3b or 1/8b")),
    }
}

/// The quantities that a chart shows side by side, each with a curve for each policy.
const MEASURES: [(&str, Measure); 3] =
    [("steal attempts", attempts), ("messages between nodes", messages), ("makespan, ms", time)];

fn table(options: &Options) -> Result<(), String> {
    let spreads: Vec<LoadSpread> =
        options.loads.iter().map(|load| spread(load)).collect::<Result<_, _>>()?;
    let mut sheets: Vec<Vec<Vec<Panel>>> = vec![Vec::new(); spreads.len()];
    for &sites in &options.sites {
        println!("{sites} sites: attempts / messages (between sites) / efficiency");
        let heads: String = options.policies.iter().map(|name| format!("{name:>36}")).collect();
        println!("{:>6} {:10}{heads}", "nodes", "load");
        let mut found = Vec::new();
        for (&spread, sheet) in spreads.iter().zip(&mut sheets) {
            let rows = rows(options, sites, spread)?;
            sheet.push(charts((sites, options.wan_ms), &rows, &options.policies));
            found.extend(rows);
        }
        compare(&found, &options.policies);
    }
    match &options.out {
        Some(folder) => write(folder, &spreads, &sheets),
        None => Ok(()),
    }
}

/// Runs one load on all numbers of nodes.
fn rows(options: &Options, sites: u32, spread: LoadSpread) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for &nodes in &options.nodes {
        let way = Duration::from_millis(options.wan_ms);
        let experiment =
            StealingExperiment { seed: options.seed, ..StealingExperiment::new(nodes, spread) }
                .on_sites(sites, way);
        let mut line = format!("{nodes:>6} {:10}", spread.name());
        let mut row = Vec::new();
        for policy in &options.policies {
            let found = run(&experiment, policy)?;
            let StealStatistics { attempts, messages, far_messages, .. } = found.statistics;
            let efficiency = ideal(&experiment).as_secs_f64() / found.makespan.as_secs_f64();
            let cell = format!("{attempts} / {messages} ({far_messages}) / {efficiency:.3}");
            line += &format!("{cell:>36}");
            row.push(found);
        }
        println!("{line}");
        rows.push(Row { nodes, spread, found: row });
    }
    Ok(rows)
}

/// Returns the time that the batches would take if all nodes worked all of the time.
fn ideal(experiment: &StealingExperiment) -> Duration {
    experiment.task * (experiment.tasks_per_node * experiment.batches as u64) as u32
}

/// Returns the panels of one load on a number of sites, one for each quantity.
fn charts((sites, wan_ms): (u32, u64), rows: &[Row], policies: &[String]) -> Vec<Panel> {
    let place = match sites {
        1 => "one site".to_owned(),
        _ => format!("{sites} sites, {wan_ms} ms"),
    };
    let chart = |&(label, measure): &(&'static str, Measure)| {
        let curve = |(at, policy): (usize, &String)| {
            let points = rows.iter().map(|row| (f64::from(row.nodes), measure(&row.found[at])));
            Curve { name: policy.clone(), points: points.collect(), is_bound: false }
        };
        let curves = policies.iter().enumerate().map(curve).collect();
        Panel { title: place.clone(), axes: ["nodes", label], curves }
    };
    MEASURES.iter().map(chart).collect()
}

/// Writes a chart for each load, with a row for each number of sites.
fn write(folder: &Path, spreads: &[LoadSpread], sheets: &[Vec<Vec<Panel>>]) -> Result<(), String> {
    for (spread, sheet) in spreads.iter().zip(sheets) {
        let load = spread.name().replace(['/', '(', ')', ','], "-");
        let path = folder.join(format!("stealing-{}.svg", load.trim_matches('-')));
        let drawn = picture(&format!("load {}", spread.name()), Scale::Logarithmic, sheet);
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&path, drawn))
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(())
}
