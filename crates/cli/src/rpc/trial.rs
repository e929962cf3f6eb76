//! One heuristic's mapping, and its execution.

use super::inputs::Inputs;
use crate::args::{RpcRunArgs, StragglerPolicyName};
use crate::error::CliError;
use gridspan_workflow::Mapping;
use gridspan_workflow::execution::Execution;
use gridspan_workflow::heuristics::by_name;
use gridspan_workflow::simulate::{execute, execute_calls};
use gridspan_workflow::stragglers::StragglerPolicy;
use std::time::{Duration, Instant};

/// Returns the action on slow servers.
pub(super) fn straggler_policy(name: StragglerPolicyName) -> StragglerPolicy {
    match name {
        StragglerPolicyName::None => StragglerPolicy::None,
        StragglerPolicyName::Steal => StragglerPolicy::Steal,
        StragglerPolicyName::Copy => StragglerPolicy::StealAndCopy,
    }
}

/// The execution of a workflow with one heuristic.
pub(super) struct Trial {
    /// Name of the heuristic.
    pub(super) name: String,
    /// End predicted by the heuristic, in seconds; `None` without a prediction.
    pub(super) predicted_s: Option<f64>,
    /// Time that mapping took.
    pub(super) mapped_in: Duration,
    /// Whether servers fetch data from the nearest server that has it, and once for each site;
    /// otherwise they fetch it from its first holder.
    pub(super) nearest: bool,
    pub(super) execution: Execution,
    /// Bytes that crossed between sites.
    pub(super) between_sites: u64,
    /// Bytes that the client sent or received.
    pub(super) of_client: u64,
}

impl Trial {
    /// Maps the workflow and simulates its execution. A name that is not that of a heuristic means
    /// plain GridRPC, because the parser of the flags refuses all other names.
    pub(super) fn new(inputs: &Inputs, name: &str, args: &RpcRunArgs) -> Result<Self, CliError> {
        let Inputs { graph, platform, perturbations, .. } = inputs;
        let begin = Instant::now();
        let mapping = match by_name(name, args.seed) {
            Ok(heuristic) => Some(heuristic.map(graph, platform)?),
            Err(_) => {
                gridspan_workflow::check(graph, platform)?;
                None
            }
        };
        let mapped_in = begin.elapsed();
        let straggler_policy = straggler_policy(args.stragglers);
        let execution = match &mapping {
            Some(mapping) => execute(graph, platform, mapping, perturbations, straggler_policy),
            None => execute_calls(graph, platform, perturbations),
        };
        Ok(Self::of(name, inputs, (mapping.as_ref(), mapped_in), execution))
    }

    /// Summarises an execution and its mapping.
    pub(super) fn of(
        name: &str,
        Inputs { graph, platform, .. }: &Inputs,
        (mapping, mapped_in): (Option<&Mapping>, Duration),
        execution: Execution,
    ) -> Self {
        let predicted_s = mapping.map(|mapping| mapping.predicted_s).filter(|time_s| *time_s > 0.0);
        Self {
            name: name.to_owned(),
            predicted_s,
            mapped_in,
            nearest: mapping.is_some_and(|mapping| mapping.relays),
            between_sites: execution.bytes_between_sites(graph, platform),
            of_client: execution.bytes_of_client(graph),
            execution,
        }
    }

    /// Returns the speed-up over one core of speed 1 with all data at hand; `None` for tasks that
    /// take no time.
    pub(super) fn speed_up(&self, inputs: &Inputs) -> Option<f64> {
        (self.execution.makespan_s > 0.0).then(|| inputs.graph.work_s() / self.execution.makespan_s)
    }
}
