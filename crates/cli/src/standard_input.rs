//! Which processes read the standard input of gridctl: the process of one node, all, or none.
//!
//! If only one process reads it and runs on this machine, it inherits the pipe or the file, and the
//! launcher does not read from it. For a process that `ssh` or `srun` has started, standard input
//! is the channel from the launcher, so the launcher forwards the input (`launch::input_flow`). It
//! does so for all processes if each gets a copy. gridctl does not pass on two inputs:
//!
//! - A terminal: the system stops background processes that read from it, and nodes run in the
//!   background.
//! - The input of a detached job, because the job outlives it.

use crate::args::StdinFlag;
use crate::error::{CliError, RunFlagError};
use crate::launch::{InputWay, Processes};
use crate::nodes;
use crate::roster::Roster;
use gridspan_topology::{GridSpec, NodeId};

/// Returns the node that reads the standard input if only one does: that of the flag, or node 0.
///
/// # Errors
///
/// If the grid does not have the node of the flag.
pub(crate) fn reading_node(flag: Option<&StdinFlag>, spec: &GridSpec) -> Result<NodeId, CliError> {
    let Some(StdinFlag::Node(wanted)) = flag else { return Ok(NodeId(0)) };
    let found = spec.layout().nodes().find(|node| nodes::name(spec, *node) == *wanted);
    found.ok_or_else(|| CliError::UnknownNode {
        what: "node",
        name: wanted.clone(),
        nodes: Roster::from(spec.clone()).names(),
    })
}

/// How the process of a node that reads the standard input is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReaderStart {
    /// By this process, on this machine.
    Here,
    /// On another host, or as a task of Slurm.
    Elsewhere,
    /// So that it outlives this process.
    Detached,
}

impl ReaderStart {
    /// How this node, or the single process, is started.
    pub(crate) fn of(processes: &Processes, node: NodeId) -> Self {
        match processes {
            Processes::Nodes { tasks: Some(_), .. } => Self::Elsewhere,
            Processes::Nodes { hosts, .. } if hosts.remote(node).is_some() => Self::Elsewhere,
            Processes::Nodes { .. } | Processes::Single { .. } => Self::Here,
        }
    }
}

/// Returns how the processes of nodes get the standard input. `node` is the one that reads it if
/// only one does.
///
/// # Errors
///
/// If the user wants nodes to read the standard input, and they cannot.
pub(crate) fn input_way(
    flag: Option<&StdinFlag>,
    (node, start): (NodeId, ReaderStart),
    is_terminal: bool,
) -> Result<InputWay, CliError> {
    let nodes = flag.unwrap_or(&StdinFlag::First).to_string();
    let way = match start {
        ReaderStart::Detached => Err(CliError::RunFlags(RunFlagError::NoInput {
            nodes,
            reason: "a detached job outlives the standard input",
        })),
        _ if is_terminal => Err(CliError::RunFlags(RunFlagError::TerminalInput { nodes })),
        ReaderStart::Here => Ok(InputWay::Inherited(node)),
        ReaderStart::Elsewhere => Ok(InputWay::Forwarded(node)),
    };
    match flag {
        Some(StdinFlag::First | StdinFlag::Node(_)) => way,
        Some(StdinFlag::All) => way.map(|_| InputWay::ForwardedToAll),
        Some(StdinFlag::None) => Ok(InputWay::Nowhere),
        None => Ok(way.unwrap_or(InputWay::Nowhere)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reading_process_gets_what_it_can_read() {
        use InputWay::{Forwarded, ForwardedToAll, Inherited, Nowhere};
        use ReaderStart::{Detached, Elsewhere, Here};
        let first = StdinFlag::First;
        let other = StdinFlag::Node("a/3".to_owned());
        let way = |flag: Option<&StdinFlag>, start, is_terminal| {
            let node = NodeId(if flag == Some(&other) { 3 } else { 0 });
            input_way(flag, (node, start), is_terminal).ok()
        };
        for (flag, node) in [(None, 0), (Some(&first), 0), (Some(&other), 3)] {
            assert_eq!(way(flag, Here, false), Some(Inherited(NodeId(node))));
            assert_eq!(way(flag, Elsewhere, false), Some(Forwarded(NodeId(node))));
        }
        for (start, is_terminal) in [(Here, true), (Elsewhere, true), (Detached, false)] {
            assert_eq!(way(None, start, is_terminal), Some(Nowhere), "{start:?}");
            for flag in [&first, &other, &StdinFlag::All] {
                assert_eq!(way(Some(flag), start, is_terminal), None, "{start:?}");
            }
        }
        for start in [Here, Elsewhere] {
            let all = way(Some(&StdinFlag::All), start, false);
            assert_eq!(all, Some(ForwardedToAll), "{start:?}");
        }
        for start in [Here, Elsewhere, Detached] {
            assert_eq!(way(Some(&StdinFlag::None), start, false), Some(Nowhere), "{start:?}");
        }
    }

    #[test]
    fn the_reading_node_is_named_as_elsewhere() {
        let spec = GridSpec::from_emulate("2x2").unwrap();
        let reads = |name: &str| {
            let flag = StdinFlag::Node(name.to_owned());
            reading_node(Some(&flag), &spec).map_err(|error| error.to_string())
        };
        assert_eq!(reads("a/1"), Ok(NodeId(1)));
        assert_eq!(reads("b/3"), Ok(NodeId(3)));
        for wrong in ["b/1", "a/4", "c/0"] {
            let error = format!("the grid of the job has no node `{wrong}`");
            assert_eq!(reads(wrong), Err(error));
        }
        assert_eq!(reading_node(None, &spec).unwrap(), NodeId(0));
    }
}
