//! The ways in which the launcher reaches nodes on other machines, and how these explain the ends
//! of nodes.

use super::super::event::Exit;

/// The way to a node on another machine.
#[derive(Clone, Debug)]
pub(crate) enum Way {
    /// Over ssh.
    Ssh {
        host: String,
        /// The command that logs in there.
        login: String,
    },
    /// As a task of Slurm.
    Srun { host: String },
}

impl Way {
    /// Explains the end of a node with a message and a hint, if the way to the node caused the end.
    pub(super) fn explain(&self, exit: Exit, is_starting: bool) -> Option<(String, String)> {
        match self {
            Self::Ssh { host, login } => over_ssh(host, login, exit, is_starting),
            Self::Srun { host } => by_srun(host, exit, is_starting),
        }
    }
}

/// Explains the exit code of `ssh`, or of the shell on the other host.
fn over_ssh(host: &str, login: &str, exit: Exit, is_starting: bool) -> Option<(String, String)> {
    Some(match exit {
        Exit::Code(255) if is_starting => (
            format!("ssh cannot start a node on host `{host}`"),
            format!("`{login} true` must work without a prompt"),
        ),
        Exit::Code(255) | Exit::Unreachable => (
            format!("the ssh connection to host `{host}` broke"),
            "check the network between this machine and the host, and whether the host still runs"
                .to_owned(),
        ),
        exit => return cannot_run(host, exit, is_starting),
    })
}

/// Explains the end of a task.
fn by_srun(host: &str, exit: Exit, is_starting: bool) -> Option<(String, String)> {
    Some(match exit {
        Exit::NotStarted => (
            format!("srun has started no node on host `{host}`"),
            "the warnings above are those of srun; `srun --overlap hostname` must work in the \
             allocation, and gridctl must be at the same path on every host"
                .to_owned(),
        ),
        Exit::Unknown => (
            format!("the task on host `{host}` ended, or cannot be reached any more"),
            "see `sacct` for the task, and check the network between this machine and the host"
                .to_owned(),
        ),
        exit => return cannot_run(host, exit, is_starting),
    })
}

/// Explains the exit code of a shell that finds no program.
fn cannot_run(host: &str, exit: Exit, is_starting: bool) -> Option<(String, String)> {
    let is_it = is_starting && matches!(exit, Exit::Code(126 | 127));
    let hint =
        "the program, and gridctl for a built-in job, must be at the same path on every host";
    is_it.then(|| (format!("host `{host}` cannot run the program"), hint.to_owned()))
}
