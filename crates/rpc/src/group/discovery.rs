//! Builds a task graph from gathered calls, with volumes and times where they are known.

use crate::calls::{RpcError, Signature, UNKNOWN_WORK_S, Volumes};
use gridspan_workflow::performance::History;
use gridspan_workflow::{DataId, Endpoint, ServerId};
use gridspan_workflow::{GraphBuilder, TaskGraph, TaskGraphError};
use std::collections::{BTreeMap, BTreeSet};

/// A gathered call.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Gathered {
    pub(super) function: &'static str,
    /// The function's signature for the caller.
    pub(super) signature: Signature,
    pub(super) inputs: Vec<u32>,
    pub(super) outputs: Vec<u32>,
    /// Work of the call on a server of speed 1, in seconds, if there is a formula and the client
    /// knows all its values.
    pub(super) work_s: Option<f64>,
    pub(super) volumes: Volumes,
}

/// The record of data: its size, and where it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Known {
    pub(super) bytes: u64,
    pub(super) at_client: bool,
    pub(super) servers: BTreeSet<u32>,
    /// The server that made the data.
    pub(super) maker: Option<u32>,
    /// The error, if the data will never exist.
    pub(super) failure: Option<RpcError>,
}

/// The history of a function.
#[derive(Clone, Debug, Default)]
pub(super) struct Learned {
    pub(super) time: History,
    /// The size of each result as a function of the total size of the arguments.
    pub(super) outputs: Vec<History>,
}

/// A graph, and the group's number for each of its data.
pub(super) struct Discovered {
    pub(super) graph: TaskGraph,
    pub(super) names: Vec<u32>,
}

/// Builds the graph of a window. `place_of` returns the platform's server for a server number in
/// the registry; `able` returns the servers that offer a call's function.
pub(super) fn discover(
    calls: &[Gathered],
    known: &BTreeMap<u32, Known>,
    learned: &BTreeMap<&'static str, Learned>,
    place_of: &dyn Fn(u32) -> Option<ServerId>,
    able: &dyn Fn(&Gathered) -> Vec<ServerId>,
) -> Result<Discovered, TaskGraphError> {
    let mut builder = GraphBuilder::default();
    let mut ids: BTreeMap<u32, (DataId, u64)> = BTreeMap::new();
    let mut names = Vec::new();
    for call in calls {
        let mut sizes = Vec::with_capacity(call.inputs.len());
        for &input in &call.inputs {
            let (_, size) = *ids.entry(input).or_insert_with(|| {
                let known = known.get(&input).cloned().unwrap_or_default();
                let client = known.at_client.then_some(Endpoint::Client);
                let servers = known.servers.iter().filter_map(|&number| place_of(number));
                let holders: BTreeSet<Endpoint> =
                    servers.map(Endpoint::Server).chain(client).collect();
                names.push(input);
                let holders: Vec<Endpoint> = holders.into_iter().collect();
                (builder.external(input.to_string(), known.bytes, holders), known.bytes)
            });
            sizes.push(size as f64);
        }
        let bytes = sizes.iter().sum::<f64>() as u64;
        let learned = learned.get(call.function);
        let by_history = || learned.and_then(|learned| learned.time.predict_s(bytes));
        let by_formula = call.work_s.or_else(|| call.volumes.work_s(&sizes));
        let work_s = by_formula.or_else(by_history);
        let task = builder.task(call.function, work_s.unwrap_or(UNKNOWN_WORK_S));
        builder.restrict(task, able(call));
        for input in &call.inputs {
            if let Some(&(data, _)) = ids.get(input) {
                builder.read(task, data);
            }
        }
        for (place, &output) in call.outputs.iter().enumerate() {
            let history = learned.and_then(|learned| learned.outputs.get(place));
            // Without any history, assume that a result is as large as all arguments together.
            let by_history = || history.and_then(|history| history.predict_s(bytes));
            let size = call.volumes.result_bytes(place, &sizes).or_else(by_history);
            let size = size.map_or(bytes, |size| size as u64);
            names.push(output);
            ids.insert(output, (builder.write(task, output.to_string(), size), size));
        }
    }
    Ok(Discovered { graph: builder.build()?, names })
}
