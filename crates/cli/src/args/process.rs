//! Arguments about the processes of a job.

use super::values::silence;
use crate::metrics::MetricsAddress;
use clap::{Args, ValueEnum};
use gridspan::binding::Binding;
use std::time::Duration;

/// How processes run, and where their input comes from and their counters go.
#[derive(Debug, Args)]
pub(crate) struct ProcessFlags {
    /// Serve the counters of the job to Prometheus, at http://ADDRESS/metrics: a port of this
    /// machine, such as 9464 (0 for any), or unix:PATH. Only your user can read them. Each node is
    /// then a separate process, as with `-n`.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics: Option<MetricsAddress>,
    /// Give the standard input of gridctl to NODE: 0, none or all. With all, each node is a
    /// separate process, as with `-n`, and gets a copy; one that does not read its copy holds up
    /// the others [default: 0, unless the input is a terminal or the job is detached].
    #[arg(long, value_enum, value_name = "NODE", hide_possible_values = true)]
    pub(crate) stdin: Option<StdinFlag>,
    /// Give each node this time, from 1s to a day, to start and to say where it listens, counted
    /// from the start of the last one. The time also holds whenever the job goes on after a loss or
    /// with other nodes; a node that takes longer is lost then [default: 30s, longer on crowded
    /// machines and for tasks of Slurm].
    #[arg(long, value_name = "TIME", value_parser = silence)]
    pub(crate) connect_timeout: Option<Duration>,
    /// Bind each PE to a core, or to the NUMA domain of a core: none, core or numa. The nodes on a
    /// host divide the cores that they may use [default: none].
    #[arg(long, value_enum, value_name = "WHAT", hide_possible_values = true)]
    pub(crate) bind: Option<BindFlag>,
}

/// What `--bind` binds PEs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BindFlag {
    /// To nothing.
    None,
    /// To a core.
    Core,
    /// To the NUMA domain of a core.
    Numa,
}

impl From<BindFlag> for Binding {
    fn from(flag: BindFlag) -> Self {
        match flag {
            BindFlag::None => Self::None,
            BindFlag::Core => Self::Core,
            BindFlag::Numa => Self::Numa,
        }
    }
}

/// The nodes that get the standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StdinFlag {
    /// The process of the first node.
    #[value(name = "0")]
    First,
    /// No node.
    None,
    /// The processes of all nodes.
    All,
}
