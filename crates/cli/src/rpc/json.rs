//! Executions for scripts: one JSON object.
//!
//! | key | value |
//! | --- | --- |
//! | `version` | 1; changes when a script could break |
//! | `workflow` | its `name`, number of `tasks`, `work_s` on one core, `recorded_s` (null if unknown) |
//! | `grid` | the path or short form that describes the servers, or the registry that knows them |
//! | `servers` | each `server` by number: `name`, `site`, `cores` |
//! | `trials` | for each heuristic: `heuristic`, `makespan_s`, `predicted_s` (null without a prediction), `speed_up` (null for tasks that take no time), `bytes_between_sites`, `bytes_of_client`, `nearest_copy` (whether servers fetch data from the nearest server that has it and once for each site, and not from its first holder; null on real servers, where it does not depend on the heuristic), `moved` (tasks), `copies` (needless attempts), `mapped_in_s` |
//! | `shortest` | the heuristic of the shortest execution, and its `tasks` as they ended: `task`, `server`, `start_s`, `end_s` |

use super::inputs::Inputs;
use super::trial::Trial;
use serde_json::{Value, json};

/// The version of the object.
const VERSION: u32 = 1;

/// Renders the executions as one line of JSON.
pub(super) fn render(inputs: &Inputs, trials: &[Trial], shortest: Option<&Trial>) -> String {
    let document = json!({
        "version": VERSION,
        "workflow": {
            "name": inputs.name,
            "tasks": inputs.graph.tasks().len(),
            "work_s": inputs.graph.work_s(),
            "recorded_s": inputs.recorded_s,
        },
        "grid": inputs.source,
        "servers": servers(inputs),
        "trials": trials.iter().map(|trial| of_trial(inputs, trial)).collect::<Vec<_>>(),
        "shortest": shortest.map(|trial| tasks(inputs, trial)),
    });
    format!("{document}\n")
}

fn servers(inputs: &Inputs) -> Vec<Value> {
    let sites = inputs.platform.sites();
    let servers = inputs.platform.servers().iter().enumerate();
    let server = |(number, server): (usize, &gridspan_workflow::ServerSpec)| {
        let site = &sites[server.site].name;
        json!({ "server": number, "name": server.name, "site": site, "cores": server.cores })
    };
    servers.map(server).collect()
}

fn of_trial(inputs: &Inputs, trial: &Trial) -> Value {
    json!({
        "heuristic": trial.name,
        "makespan_s": trial.execution.makespan_s,
        "predicted_s": trial.predicted_s,
        "speed_up": trial.speed_up(inputs),
        "bytes_between_sites": trial.between_sites,
        "bytes_of_client": trial.of_client,
        "nearest_copy": (!inputs.is_real).then_some(trial.nearest),
        "moved": trial.execution.moved,
        "copies": trial.execution.wasted.len(),
        "mapped_in_s": trial.mapped_in.as_secs_f64(),
    })
}

fn tasks(inputs: &Inputs, trial: &Trial) -> Value {
    let task = |run: &gridspan_workflow::execution::TaskRun| {
        let name = &inputs.graph.task(run.task).name;
        json!({ "task": name, "server": run.server, "start_s": run.start_s, "end_s": run.end_s })
    };
    let tasks: Vec<Value> = trial.execution.runs.iter().map(task).collect();
    json!({ "heuristic": trial.name, "tasks": tasks })
}
