//! Paper 3's experiment (section 5.1) with the scheduler of the runtime itself, in virtual time: workers, stewards,
//! loans and totals as in every job, on nodes of one PE each.
//!
//! `cargo run --release -p gridspan-jobs --example stealing [-- --nodes 32,64 --sites 4 --wan-ms 20 --out FOLDER]`
//!
//! Where tasks appear is what `cargo bench --bench stealing` uses for its study of the policies alone. An attempt is
//! what an idle node sends to get tasks, also in vain, from the beginning of the first batch to the end of the last;
//! messages are all between stewards but the packets with tasks and results. Pictures like the paper's figures 4 to 8 go
//! to FOLDER, with one curve for each policy.

#[path = "../../../benches/support/log_chart.rs"]
mod log_chart;

use clap::Parser;
use gridspan_balance::study::stealing::{Experiment, Spread};
use gridspan_runtime::{
    Grid, GridError, Job, JobError, Merge, PeId, Search, SearchContext, SearchPool, StealStatistics,
};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;
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
    #[arg(long, default_value_t = 1)]
    sites: u32,
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

fn table(options: &Options) -> Result<(), String> {
    println!("attempts / messages (between sites) / efficiency");
    let heads: String = options.policies.iter().map(|name| format!("{name:>36}")).collect();
    println!("{:>6} {:10}{heads}", "nodes", "load");
    for load in &options.loads {
        let spread = spread(load)?;
        let names = options.policies.iter().map(String::as_str);
        let mut curves: Vec<log_chart::Curve<'_>> = names.map(|name| (name, vec![])).collect();
        for &nodes in &options.nodes {
            let way = Duration::from_millis(options.wan_ms);
            let experiment = Experiment { seed: options.seed, ..Experiment::new(nodes, spread) }
                .on_sites(options.sites, way);
            let mut line = format!("{nodes:>6} {:10}", spread.name());
            for (policy, curve) in options.policies.iter().zip(&mut curves) {
                let Found { statistics, makespan } = run(&experiment, policy)?;
                let StealStatistics { attempts, messages, far_messages, .. } = statistics;
                let efficiency = ideal(&experiment).as_secs_f64() / makespan.as_secs_f64();
                let cell = format!("{attempts} / {messages} ({far_messages}) / {efficiency:.3}");
                line += &format!("{cell:>36}");
                curve.1.push((f64::from(nodes), attempts as f64));
            }
            println!("{line}");
        }
        if let Some(folder) = &options.out {
            draw(folder, spread, &curves)?;
        }
    }
    Ok(())
}

/// The time if all nodes had worked all of the time.
fn ideal(experiment: &Experiment) -> Duration {
    experiment.task * (experiment.tasks_per_node * experiment.batches as u64) as u32
}

fn draw(folder: &Path, spread: Spread, curves: &[log_chart::Curve<'_>]) -> Result<(), String> {
    let title = format!("Steal attempts of the runtime, load {}", spread.name());
    let picture = log_chart::svg(&title, ("nodes", "attempts"), curves);
    let name = spread.name().replace(['/', '(', ')', ','], "-");
    let path = folder.join(format!("runtime-{}.svg", name.trim_matches('-')));
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&path, picture))
        .map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// Tasks that appear on a node, and one of them.
#[derive(Serialize, Deserialize)]
enum Work {
    Batch { tasks: u64, task_ns: u64 },
    Task { ns: u64 },
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Done(u64);

impl Merge for Done {
    fn merge(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Search for Work {
    type Total = Done;

    fn visit(self, cx: &mut SearchContext<'_, Self>) {
        match self {
            Self::Batch { tasks, task_ns: ns } => {
                (0..tasks).for_each(|_| cx.spawn(Self::Task { ns }));
            }
            Self::Task { ns } => {
                cx.charge(Duration::from_nanos(ns));
                cx.total().0 += 1;
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
    let job = Job::new("stealing").search::<Work>().stealing(policy).main(async move |grid| {
        let pool = grid.search_pool::<Work>().await?;
        let mut makespan = Duration::ZERO;
        for batch in load {
            let (took, done) = appear(&grid, &pool, &batch, task).await?;
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
    task: Duration,
) -> Result<(Duration, u64), GridError> {
    let begin = grid.now().await?;
    let task_ns = task.as_nanos() as u64;
    let loaded = batch.iter().enumerate().filter(|(_, tasks)| **tasks > 0);
    let runs =
        loaded.map(|(node, &tasks)| pool.run_on(PeId(node as u32), Work::Batch { tasks, task_ns }));
    let done = all(runs.collect()).await?;
    Ok((grid.now().await?.since(begin), done))
}

/// The sum of all, once the last is here.
async fn all<F>(runs: Vec<F>) -> Result<u64, GridError>
where
    F: Future<Output = Result<Done, GridError>>,
{
    let mut left: Vec<Pin<Box<F>>> = runs.into_iter().map(Box::pin).collect();
    let (mut sum, mut failure) = (0, None);
    poll_fn(move |cx| {
        left.retain_mut(|run| match run.as_mut().poll(cx) {
            Poll::Pending => true,
            Poll::Ready(Ok(Done(count))) => {
                sum += count;
                false
            }
            Poll::Ready(Err(error)) => {
                failure.get_or_insert(error);
                false
            }
        });
        match failure.take() {
            Some(error) => Poll::Ready(Err(error)),
            None if left.is_empty() => Poll::Ready(Ok(sum)),
            None => Poll::Pending,
        }
    })
    .await
}
