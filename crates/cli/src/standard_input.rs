//! Which processes read the standard input of gridctl, and how: that of node 0, all, or none.
//!
//! If only node 0 gets it, a process of this machine inherits the input, and alone reads the pipe
//! or the file. For a process that `ssh` or `srun` has started, standard input is the channel from
//! the launcher, so the launcher forwards the input (`launch::input_flow`). It does so for all
//! processes if each gets a copy. gridctl does not pass on two inputs:
//!
//! - A terminal: it stops background processes that read from it, and nodes run in the background.
//! - The input of a detached job, because the job outlives it.

use crate::args::StdinFlag;
use crate::error::{CliError, RunFlagError};
use crate::launch::{InputWay, Processes};
use gridspan_topology::NodeId;

/// How the process of node 0 is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FirstProcess {
    /// By this process, on this machine.
    Here,
    /// On another host, or as a task of Slurm.
    Elsewhere,
    /// So that it outlives this process.
    Detached,
}

impl FirstProcess {
    /// How the first of these processes is started.
    pub(crate) fn of(processes: &Processes) -> Self {
        match processes {
            Processes::Nodes { tasks: Some(_), .. } => Self::Elsewhere,
            Processes::Nodes { hosts, .. } if hosts.remote(NodeId(0)).is_some() => Self::Elsewhere,
            Processes::Nodes { .. } | Processes::Single { .. } => Self::Here,
        }
    }
}

/// How processes of nodes get the standard input.
///
/// # Errors
///
/// If the user wants nodes to read the standard input, and they cannot.
pub(crate) fn input_way(
    flag: Option<StdinFlag>,
    first: FirstProcess,
    is_terminal: bool,
) -> Result<InputWay, CliError> {
    let nodes = if flag == Some(StdinFlag::All) { "all" } else { "0" };
    let way = match first {
        FirstProcess::Detached => Err(CliError::RunFlags(RunFlagError::NoInput {
            nodes,
            reason: "a detached job outlives the standard input",
        })),
        _ if is_terminal => Err(CliError::RunFlags(RunFlagError::TerminalInput { nodes })),
        FirstProcess::Here => Ok(InputWay::Inherited),
        FirstProcess::Elsewhere => Ok(InputWay::Forwarded),
    };
    match flag {
        Some(StdinFlag::First) => way,
        Some(StdinFlag::All) => way.map(|_| InputWay::ForwardedToAll),
        Some(StdinFlag::None) => Ok(InputWay::Nowhere),
        None => Ok(way.unwrap_or(InputWay::Nowhere)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_process_gets_what_it_can_read() {
        use FirstProcess::{Detached, Elsewhere, Here};
        use InputWay::{Forwarded, ForwardedToAll, Inherited, Nowhere};
        let way = |flag, first, is_terminal| input_way(flag, first, is_terminal).ok();
        for flag in [None, Some(StdinFlag::First)] {
            assert_eq!(way(flag, Here, false), Some(Inherited));
            assert_eq!(way(flag, Elsewhere, false), Some(Forwarded));
        }
        for (first, is_terminal) in [(Here, true), (Elsewhere, true), (Detached, false)] {
            assert_eq!(way(None, first, is_terminal), Some(Nowhere), "{first:?}");
            assert_eq!(way(Some(StdinFlag::First), first, is_terminal), None, "{first:?}");
            assert_eq!(way(Some(StdinFlag::All), first, is_terminal), None, "{first:?}");
        }
        for first in [Here, Elsewhere] {
            let all = way(Some(StdinFlag::All), first, false);
            assert_eq!(all, Some(ForwardedToAll), "{first:?}");
        }
        for first in [Here, Elsewhere, Detached] {
            assert_eq!(way(Some(StdinFlag::None), first, false), Some(Nowhere), "{first:?}");
        }
    }
}
