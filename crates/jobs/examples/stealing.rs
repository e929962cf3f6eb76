//! Paper 3's experiment (section 5.1) with the scheduler of the runtime itself, in virtual time: workers, stewards,
//! loans and totals as in every job, on nodes of one PE each.
//!
//! `cargo run --release -p gridspan-jobs --example stealing [-- --nodes 32,64 --sites 1,4 --wan-ms 20 --out FOLDER]`
//!
//! Where tasks appear is what `cargo bench --bench stealing` uses for its study of the policies alone. An attempt is
//! what an idle node sends to get tasks, also in vain, from the beginning of the first batch to the end of the last;
//! messages are all between stewards but the packets with tasks and results. The makespan of a batch is from when its tasks
//! appear, on all nodes at once, until the last is done, as in the paper. Pictures like the paper's
//! figures 4 to 8 go to FOLDER, with one curve for each policy, for attempts, messages and makespans.

#[path = "../../../benches/support/log_chart.rs"]
mod log_chart;

use clap::Parser;
use gridspan_balance::study::stealing::{Experiment, Spread};
use gridspan_runtime::{
    Grid, GridError, Job, JobError, Merge, PeId, Search, SearchContext, SearchPool, StealStatistics,
};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::{GridSpec, Time};
use serde::{Deserialize, Serialize};
use std::future::{Future, poll_fn};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::mpsc;
use std::task::Poll;
use std::time::Duration;

#[derive(Parser)]
struct Options {
    /// How many nodes.
    #[arg(long, value_delimiter = ',', default_value = "32,64,128,256,512,1024")]
    nodes: Vec<u32>,
    /// In how many sites.
    #[arg(long, value_delimiter = ',', default_value = "1")]
    sites: Vec<u32>,
    /// One way between sites, in milliseconds.
    #[arg(long, default_value_t = 20)]
    wan_ms: u64,
    /// The policies.
    #[arg(long, value_delimiter = ',', default_value = "random,shis,transitive,directory")]
    policies: Vec<String>,
    /// Where tasks appear: all, half, 1/8, 1/3b, 1/8b; the last two are binomial.
    #[arg(long, value_delimiter = ',', default_value = "all,half,1/8,1/3b,1/8b")]
    loads: Vec<String>,
    /// The dice of loads.
    #[arg(long, default_value_t = 2)]
    seed: u64,
    /// Where pictures go.
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

fn spread(name: &str) -> Result<Spread, String> {
    match name {
        "all" => Ok(Spread::All),
        "half" => Ok(Spread::Half),
        "1/8" => Ok(Spread::Eighth),
        "1/3b" => Ok(Spread::BinomialThird),
        "1/8b" => Ok(Spread::BinomialEighth),
        _ => Err(format!("there is no load `{name}`: all, half, 1/8, 1/3b or 1/8b")),
    }
}

/// What pictures show, each with a curve for each policy.
const MEASURES: [(&str, &str); 3] = [
    ("attempts", "steal attempts"),
    ("messages", "messages between nodes"),
    ("time", "makespan, ms"),
];

fn table(options: &Options) -> Result<(), String> {
    for &sites in &options.sites {
        println!("{sites} sites: attempts / messages (between sites) / efficiency");
        let heads: String = options.policies.iter().map(|name| format!("{name:>36}")).collect();
        println!("{:>6} {:10}{heads}", "nodes", "load");
        let mut found = Vec::new();
        for load in &options.loads {
            let spread = spread(load)?;
            let rows = rows(options, sites, spread)?;
            if let Some(folder) = &options.out {
                draw(folder, (sites, spread), &rows, &options.policies)?;
            }
            found.extend(rows);
        }
        compare(&found, &options.policies);
    }
    Ok(())
}

/// What each policy has come to with so many nodes.
type Row = (u32, Vec<Found>);

/// One load on all numbers of nodes.
fn rows(options: &Options, sites: u32, spread: Spread) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for &nodes in &options.nodes {
        let way = Duration::from_millis(options.wan_ms);
        let experiment = Experiment { seed: options.seed, ..Experiment::new(nodes, spread) }
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
        rows.push((nodes, row));
    }
    Ok(rows)
}

/// Prints geometric means of the last policy over each of the others.
fn compare(rows: &[Row], policies: &[String]) {
    let Some((last, others)) = policies.split_last().filter(|_| !rows.is_empty()) else { return };
    for (at, other) in others.iter().enumerate() {
        let mean = |of: &dyn Fn(&Found) -> f64| {
            let ratio = |(_, row): &Row| (of(&row[others.len()]) / of(&row[at]).max(1.0)).ln();
            (rows.iter().map(ratio).sum::<f64>() / rows.len() as f64).exp()
        };
        println!(
            "{last} over {other}: {:.3} of its attempts, {:.3} of its messages, {:.3} of its time",
            mean(&|found| found.statistics.attempts.max(1) as f64),
            mean(&|found| found.statistics.messages.max(1) as f64),
            mean(&|found| found.makespan.as_secs_f64() * 1e3),
        );
    }
}

/// The time if all nodes had worked all of the time.
fn ideal(experiment: &Experiment) -> Duration {
    experiment.task * (experiment.tasks_per_node * experiment.batches as u64) as u32
}

