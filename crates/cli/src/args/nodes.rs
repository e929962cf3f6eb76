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
    /// The job [default: the latest that accepts guests].
    #[arg(value_name = "ID")]
    pub(crate) job: Option<String>,
    /// Join this site [default: the first].
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
    /// The job [default: the latest].
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
    /// The job [default: the latest].
    #[arg(short, long, value_name = "ID")]
    pub(crate) job: Option<String>,
    /// Treat the nodes as lost if they have not left after this time, such as 30s.
    #[arg(long, value_name = "TIME", value_parser = period)]
    pub(crate) deadline: Option<Duration>,
}

/// Arguments of `gridctl add`.
#[derive(Debug, Args)]
#[command(after_help = ADD_HELP)]
pub(crate) struct AddArgs {
    /// Nodes of the job that are spare, have left, or were lost: `SITE/NUMBER`, a host, or a site
    /// for all its nodes. With `--at`: hosts, such as `b7` or `b[7-9]`, each of which gets a new
    /// node.
    #[arg(
        value_name = "NODE",
        required_unless_present_any = ["count", "here", "slurm"],
        conflicts_with_all = ["count", "here", "slurm"]
    )]
    pub(crate) nodes: Vec<String>,
    /// Start new nodes at this site, which the job need not have yet [default for `-n`, `--slurm`
    /// and `--here`: the only one].
    #[arg(long = "at", value_name = "SITE")]
    pub(crate) site: Option<String>,
    /// Start N new nodes on the hosts of the site, each on the one with the fewest nodes.
    #[arg(
        short = 'n',
        long = "nodes",
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1024),
        conflicts_with_all = ["here", "slurm"]
    )]
    pub(crate) count: Option<u32>,
    /// Give each new node N PEs [default: as the last node of the site].
    #[arg(short, long, value_name = "N", conflicts_with_all = ["here", "slurm"])]
    pub(crate) pes: Option<NonZeroU32>,
    /// Start new nodes as tasks of this allocation of Slurm: one on each host, with all its CPUs.
    #[arg(long, value_name = "JOBID", value_parser = slurm_job)]
    pub(crate) slurm: Option<String>,
    /// Start new nodes as tasks of the allocation of Slurm in which this command runs: those that
    /// `gridctl run` would start. Then wait for the end of the job, so that Slurm does not release
    /// the allocation.
    #[arg(long, conflicts_with = "slurm")]
    pub(crate) here: bool,
    /// The job [default: the latest].
    #[arg(short, long, value_name = "ID")]
    pub(crate) job: Option<String>,
}

impl AddArgs {
    /// Whether the nodes are new to the job.
    pub(crate) fn are_new(&self) -> bool {
        self.site.is_some()
            || self.count.is_some()
            || self.pes.is_some()
            || self.slurm.is_some()
            || self.here
    }
}

/// Parses the number of an allocation.
fn slurm_job(text: &str) -> Result<String, &'static str> {
    let is_number = text.starts_with(|letter: char| letter.is_ascii_digit());
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_+".contains(&byte));
    (is_number && is_plain).then(|| text.to_owned()).ok_or("write its number, as `squeue` shows it")
}

const CHANGE_HELP: &str =
    "The job changes its nodes at main's next progress point. It must have a \
main that can begin again, and nodes that are processes (-n, --grid, --driver cluster).

Exit codes: 0 done, 1 refused or the job has ended, 2 usage.";

const ADD_HELP: &str = "Examples:
  gridctl add b/3              a node that has left joins again
  gridctl add --at b b7        a new node on host b7, at site b
  gridctl add -n 2             two more nodes of a job with one site
  gridctl add --slurm 4711     the hosts of another allocation, for a job inside one

New nodes get the next numbers of the job, and keep them. The job changes its nodes at main's next
progress point. It must have a main that can begin again, and nodes that are processes (-n, --grid,
--driver cluster).

Exit codes: 0 done, 1 refused or the job has ended, 2 usage; with --here that of the job.";
