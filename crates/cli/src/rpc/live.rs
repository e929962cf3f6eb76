//! Execution of a workflow on the real servers of a registry, over the links between them.
//! Computing is emulated, and data has the recorded size.
//!
//! Servers fetch data from each other. The client tells a server to execute a task when the task's
//! arguments exist. Initially the client holds the files that no task writes. Tasks are executed
//! again if their data was lost with a server, and tasks of slow servers may be executed elsewhere.

use super::inputs::{Inputs, workflow};
use super::trial::{Trial, straggler_policy};
use crate::args::RpcRunArgs;
use crate::error::{CliError, RpcCommandError};
use gridspan_rpc_net::{Client, EmulatedRun};
use gridspan_workflow::heuristics::by_name;
use gridspan_workflow::simulate::Perturbations;
use gridspan_workflow::wfcommons::Workflow;
use std::collections::BTreeMap;
use std::time::Instant;

/// Heuristic used if none is named.
const DEFAULT: &str = "heft-c";

/// Executes the workflow on the servers of a registry, with one heuristic after the other.
pub(super) async fn run(
    client: &Client,
    args: &RpcRunArgs,
) -> Result<(Inputs, Vec<Trial>), CliError> {
    let Workflow { name, graph, recorded_s, .. } = workflow(args)?;
    let external = graph.data().iter().zip(0..).filter(|(data, _)| data.producer.is_none());
    let external: BTreeMap<u32, u64> =
        external.map(|(data, number)| (number, data.bytes)).collect();
    let run = EmulatedRun::gather(client, external).await?;
    if run.servers().is_empty() {
        return Err(RpcCommandError::NoServer.into());
    }
    let mut inputs = Inputs {
        name,
        recorded_s,
        graph,
        platform: run.platform(),
        source: format!("the registry at {}", client.address()),
        perturbations: Perturbations::default(),
        is_real: true,
    };
    let mut trials = Vec::new();
    let names = args.heuristic.iter().map(String::as_str);
    for name in names.chain(args.heuristic.is_empty().then_some(DEFAULT)) {
        let heuristic = by_name(name, args.seed).map_err(|_| RpcCommandError::Individual)?;
        // The platform leaves out links that have failed, because trying one costs seconds.
        inputs.platform = run.platform();
        let begin = Instant::now();
        let mapping = heuristic.map(&inputs.graph, &inputs.platform)?;
        let mapped_in = begin.elapsed();
        let Inputs { graph, platform, .. } = &inputs;
        let execution =
            run.execute(graph, platform, &mapping, straggler_policy(args.stragglers)).await?;
        trials.push(Trial::of(name, &inputs, (Some(&mapping), mapped_in), execution));
    }
    Ok((inputs, trials))
}