fn draw(
    folder: &Path,
    (sites, spread): (u32, Spread),
    rows: &[Row],
    policies: &[String],
) -> Result<(), String> {
    for (name, label) in MEASURES {
        let value = |found: &Found| match name {
            "attempts" => found.statistics.attempts as f64,
            "messages" => found.statistics.messages as f64,
            _ => found.makespan.as_secs_f64() * 1e3,
        };
        let curve = |(at, policy): (usize, &String)| {
            let points = rows.iter().map(|(nodes, row)| (f64::from(*nodes), value(&row[at])));
            (policy.clone(), points.collect::<Vec<_>>())
        };
        let curves: Vec<(String, Vec<(f64, f64)>)> =
            policies.iter().enumerate().map(curve).collect();
        let named = curves.iter().map(|(name, points)| (name.as_str(), points.clone()));
        let curves: Vec<log_chart::Curve<'_>> = named.collect();
        let title = format!("Load {}, {sites} sites", spread.name());
        let picture = log_chart::svg(&title, ("nodes", label), &curves);
        let load = spread.name().replace(['/', '(', ')', ','], "-");
        let file = format!("runtime-{sites}-{}-{name}.svg", load.trim_matches('-'));
        let path = folder.join(file);
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&path, picture))
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(())
}

/// So long before they appear main hands in the tasks of a batch: every node has heard of its own by then.
fn notice(experiment: &Experiment) -> Duration {
    let way = if experiment.sites > 1 { experiment.wide_area } else { Duration::ZERO };
    way + Duration::from_micros(500 + u64::from(experiment.nodes))
}

/// Tasks that appear on a node, and one of them.
#[derive(Serialize, Deserialize)]
enum Work {
    Batch { tasks: u64, task_ns: u64, at: Time },
    Task { ns: u64 },
}

/// How many were done, and when the last was.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Done {
    tasks: u64,
    last: Time,
}

impl Merge for Done {
    fn merge(&mut self, other: Self) {
        self.tasks += other.tasks;
        self.last = self.last.max(other.last);
    }
}

impl Search for Work {
    type Total = Done;

    fn visit(self, cx: &mut SearchContext<'_, Self>) {
        match self {
            Self::Batch { tasks, task_ns: ns, at } => {
                cx.charge(at.since(cx.now()));
                (0..tasks).for_each(|_| cx.spawn(Self::Task { ns }));
            }
            Self::Task { ns } => {
                cx.charge(Duration::from_nanos(ns));
                let end = cx.now() + Duration::from_nanos(ns);
                cx.total().merge(Done { tasks: 1, last: end });
            }
        }
    }
}

/// What an experiment has come to.
struct Found {
    statistics: StealStatistics,
    makespan: Duration,
}

fn run(experiment: &Experiment, policy: &str) -> Result<Found, String> {
    let &Experiment { nodes, sites, spread, seed, tasks_per_node, batches, task, .. } = experiment;
    let tasks = tasks_per_node * u64::from(nodes);
    let load = spread.batches(nodes, tasks, batches, seed);
    let (tell, told) = mpsc::channel();
    let notice = notice(experiment);
    let job = Job::new("stealing").search::<Work>().stealing(policy).main(async move |grid| {
        // Jobs on a real network measure where nodes are as they begin.
        grid.places().await?;
        let pool = grid.search_pool::<Work>().await?;
        let mut makespan = Duration::ZERO;
        for batch in load {
            let (took, done) = appear(&grid, &pool, &batch, (task, notice)).await?;
            makespan += took;
            if done != tasks {
                return Err(JobError::Failed(format!("{done} of {tasks} tasks were done")));
            }
        }
        let statistics = pool.statistics().await?;
        tell.send(Found { statistics, makespan }).map_err(|_| "nobody listens")?;
        Ok(())
    });
    let micros = |time: Duration| time.as_micros();
    let (wide, local) = (micros(experiment.wide_area), micros(Experiment::LOCAL));
    let spec =
        GridSpec::from_emulate(&format!("{sites}x{},wan={wide}us,lan={local}us", nodes / sites))
            .map_err(|error| error.to_string())?;
    let options = SimOptions { message_cost: Experiment::HANDLER, ..SimOptions::with_seed(seed) };
    let simulation = Simulation::new(job, spec, options).map_err(|error| error.to_string())?;
    simulation.run().outcome.map_err(|error| error.to_string())?;
    told.recv().map_err(|_| "main has told nothing".to_owned())
}

/// Has so many tasks appear on each node at once. Returns how long they took, and how many were done.
async fn appear(
    grid: &Grid,
    pool: &SearchPool<Work>,
    batch: &[u64],
    (task, notice): (Duration, Duration),
) -> Result<(Duration, u64), GridError> {
    let at = grid.now().await? + notice;
    let task_ns = task.as_nanos() as u64;
    let loaded = batch.iter().enumerate().filter(|(_, tasks)| **tasks > 0);
    let runs = loaded
        .map(|(node, &tasks)| pool.run_on(PeId(node as u32), Work::Batch { tasks, task_ns, at }));
    let done = all(runs.collect()).await?;
    Ok((done.last.since(at), done.tasks))
}

/// The sum of all, once the last is here.
async fn all<F>(runs: Vec<F>) -> Result<Done, GridError>
where
    F: Future<Output = Result<Done, GridError>>,
{
    let mut left: Vec<Pin<Box<F>>> = runs.into_iter().map(Box::pin).collect();
    let (mut sum, mut failure) = (Done::default(), None);
    poll_fn(move |cx| {
        left.retain_mut(|run| match run.as_mut().poll(cx) {
            Poll::Pending => true,
            Poll::Ready(Ok(done)) => {
                sum.merge(done);
                false
            }
            Poll::Ready(Err(error)) => {
                failure.get_or_insert(error);
                false
            }
        });
        match failure.take() {
            Some(error) => Poll::Ready(Err(error)),
            None if left.is_empty() => Poll::Ready(Ok(std::mem::take(&mut sum))),
            None => Poll::Pending,
        }
    })
    .await
}
