//! Arguments about the processes of a job.

use super::values::silence;
use crate::metrics::MetricsAddress;
use clap::{Args, ValueEnum};
use gridspan::binding::Binding;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// How processes run, and where their input comes from and their counters go.
#[derive(Debug, Args)]
pub(crate) struct ProcessFlags {
    /// Serve the counters of the job to Prometheus, at http://ADDRESS/metrics: a port of this
    /// machine, such as 9464 (0 for any), or unix:PATH. Only your user can read them. Each node is
    /// then a separate process, as with `-n`.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics: Option<MetricsAddress>,
    /// Give the standard input of gridctl to NODE: 0, SITE/NUMBER, none or all. With SITE/NUMBER
    /// and all, each node is a separate process, as with `-n`. With all, each gets a copy; one that
    /// does not read its copy holds up the others [default: 0, unless the input is a terminal or
    /// the job is detached].
    #[arg(long, value_name = "NODE")]
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StdinFlag {
    /// The process of the first node.
    First,
    /// The process of the node of this name, such as `a/1`.
    Node(String),
    /// No node.
    None,
    /// The processes of all nodes.
    All,
}

impl StdinFlag {
    /// Whether each node must be a separate process.
    pub(crate) fn needs_processes(&self) -> bool {
        matches!(self, Self::Node(_) | Self::All)
    }
}

impl FromStr for StdinFlag {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "0" => Ok(Self::First),
            "none" => Ok(Self::None),
            "all" => Ok(Self::All),
            name if name.contains('/') => Ok(Self::Node(name.to_owned())),
            _ => Err("write 0, none, all, or the name of a node, such as local/1"),
        }
    }
}

impl fmt::Display for StdinFlag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::First => "0",
            Self::Node(name) => name.as_str(),
            Self::None => "none",
            Self::All => "all",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nodes_that_get_the_input_are_read_as_written() {
        for text in ["0", "none", "all", "a/0", "delft/12"] {
            assert_eq!(text.parse::<StdinFlag>().unwrap().to_string(), text);
        }
        for wrong in ["", "1", "a", "None"] {
            assert!(wrong.parse::<StdinFlag>().is_err(), "{wrong:?}");
        }
    }
}
