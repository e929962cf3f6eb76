//! Unbalanced Tree Search over nodes and sites in virtual time: the fraction of the ideal speed
//! that is reached, and the number of messages.
//!
//! `cargo run --release -p gridspan-studies --example uts_sites [-- --tree T3 --nodes 2,4 --sites
//! 1,2 --wan-ms 10,50]`
//!
//! Nodes have one PE each, and a node of the tree takes 100 ns. The efficiency is relative to one
//! PE without a runtime: the nodes of the tree times 100 ns, divided by the PEs times the time of
//! the search. Every count is checked against the published one.

use clap::Parser;
use gridspan_balance::stealing::StealingPolicyName;
use gridspan_jobs::uts::{Visit, VisitedNodes};
use gridspan_runtime::{Job, JobError, StealStatistics};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

#[derive(Parser)]
struct Options {
    /// Name of a published sample tree.
    #[arg(long, default_value = "T3")]
    tree: String,
    /// Total numbers of nodes.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4")]
    nodes: Vec<u32>,
    /// Numbers of sites.
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    sites: Vec<u32>,
    /// Latencies between sites, one way, in milliseconds.
    #[arg(long, value_delimiter = ',', default_value = "10,50")]
    wan_ms: Vec<u64>,
    /// The policies.
    #[arg(long, value_delimiter = ',', default_value = "random,transitive,directory")]
    policies: Vec<String>,
}

/// Time of a node of the tree, as the job charges it.
const COST: Duration = Duration::from_nanos(100);
/// Latency inside a site, one way: Ethernet in one building.
const LAN_US: u64 = 50;

fn main() -> ExitCode {
    match table(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

fn table(options: &Options) -> Result<(), String> {
    println!("{}: efficiency / messages (between sites) / packets of tasks", options.tree);
    let heads: String = options.policies.iter().map(|name| format!("{name:>34}")).collect();
    println!("{:>6} {:>6} {:>8}{heads}", "nodes", "sites", "one way");
    for &sites in &options.sites {
        for &nodes in options.nodes.iter().filter(|&&nodes| nodes >= sites) {
            // A single site has a single latency.
            let ways = if sites == 1 { &[0][..] } else { &options.wan_ms };
            for &wan_ms in ways {
                let mut line = format!("{nodes:>6} {sites:>6} {wan_ms:>5} ms");
                for policy in &options.policies {
                    let cell = cell(&options.tree, (nodes, sites, wan_ms), policy)?;
                    line += &format!("{cell:>34}");
                }
                println!("{line}");
            }
        }
    }
    Ok(())
}

fn cell(tree: &str, place: (u32, u32, u64), policy: &str) -> Result<String, String> {
    let (took, nodes, statistics) = search(tree, place, policy)?;
    let StealStatistics { messages, far_messages, grants, .. } = statistics;
    let efficiency = COST.as_secs_f64() * nodes as f64 / (f64::from(place.0) * took.as_secs_f64());
    Ok(format!("{efficiency:.3} / {messages} ({far_messages}) / {grants}"))
}

/// Returns the time of the search, the number of nodes of the tree, and the statistics of stealing.
fn search(
    tree: &str,
    (nodes, sites, wan_ms): (u32, u32, u64),
    policy: &str,
) -> Result<(Duration, u64, StealStatistics), String> {
    let (root, sample) = Visit::root(tree).ok_or(format!("there is no tree {tree}"))?;
    let (tell, told) = mpsc::channel();
    let job = Job::new("uts")
        .search::<Visit>()
        .stealing(policy.parse::<StealingPolicyName>().expect("it is a name"))
        .main(async move |grid| {
            // Jobs on a real network measure the places of nodes at the start.
            grid.places().await?;
            let pool = grid.search_pool().await?;
            let begin = grid.now().await?;
            let VisitedNodes(census) = pool.run(root).await?;
            let took = grid.now().await?.since(begin);
            if census != sample.census {
                return Err(JobError::Failed(format!("{census:?} instead of {:?}", sample.census)));
            }
            tell.send((took, pool.statistics().await?)).map_err(|_| "the receiver is gone")?;
            Ok(())
        });
    let wan_us = if sites == 1 { LAN_US } else { wan_ms * 1000 };
    let spec =
        GridSpec::from_emulate(&format!("{sites}x{},wan={wan_us}us,lan={LAN_US}us", nodes / sites));
    let spec = spec.map_err(|error| error.to_string())?;
    let simulation = Simulation::new(job, spec, SimOptions::default());
    let report = simulation.map_err(|error| error.to_string())?.run();
    report.outcome.map_err(|error| error.to_string())?;
    let (took, statistics) = told.recv().map_err(|_| "main has sent nothing")?;
    Ok((took, sample.census.nodes, statistics))
}
