//! Errors of the flags of `gridctl run`.

use thiserror::Error;

/// Flags of `gridctl run` cannot be combined, or cannot be used here.
#[derive(Debug, Error)]
pub(crate) enum RunFlagError {
    /// A variable to set for the nodes has no value.
    #[error("--env: `{name}` is not set here")]
    Unset { name: String },
    /// A detached job would consist of tasks of Slurm, which end with their launcher.
    #[error("a job in an allocation of Slurm cannot be detached")]
    DetachedTasks,
    /// A detached job on one machine has a witness.
    #[error("--witness is for a job on several hosts")]
    WitnessOfOneHost,
    /// The flag cannot be combined with `--record`.
    #[error("a job with --record cannot have {flag}")]
    RecordedWith { flag: &'static str },
    /// A job with spare nodes has guests whose loss would end it.
    #[error("a job with --spare nodes cannot have --guests whose loss ends it")]
    SparesWithGuests,
    /// A job whose nodes are threads has spare nodes.
    #[error("--spare needs nodes that are processes: use -n, --grid or --driver cluster")]
    SparesOfThreads,
    /// All nodes are spare.
    #[error("--spare: no node is left to start")]
    AllSpare,
    /// The flags request a second copy of each part of a checkpoint at another site, and only one
    /// copy of each part.
    #[error("--protect-sites keeps a second copy at another site, but `--copies 1` keeps none")]
    NoCopyForSites,
    /// The flags limit the tasks that nodes keep for losses, and the job keeps none.
    #[error("--log-bytes has no effect: a job with {flag} keeps no tasks for losses")]
    LogWith { flag: &'static str },
    /// Standard input is a terminal, from which a background process may not read.
    #[error("--stdin {nodes}: standard input is a terminal")]
    TerminalInput {
        /// The nodes that should read it, as the user has named them.
        nodes: String,
    },
    /// Nodes cannot get the standard input of gridctl.
    #[error("--stdin {nodes}: {reason}")]
    NoInput {
        /// The nodes, as the user has named them.
        nodes: String,
        reason: &'static str,
    },
}

impl RunFlagError {
    /// Returns the next step.
    pub(super) fn hint(&self) -> String {
        match self {
            Self::DetachedTasks => {
                "submit a script with `sbatch`, which goes on when you log out".into()
            }
            Self::WitnessOfOneHost => {
                "leave it out: if this machine ends, the job ends with it".into()
            }
            Self::Unset { name } => format!("write `--env {name}=VALUE`"),
            Self::RecordedWith { flag: "--guests" } => {
                "leave out one of them; spare nodes that `gridctl add` starts are recorded".into()
            }
            Self::RecordedWith { .. } => {
                "leave out one of them; a terminal multiplexer such as tmux goes on when you log out"
                    .into()
            }
            Self::SparesWithGuests => {
                "add --tolerate-lost-guests; guests then join again when the nodes of the job change".into()
            }
            Self::SparesOfThreads => {
                "for example `gridctl run -n 4 --spare site/3 PROGRAM`".into()
            }
            Self::AllSpare => "name fewer nodes".into(),
            Self::NoCopyForSites | Self::LogWith { .. } => "leave out one of them".into(),
            Self::TerminalInput { .. } => "`cat | gridctl run …` passes on what you type".into(),
            Self::NoInput { .. } => "let the program read a file, or its arguments".into(),
        }
    }
}
