//! Which process reads the standard input of gridctl: that of node 0, or none.
//!
//! A process of this machine inherits it. So it reads a pipe or a file directly, up to its end, and
//! nothing is read that it does not ask for. Three inputs cannot be passed on in this way:
//!
//! - A terminal stops processes in the background that read from it, and nodes are such.
//! - `ssh` and `srun` forward one standard input, which is the channel from the launcher.
//! - A detached job outlives it.

use crate::args::StdinFlag;
use crate::error::CliError;
use crate::launch::Processes;
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
    /// How these processes are started.
    pub(crate) fn of(processes: &Processes) -> Self {
        match processes {
            Processes::Nodes { tasks: Some(_), .. } => Self::Elsewhere,
            Processes::Nodes { hosts, .. } if hosts.remote(NodeId(0)).is_some() => Self::Elsewhere,
            Processes::Nodes { .. } | Processes::Single { .. } => Self::Here,
        }
    }
}

/// Whether the process of node 0 gets the standard input.
///
/// # Errors
///
/// If the user wants that, and it cannot be.
pub(crate) fn is_passed(
    flag: Option<StdinFlag>,
    first: FirstProcess,
    is_terminal: bool,
) -> Result<bool, CliError> {
    let refusal = match first {
        FirstProcess::Here if is_terminal => Some(CliError::TerminalInput),
        FirstProcess::Here => None,
        FirstProcess::Elsewhere => {
            let reason = "node 0 is on another host or a task of Slurm, where its standard input \
                          is the channel to the launcher";
            Some(CliError::NoInput { reason })
        }
        FirstProcess::Detached => {
            Some(CliError::NoInput { reason: "a detached job outlives the standard input" })
        }
    };
    match (flag, refusal) {
        (Some(StdinFlag::First), Some(refusal)) => Err(refusal),
        (Some(StdinFlag::None), _) => Ok(false),
        (_, refusal) => Ok(refusal.is_none()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_process_gets_what_it_can_read() {
        use FirstProcess::{Detached, Elsewhere, Here};
        let passed = |flag, first, is_terminal| is_passed(flag, first, is_terminal).ok();
        for flag in [None, Some(StdinFlag::First)] {
            assert_eq!(passed(flag, Here, false), Some(true));
        }
        for (first, is_terminal) in [(Here, true), (Elsewhere, false), (Detached, false)] {
            assert_eq!(passed(None, first, is_terminal), Some(false), "{first:?}");
            assert_eq!(passed(Some(StdinFlag::First), first, is_terminal), None, "{first:?}");
        }
        for first in [Here, Elsewhere, Detached] {
            assert_eq!(passed(Some(StdinFlag::None), first, false), Some(false), "{first:?}");
        }
    }
}
