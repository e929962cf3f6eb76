//! From calls that were gathered to a task graph, with volumes and times as far as they are known.

use crate::calls::{RpcError, Signature, Volumes};
use gridspan_workflow::performance::History;
use gridspan_workflow::{DataId, Endpoint, ServerId};
use gridspan_workflow::{GraphBuilder, TaskGraph, TaskGraphError};
use std::collections::{BTreeMap, BTreeSet};

/// A call that was gathered.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Gathered {
    pub(super) function: &'static str,
    /// What it takes and gives.
    pub(super) signature: Signature,
    pub(super) inputs: Vec<u32>,
    pub(super) outputs: Vec<u32>,
    /// What the call needs on a server of speed 1, in seconds, if the client knows all that a
    /// formula asks for.
    pub(super) work_s: Option<f64>,
    pub(super) volumes: Volumes,
}

/// Data that is there: how large it is, and who has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Known {
    pub(super) bytes: u64,
    pub(super) at_client: bool,
    pub(super) servers: BTreeSet<u32>,
    /// The server that made it.
    pub(super) maker: Option<u32>,
    /// Why it will never be.
    pub(super) failure: Option<RpcError>,
}

/// What was learned of a function.
#[derive(Clone, Debug, Default)]
pub(super) struct Learned {
    pub(super) time: History,
    /// The size of each result, over that of the arguments together.
    pub(super) outputs: Vec<History>,
}

/// What a call is taken to compute before the first of its function has ended, in seconds.
const UNKNOWN_WORK_S: f64 = 1.0;

/// A graph, and which data of the group each of its data is.
pub(super) struct Discovered {
    pub(super) graph: TaskGraph,
    pub(super) names: Vec<u32>,
}

/// The graph of a window. `number_of` says which server of the platform has a number in the
/// registry; `able`, which servers offer a function.
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
            // Before anything is known a result is as large as all arguments.
            let by_history = || history.and_then(|history| history.predict_s(bytes));
            let size = call.volumes.result_bytes(place, &sizes).or_else(by_history);
            let size = size.map_or(bytes, |size| size as u64);
            names.push(output);
            ids.insert(output, (builder.write(task, output.to_string(), size), size));
        }
    }
    Ok(Discovered { graph: builder.build()?, names })
}
