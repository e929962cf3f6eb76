//! Inputs of a mapping: a workflow, and the servers of a grid.

use crate::args::{Late, RpcRunArgs};
use crate::error::{CliError, RpcCommandError};
use crate::grid::described;
use crate::output::warn;
use gridspan::bounded_file::read_text;
use gridspan_workflow::simulate::Perturbations;
use gridspan_workflow::wfcommons::{Workflow, load};
use gridspan_workflow::{Platform, TaskGraph};

/// Largest number of servers; with more, each heuristic would take minutes.
const SERVERS_MAX: usize = 1024;
/// Largest size of a file with a workflow in bytes: a kilobyte for each of a million tasks.
const WORKFLOW_BYTES_MAX: u64 = 1 << 30;

pub(super) struct Inputs {
    /// The workflow's name, or that of its file.
    pub(super) name: String,
    /// Time that the workflow's recorded execution took, in seconds.
    pub(super) recorded_s: Option<f64>,
    pub(super) graph: TaskGraph,
    pub(super) platform: Platform,
    /// Path or short form that describes the servers, or the registry that knows them.
    pub(super) source: String,
    /// Perturbations that the heuristics do not know.
    pub(super) perturbations: Perturbations,
    /// Whether real servers execute the workflow, rather than a simulation.
    pub(super) is_real: bool,
}

impl Inputs {
    /// Reads the workflow and the servers that the flags name.
    pub(super) fn new(args: &RpcRunArgs) -> Result<Self, CliError> {
        let Workflow { name, graph, recorded_s, .. } = workflow(args)?;
        let (file, short) = (args.grid.as_deref(), args.emulate.as_deref());
        let described = described(file, short)?.ok_or(RpcCommandError::NoServers)?;
        let servers = described.spec.layout().node_count() as usize;
        if servers > SERVERS_MAX {
            return Err(RpcCommandError::TooManyServers { servers, limit: SERVERS_MAX }.into());
        }
        let mut platform = gridspan_workflow::described(&described.spec, args.client);
        if args.star {
            platform = platform.star();
        }
        let perturbations = perturbations(&args.slow, &platform)?;
        let source = described.variable.1.to_string_lossy().into_owned();
        Ok(Self { name, recorded_s, graph, platform, source, perturbations, is_real: false })
    }
}

/// Reads the workflow that the flags name; a workflow without a name takes that of its file.
pub(super) fn workflow(args: &RpcRunArgs) -> Result<Workflow, CliError> {
    let path = args.file.clone();
    let wrong =
        |reason: String| CliError::Rpc(RpcCommandError::Workflow { path: path.clone(), reason });
    let text = read_text(&path, WORKFLOW_BYTES_MAX);
    let text = text.map_err(|error| wrong(format!("cannot be read: {error}")))?;
    let mut workflow = load(&text).map_err(|error| wrong(error.to_string()))?;
    for guess in &workflow.guesses {
        warn(&format!("{}: {guess}", path.display()));
    }
    if workflow.name.is_empty() {
        workflow.name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    }
    if let Some(times) = args.faster {
        workflow.graph = workflow.graph.faster(times);
    }
    Ok(workflow)
}

/// Returns the factors of the servers on slow hosts. A host may have several servers.
fn perturbations(slow: &[Late], platform: &Platform) -> Result<Perturbations, CliError> {
    let mut factors = vec![1.0; platform.servers().len()];
    for Late { host, times } in slow {
        let servers = platform.servers().iter().zip(&mut factors);
        let on_host: Vec<&mut f64> =
            servers.filter(|(server, _)| server.name == *host).map(|(_, factor)| factor).collect();
        if on_host.is_empty() {
            return Err(RpcCommandError::NoHost { name: host.clone() }.into());
        }
        on_host.into_iter().for_each(|factor| *factor = *times);
    }
    Ok(Perturbations::default().with_servers(factors))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_topology::GridSpec;

    #[test]
    fn all_servers_of_a_slow_host_are_slow() {
        let grid = GridSpec::from_toml("[site.a]\nhosts = [\"x\", \"y\", \"x\"]").unwrap();
        let platform = gridspan_workflow::described(&grid, None);
        let slow = |text: &str| perturbations(&[text.parse::<Late>().unwrap()], &platform);
        assert_eq!(slow("x=3").unwrap().servers, [3.0, 1.0, 3.0]);
        assert!(slow("z=3").unwrap_err().to_string().contains("no host `z`"));
    }
}
