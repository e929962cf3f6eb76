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

/// Largest predicted time of all calls of a window together, in seconds, and largest predicted size
/// of all their results, in bytes: half of the limits of a graph. A prediction that is far too high
/// must not make a window fail.
const PREDICTED_S_MAX: f64 = 5e11;
const PREDICTED_BYTES_MAX: f64 = 5e17;

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
    let results: usize = calls.iter().map(|call| call.outputs.len()).sum();
    let most_s = PREDICTED_S_MAX / calls.len().max(1) as f64;
    let most_bytes = PREDICTED_BYTES_MAX / results.max(1) as f64;
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
        let by_history = || Some(learned?.time.predict_s(bytes)?.min(most_s));
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
            // Without any history, assume that a result is as large as all arguments together. In a
            // chain of calls, this may double the size with each call.
            let by_history = || history.and_then(|history| history.predict_s(bytes));
            let predicted = || by_history().unwrap_or(bytes as f64).min(most_bytes);
            let by_formula = call.volumes.result_bytes(place, &sizes);
            let size = by_formula.unwrap_or_else(predicted) as u64;
            names.push(output);
            ids.insert(output, (builder.write(task, output.to_string(), size), size));
        }
    }
    Ok(Discovered { graph: builder.build()?, names })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(inputs: &[u32], outputs: &[u32]) -> Gathered {
        let (inputs, outputs, volumes) = (inputs.to_vec(), outputs.to_vec(), Volumes::default());
        let (function, signature) = ("step", Signature::of::<(), ()>());
        Gathered { function, signature, inputs, outputs, work_s: None, volumes }
    }

    /// The graph of these calls, where the client has the first data, of this size in bytes.
    fn graph(calls: &[Gathered], bytes: u64, learned: Learned) -> TaskGraph {
        let known = Known { bytes, at_client: true, ..Known::default() };
        let known = [(0, known.clone()), (1, known)].into();
        let learned = [("step", learned)].into();
        discover(calls, &known, &learned, &|_| None, &|_| vec![ServerId(0)]).unwrap().graph
    }

    #[test]
    fn assumed_sizes_that_double_with_each_call_stay_within_the_limits_of_a_graph() {
        let pair = |number: u32| [2 * number, 2 * number + 1];
        let calls: Vec<Gathered> =
            (0..100).map(|number| call(&pair(number), &pair(number + 1))).collect();

        let graph = graph(&calls, 8, Learned::default());

        let sizes: Vec<u64> = graph.data().iter().map(|data| data.bytes).collect();
        assert_eq!(sizes[..6], [8, 8, 16, 16, 32, 32]);
        assert_eq!(sizes.last(), Some(&2_500_000_000_000_000));
    }

    #[test]
    fn predictions_far_from_what_was_observed_stay_within_the_limits_of_a_graph() {
        let mut learned = Learned { outputs: vec![History::default()], ..Learned::default() };
        for (bytes, seen) in [(1, 1e-4), (100, 10.0)] {
            learned.time.observe(bytes, seen);
            learned.outputs[0].observe(bytes, seen);
        }

        let graph = graph(&[call(&[0], &[2])], 1_000_000_000, learned);

        assert_eq!(graph.work_s(), PREDICTED_S_MAX);
        assert_eq!(graph.data()[1].bytes, PREDICTED_BYTES_MAX as u64);
    }
}
