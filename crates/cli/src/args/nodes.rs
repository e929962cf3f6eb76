//! The command lines of `gridctl join`, `nodes`, `drain` and `add`: nodes of a running job.

use super::values::period;
use clap::Args;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `gridctl join`.
#[derive(Debug, Args)]
#[command(after_help = JOIN_HELP)]
pub(crate) struct JoinArgs {
    /// The job. Default: the latest that accepts guests.
    #[arg(value_name = "ID")]
    pub(crate) job: Option<String>,
    /// Join this site. Default: the first.
    #[arg(long = "at", value_name = "SITE")]
    pub(crate) site: Option<String>,
    /// Start N PEs.
    #[arg(short, long, value_name = "N", default_value_t = NonZeroU32::MIN)]
    pub(crate) pes: NonZeroU32,
    /// Use the invitation in this file, copied from the machine where the job was started.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["job", "site"])]
    pub(crate) invitation: Option<PathBuf>,
    /// The job's program, if it is at another path on this machine.
    #[arg(long, value_name = "PATH", requires = "invitation")]
    pub(crate) program: Option<PathBuf>,
}

const JOIN_HELP: &str = "On Ctrl-C the node hands back its tasks and leaves; a second one kills it.

Exit codes: 0 the node has left or the job is done, 1 it was lost or the job failed, 2 usage.";

/// Arguments of `gridctl nodes`.
#[derive(Debug, Args)]
pub(crate) struct NodesArgs {
    /// The job. Default: the latest.
    #[arg(value_name = "ID")]
    pub(crate) job: Option<String>,
    /// Print one JSON array, with an object for each node.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `gridctl drain`.
#[derive(Debug, Args)]
#[command(after_help = CHANGE_HELP)]
pub(crate) struct DrainArgs {
    /// The nodes: `SITE/NUMBER`, a host, or a site for all its nodes.
    #[arg(value_name = "NODE", required = true)]
    pub(crate) nodes: Vec<String>,
    /// The job. Default: the latest.
    #[arg(short, long, value_name = "ID")]
    pub(crate) job: Option<String>,
    /// Treat the nodes as lost if they have not left after this time, such as 30s.
    #[arg(long, value_name = "TIME", value_parser = period)]
    pub(crate) deadline: Option<Duration>,
}

/// Arguments of `gridctl add`.
#[derive(Debug, Args)]
#[command(after_help = CHANGE_HELP)]
pub(crate) struct AddArgs {
    /// The nodes: `SITE/NUMBER`, a host, or a site for all its nodes. They are spare nodes, have
    /// left, or were lost.
    #[arg(value_name = "NODE", required = true)]
    pub(crate) nodes: Vec<String>,
    /// The job. Default: the latest.
    #[arg(short, long, value_name = "ID")]
    pub(crate) job: Option<String>,
}

const CHANGE_HELP: &str =
    "The job changes its nodes at main's next progress point. It must have a \
main that can begin again, and nodes that are processes (-n, --grid, --driver cluster).

Exit codes: 0 done, 1 refused or the job has ended, 2 usage.";
