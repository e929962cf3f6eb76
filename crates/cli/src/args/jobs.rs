//! The command lines of `gridctl attach`, `stop`, `ps`, `kill`, `wait`, `logs` and `prune`.

use super::values::{command_text, period};
use clap::Args;
use std::time::Duration;

/// Seconds of a day.
const DAY_S: u64 = 24 * 60 * 60;

/// Arguments of `gridctl attach`.
#[derive(Debug, Args)]
#[command(after_help = ATTACH_HELP)]
pub(crate) struct AttachArgs {
    /// The job [default: the latest that was started with --detach].
    #[arg(value_name = "ID")]
    pub(crate) job: Option<String>,
    /// Start a launcher on this machine for a job whose launcher was lost with its machine. HOST is
    /// any host with a node of the job, from which the launcher gets the state of the job.
    #[arg(long, value_name = "HOST")]
    pub(crate) from: Option<String>,
    /// State that this node, host or site has ended for good, so that it does not count in the
    /// decision whether the job may go on; repeat it for more.
    #[arg(long, value_name = "NODE")]
    pub(crate) ended: Vec<String>,
    /// Reach HOST by CMD, which is split at blanks and takes the arguments of `ssh` [default:
    /// $GRIDCTL_SSH, else ssh].
    #[arg(long, value_name = "CMD", value_parser = command_text, requires = "from")]
    pub(crate) ssh: Option<String>,
}

const ATTACH_HELP: &str = "If the launcher of the job was killed, gridctl starts another one, \
which attends to the job from then on.
If the machine of the launcher was lost, --from starts one here. This machine must have gridctl, \
and the folder in which the job was started, at the same paths, and must reach all hosts by the \
same names.
Ctrl-C leaves the job alone; `gridctl stop` ends it.

Exit codes: that of the job, 1 no launcher attends to it, 2 usage.";

/// Arguments of `gridctl stop`.
#[derive(Debug, Args)]
#[command(after_help = STOP_HELP)]
pub(crate) struct StopArgs {
    /// The job [default: the latest].
    #[arg(value_name = "ID")]
    pub(crate) job: Option<String>,
}

const STOP_HELP: &str = "The job ends as after SIGTERM: with a last checkpoint if it has a \
folder for them, and with exit code 143.

Exit codes: 0 the job is stopping, 1 it cannot be reached, 2 usage.";

/// Arguments of `gridctl ps`.
#[derive(Debug, Args)]
#[command(after_help = PS_HELP)]
pub(crate) struct PsArgs {
    /// Print one JSON array, with an object for each job.
    #[arg(long)]
    pub(crate) json: bool,
}

const PS_HELP: &str = "\
States: starting, running, changing (nodes were lost, or are leaving or joining), ending; of
detached jobs also unattended (their launcher has ended; `gridctl attach` starts another), done,
failed (with the exit code), stopped (by a signal), and gone (the machine was started again, or the
launcher was killed before the job had begun).

A program that `gridctl run --driver embedded` has become is not listed. Ended jobs are listed until
`gridctl prune` removes them.";

/// Arguments of `gridctl kill`.
#[derive(Debug, Args)]
#[command(after_help = KILL_HELP)]
pub(crate) struct KillArgs {
    /// The job.
    #[arg(value_name = "ID")]
    pub(crate) job: String,
    /// Kill only this node (SITE/NUMBER), the nodes of this host, or those of this site; repeat it
    /// for more.
    #[arg(long, value_name = "NODE")]
    pub(crate) node: Vec<String>,
}

const KILL_HELP: &str = "\
The processes of the job get SIGKILL, and so does its launcher if it does not answer. There is no
last checkpoint; `gridctl stop` makes one. The exit code of the job is 137.
A detached job on several hosts can be killed only while a launcher attends to it.

With --node, only some nodes get SIGKILL, and the job treats them as lost: it goes on, as --on-loss
of `gridctl run` says, or ends. So you can see what a loss does to a job. `gridctl drain` lets nodes
leave without a loss. A node whose host cannot be reached is given up, and killed once its host can
be reached.

Exit codes: 0 the job has ended, or the nodes are killed or given up, 1 it could not be killed,
2 usage.";

/// Arguments of `gridctl wait`.
#[derive(Debug, Args)]
#[command(after_help = WAIT_HELP)]
pub(crate) struct WaitArgs {
    /// The jobs.
    #[arg(value_name = "ID", required = true)]
    pub(crate) jobs: Vec<String>,
    /// Give up after this time, such as 10min.
    #[arg(long, value_name = "TIME", value_parser = period)]
    pub(crate) timeout: Option<Duration>,
}

const WAIT_HELP: &str = "\
Exit codes: that of the job; of several jobs, the first one that is not 0 in the order given; 124
after the time of --timeout; 1 if the exit code is not known; 2 usage.";

/// Arguments of `gridctl logs`.
#[derive(Debug, Args)]
#[command(after_help = LOGS_HELP)]
pub(crate) struct LogsArgs {
    /// The job [default: the latest that was started with --detach].
    #[arg(value_name = "ID")]
    pub(crate) job: Option<String>,
    /// Go on printing until the job has ended.
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Print the output of this node (SITE/NUMBER), also what it printed while no launcher attended
    /// to the job; standard output and standard error stay separate.
    #[arg(long, value_name = "NODE")]
    pub(crate) node: Option<String>,
}

const LOGS_HELP: &str = "\
Unlike `gridctl attach`, this starts no launcher.

Exit codes: 0 all is printed, 1 no launcher attends to the job, 2 usage.";

/// Arguments of `gridctl prune`.
#[derive(Debug, Args)]
#[command(after_help = PRUNE_HELP)]
pub(crate) struct PruneArgs {
    /// Remove only jobs that ended at least this long ago, such as 12h or 7d.
    #[arg(long, value_name = "TIME", value_parser = age)]
    pub(crate) older_than: Option<Duration>,
    /// Print one JSON array, with an object for each removed folder.
    #[arg(long)]
    pub(crate) json: bool,
}

const PRUNE_HELP: &str = "\
The folders of running jobs stay. So do those of jobs to which no launcher attends, unless the
machine has been started again since.";

/// Reads a time, also in days.
fn age(text: &str) -> Result<Duration, &'static str> {
    let days = text.trim().strip_suffix('d').and_then(|days| days.parse::<u64>().ok());
    match days.and_then(|days| days.checked_mul(DAY_S)) {
        Some(seconds) => Ok(Duration::from_secs(seconds)),
        None => period(text).map_err(|_| "write a time from 1ms, such as 12h or 7d"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_times_or_days() {
        assert_eq!(age("7d"), Ok(Duration::from_secs(604_800)));
        assert_eq!(age("0d"), Ok(Duration::ZERO));
        assert_eq!(age("1.5h"), Ok(Duration::from_secs(5400)));
        for wrong in ["7", "d", "-1d", "18446744073709551615d", "week"] {
            assert!(age(wrong).is_err(), "{wrong}");
        }
    }
}
