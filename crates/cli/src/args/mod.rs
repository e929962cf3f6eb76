//! The command line of `gridctl`.

mod bcast;
mod bench;
mod check;
mod jobs;
mod place;
mod record;
mod reference;
mod report;
mod rpc;

pub(crate) use bcast::{BcastArgs, SharingName};
pub(crate) use bench::{BenchBcastArgs, BenchRanksArgs, BenchVerb};
pub(crate) use check::{CheckAgentArgs, CheckArgs};
pub(crate) use jobs::{KillArgs, LogsArgs, PruneArgs, PsArgs, WaitArgs};
pub(crate) use place::{DriverName, PlaceArgs, SiteArg};
pub(crate) use record::RecordFlags;
pub(crate) use reference::{CompletionsArgs, ManArgs, ProgramsArgs};
pub(crate) use report::ReportArgs;
pub(crate) use rpc::{
    INDIVIDUAL, RescueName, RpcCallArgs, RpcListArgs, RpcRunArgs, RpcServeArgs, RpcVerb,
};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use gridspan::CheckpointEvery;
use gridspan_balance::stealing::{STEALING_POLICIES, StealingPolicyName};
use gridspan_balance::{NAMES, StrategyName};
use gridspan_bcast::{MODES, Mode};
use gridspan_topology::ByteCount;
use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

/// Runs one tightly-coupled parallel job across many sites as if they were one computer.
#[derive(Debug, Parser)]
#[command(name = "gridctl", version, after_help = EXAMPLES)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: Verb,
    /// Log the runtime's activity to standard error; twice for more. RUST_LOG selects in detail.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

const EXAMPLES: &str = "Examples:
  gridctl programs                         lists the built-in jobs
  gridctl run ring                         on all cores of this machine
  gridctl run --emulate 2x2,wan=20ms ring  on two sites, 20 ms apart, all on this machine
  gridctl run -n 4 ./my-program --steps 9  four processes of your program
  gridctl run -n 2 --guests 4 uts          on two nodes; four more nodes may join
  gridctl join                             as a node of your latest running job
  gridctl sim --pes 512 ring               on 512 PEs, in virtual time
  gridctl run -n 4 --checkpoint-every auto leanmd
                                           goes on if nodes are lost
  gridctl run --restart DIR leanmd         goes on from a checkpoint in a folder
  gridctl run --detach -n 4 leanmd         goes on when you log out
  gridctl ps                               lists your jobs
  gridctl attach                           shows the output of your latest detached job
  gridctl doctor                           why your latest running job is slow or hangs
  gridctl top                              watches your latest running job
  gridctl report DIR                       what limited a recorded run, and a page that shows it
  gridctl drain b/2                        lets a node leave your latest running job
  gridctl check --grid grid.toml           whether a job could run on these hosts
  gridctl topo                             the sites and links that a running job knows
  gridctl bcast --grid grid.toml           how a broadcast would travel over a grid
  gridctl rpc run -e 4x8x4 workflow.json   how a workflow would be mapped to servers
  gridctl bench bcast                      how long broadcasts take on this machine

Exit codes: 0 done, 1 the job failed, 2 usage, 130 after Ctrl-C.";

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run a job: a built-in one, or a program linked with the `gridspan` crate.
    Run(Box<RunArgs>),
    /// Join a running job of yours, which was started with --guests, to work on its tasks.
    Join(JoinArgs),
    /// Show the output of a detached job of yours until it ends.
    Attach(AttachArgs),
    /// Stop a running job of yours.
    Stop(StopArgs),
    /// List your jobs: those that run, and detached ones that have ended.
    Ps(PsArgs),
    /// End a running job of yours at once.
    Kill(KillArgs),
    /// Wait until jobs of yours have ended.
    Wait(WaitArgs),
    /// Print the output of a detached job of yours, or that of one of its nodes.
    Logs(LogsArgs),
    /// Remove the folders of your detached jobs that have ended.
    Prune(PruneArgs),
    /// Say why a running job of yours is slow or does not go on.
    Doctor(DoctorArgs),
    /// Watch a running job of yours: its sites, nodes, PEs, actors, links and events.
    Top(TopArgs),
    /// Say what limited a recorded run, and write a page that shows where its time went.
    Report(ReportArgs),
    /// List the nodes of a running job of yours.
    Nodes(NodesArgs),
    /// Let nodes leave a running job of yours, which goes on without them.
    Drain(DrainArgs),
    /// Start nodes of the grid that take no part in a running job of yours, and let them join.
    Add(AddArgs),
    /// Check the hosts of a grid before a job runs on them, and say what to do.
    Check(CheckArgs),
    /// Run a job in virtual time: any number of PEs, and the same seed gives the same run.
    Sim(SimArgs),
    /// Show the topology: from a file, by measuring, or as a running job sees it.
    Topo(TopoArgs),
    /// Look at how actors were, or would be, balanced.
    #[command(subcommand)]
    Balance(BalanceVerb),
    /// Show how a broadcast would travel over a grid, strategy by strategy.
    Bcast(BcastArgs),
    /// Remote calls: map a workflow as a whole.
    #[command(subcommand)]
    Rpc(RpcVerb),
    /// Look at checkpoints in a folder.
    #[command(subcommand)]
    Checkpoint(CheckpointVerb),
    /// Measure the runtime.
    #[command(subcommand)]
    Bench(BenchVerb),
    /// List the built-in jobs.
    Programs(ProgramsArgs),
    /// Print the completions of a shell for gridctl.
    Completions(CompletionsArgs),
    /// Write the manual pages of gridctl, one for each command.
    Man(ManArgs),
    /// Run a built-in job configured by environment variables; gridctl starts itself with it.
    #[command(name = "__job", hide = true)]
    Job(JobArgs),
    /// Run the node of a task of Slurm; srun starts gridctl with it.
    #[command(name = "__task", hide = true)]
    Task(TaskArgs),
    /// Answer `gridctl check`, which starts this on each host.
    #[command(name = "__check", hide = true)]
    CheckAgent(CheckAgentArgs),
}

/// Arguments of `gridctl run`.
#[derive(Debug, Args)]
#[command(
    override_usage = "gridctl run [OPTIONS] PROGRAM [ARGS]...",
    subcommand_value_name = "PROGRAM",
    subcommand_help_heading = "Program",
    disable_help_subcommand = true,
    after_help = RUN_HELP
)]
pub(crate) struct RunArgs {
    /// Where to run.
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// How actors are balanced and tasks shared.
    #[command(flatten)]
    pub(crate) balance: BalanceFlags,
    /// Checkpoints, and what happens when nodes are lost.
    #[command(flatten)]
    pub(crate) checkpoints: CheckpointFlags,
    /// Seed everything that is random by design.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Let up to N of your nodes join each site with `gridctl join` while the job runs, to work on
    /// its tasks.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, value_parser = clap::value_parser!(u32).range(..=1024))]
    pub(crate) guests: u32,
    /// Continue when a guest is lost, and repeat its work.
    #[arg(long)]
    pub(crate) tolerate_lost_guests: bool,
    /// Action on a job that can never continue, since everything in it waits [default: warn].
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) on_stall: Option<OnStall>,
    /// End a job that takes longer, such as 10min, with an error that reports what it waits for.
    #[arg(long, value_name = "TIME", value_parser = period)]
    pub(crate) time_limit: Option<Duration>,
    /// Declare a node lost after this much silence, from 1s to a day, besides four round trips; a
    /// `lost_after` of a link in the grid file comes first [default: 3s].
    #[arg(long, value_name = "TIME", value_parser = silence)]
    pub(crate) lost_after: Option<Duration>,
    /// Set this variable for the nodes, to VALUE or to its value here; repeat it for more.
    #[arg(long = "env", value_name = "NAME[=VALUE]")]
    pub(crate) variables: Vec<String>,
    /// Run the nodes in DIR. Default: the current folder, on other hosts if it exists there.
    #[arg(long = "wdir", value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// Run in the background, also after this terminal and the launcher have ended; `gridctl
    /// attach` shows the output.
    #[arg(long, conflicts_with_all = ["guests", "dry_run"])]
    pub(crate) detach: bool,
    /// With --detach: limit each file of output to about SIZE, at least 4kB. As much of what came
    /// before is kept in a second file.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = log_limit, requires = "detach")]
    pub(crate) log_limit: u64,
    /// Attend to this detached job, for which gridctl starts itself.
    #[arg(long, value_name = "ID", hide = true, requires = "detach")]
    pub(crate) background: Option<String>,
    /// This node, host or site of the detached job has ended for good, as the user has said.
    #[arg(long, value_name = "NODE", hide = true, requires = "background")]
    pub(crate) ended: Vec<String>,
    /// Whether the job is recorded.
    #[command(flatten)]
    pub(crate) recording: RecordFlags,
    /// Print events as JSON, one per line.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print which PEs would run where, which processes would start, and which links would be
    /// emulated, and run nothing. Values of --env are not shown.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The program and its arguments.
    #[command(subcommand)]
    pub(crate) program: Option<Command>,
}

const RUN_HELP: &str =
    "PROGRAM is the name of a built-in job (see `gridctl programs`) or the path of a program.
Everything after PROGRAM belongs to the program.

Without options a built-in job runs on all cores, as threads of gridctl itself;
your program runs as one node process per core. Inside an allocation of Slurm, PBS
or LSF, both run on all its hosts instead: as tasks of one srun, or over ssh.

On other hosts, PROGRAM must be at the same path (gridctl itself for a built-in job), and ssh must
need no password. Nodes communicate by UDP: to any port, or to the site's `port` in the grid file.

Nodes have no standard input, and they end when gridctl does, except with --detach.
Ctrl-C asks all nodes to end; a second one kills them.";

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

/// Arguments of `gridctl attach`.
#[derive(Debug, Args)]
#[command(after_help = ATTACH_HELP)]
pub(crate) struct AttachArgs {
    /// The job. Default: the latest that was started with --detach.
    #[arg(value_name = "ID")]
    pub(crate) job: Option<String>,
    /// Start a launcher on this machine for a job whose launcher's machine has ended. HOST is any
    /// host with a node of the job, and provides what the launcher needs.
    #[arg(long, value_name = "HOST")]
    pub(crate) from: Option<String>,
    /// Do not count this node, host or site when it is decided whether the job may go on: you know
    /// that it has ended for good. Repeat it for more.
    #[arg(long, value_name = "NODE")]
    pub(crate) ended: Vec<String>,
    /// Reach HOST by CMD, which is split at blanks and takes the arguments of `ssh`. Default:
    /// $GRIDCTL_SSH, else ssh.
    #[arg(long, value_name = "CMD", requires = "from")]
    pub(crate) ssh: Option<String>,
}

const ATTACH_HELP: &str = "If the launcher of the job was killed, another one is started, \
which attends to the job from then on.
If its machine has ended, --from starts one here. It needs gridctl, and the folder in which the job \
was started, at the same paths as there, and reaches all hosts by the same names.
Ctrl-C leaves the job alone; `gridctl stop` ends it.

Exit codes: that of the job, 1 nothing attends to it, 2 usage.";

/// Arguments of `gridctl stop`.
#[derive(Debug, Args)]
#[command(after_help = STOP_HELP)]
pub(crate) struct StopArgs {
    /// The job. Default: the latest.
    #[arg(value_name = "ID")]
    pub(crate) job: Option<String>,
}

const STOP_HELP: &str = "The job ends as after SIGTERM: with a last checkpoint if it has a \
folder for them, and with exit code 143.

Exit codes: 0 the job is stopping, 1 it cannot be reached, 2 usage.";

/// Arguments of `gridctl doctor`.
#[derive(Debug, Args)]
#[command(after_help = DOCTOR_HELP)]
pub(crate) struct DoctorArgs {
    /// The job. Default: the latest.
    #[arg(value_name = "ID")]
    pub(crate) job: Option<String>,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `gridctl top`.
#[derive(Debug, Args)]
#[command(after_help = TOP_HELP)]
pub(crate) struct TopArgs {
    /// The job. Default: the latest.
    #[arg(value_name = "ID")]
    pub(crate) job: Option<String>,
    /// Take a sample this often, from 200ms to 60s.
    #[arg(long, value_name = "TIME", value_parser = sampling_period, default_value = "1s")]
    pub(crate) every: Duration,
    /// Print one table, of the time between two samples, and end; the default without a terminal.
    #[arg(long)]
    pub(crate) once: bool,
    /// Print a JSON object for each sample, one per line; with --once only one.
    #[arg(long)]
    pub(crate) json: bool,
}

const DOCTOR_HELP: &str = "The first line names the most likely cause; the others say what waits. \
The job goes on meanwhile.
The nodes of the job must be processes (-n, --grid, --driver cluster). The answer takes up to four \
seconds, also while PEs are inside handlers, and with nodes that do not answer.

Exit codes: 0 answered, 1 refused or the job cannot be reached, 2 usage.";

const TOP_HELP: &str = "Keys: arrows select a row, Enter goes into a site, a node or an actor \
type, Esc goes back; 1 to 5 or Tab change what is shown; < and > choose the column to sort by, r \
reverses the order; q ends.

The nodes of the job must be processes (-n, --grid, --driver cluster). The job goes on as before; \
it takes samples only while it is watched.

Exit codes: 0 done or the job has ended, 1 the job cannot be reached, 2 usage.";

/// Arguments of `gridctl nodes`.
#[derive(Debug, Args)]
pub(crate) struct NodesArgs {
    /// The job. Default: the latest.
    #[arg(value_name = "ID")]
    pub(crate) job: Option<String>,
    /// Print JSON.
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

/// Arguments of `gridctl sim`.
#[derive(Debug, Args)]
#[command(
    override_usage = "gridctl sim [OPTIONS] PROGRAM [ARGS]...",
    subcommand_value_name = "PROGRAM",
    subcommand_help_heading = "Program",
    disable_help_subcommand = true,
    after_help = SIM_HELP
)]
pub(crate) struct SimArgs {
    /// Simulate one node of N PEs.
    #[arg(short, long, value_name = "N", group = "place")]
    pub(crate) pes: Option<NonZeroU32>,
    /// Simulate the grid of this file.
    #[arg(short, long, value_name = "FILE", group = "place")]
    pub(crate) grid: Option<PathBuf>,
    /// Simulate sites and links given in short: `SITESxHOSTS[xPES]` and options, such as
    /// 2x4,wan=32ms,loss=0.1%.
    #[arg(short, long, value_name = "SPEC", group = "place")]
    pub(crate) emulate: Option<String>,
    /// How actors are balanced and tasks shared.
    #[command(flatten)]
    pub(crate) balance: BalanceFlags,
    /// Seed everything that is random by design.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// End a job that takes longer, in virtual time, with an error that reports what it waits for
    /// [default: a day].
    #[arg(long, value_name = "TIME", value_parser = period)]
    pub(crate) time_limit: Option<Duration>,
    /// Whether the job is recorded.
    #[command(flatten)]
    pub(crate) recording: RecordFlags,
    /// Print events as JSON, one per line.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print which PEs would run where, which processes would start, and which links would be
    /// simulated, and run nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The program and its arguments.
    #[command(subcommand)]
    pub(crate) program: Option<Command>,
}

const SIM_HELP: &str =
    "PROGRAM is the name of a built-in job (see `gridctl programs`) or the path of a program.
Everything after PROGRAM belongs to the program. A summary follows on standard error.";

/// Arguments of `gridctl topo`.
#[derive(Debug, Args)]
#[command(after_help = TOPO_HELP)]
pub(crate) struct TopoArgs {
    /// Show a grid file (`.toml`), or infer from a square matrix of round-trip times:
    /// comma-separated values, or rows separated by blanks as data sets are published.
    #[arg(value_name = "FILE", conflicts_with_all = ["place", "job"])]
    pub(crate) file: Option<PathBuf>,
    /// Start nodes to measure. Without it, a grid file is shown as written.
    #[arg(long, conflicts_with = "job")]
    pub(crate) probe: bool,
    /// The job whose topology to show, as it sees it. Default: the latest.
    #[arg(short, long, value_name = "ID", conflicts_with = "place")]
    pub(crate) job: Option<String>,
    /// Where to start nodes.
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// The unit of the numbers in a matrix, `s`, `ms` or `us`.
    #[arg(long, value_enum, default_value_t = RttUnitName::Ms, hide_possible_values = true)]
    pub(crate) unit: RttUnitName,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Also draw a dendrogram and a heat map into FILE; `-` prints the picture alone.
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

const TOPO_HELP: &str = "Examples:
  gridctl topo                            as your latest running job sees it
  gridctl topo grid.toml                  as a grid file describes it
  gridctl topo grid.toml --probe          as nodes started on its hosts measure it
  gridctl topo --emulate 2x4,wan=32ms     as measured over emulated links
  gridctl topo rtt.txt --unit us          as inferred from published round trips
  gridctl topo rtt.csv --svg rtt.svg      and drawn

Exit codes: 0 done, 1 nothing could be measured, 2 usage or a file that cannot be read.";

/// A built-in job and its arguments.
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct JobArgs {
    /// The job and its arguments.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where the agent of a task finds the launcher.
#[derive(Debug, Args)]
pub(crate) struct TaskArgs {
    /// The port at which tasks enrol.
    pub(crate) port: u16,
    /// The host.
    pub(crate) host: String,
}

/// A program and its arguments.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Command {
    /// The program, followed by its arguments.
    #[command(external_subcommand)]
    Program(Vec<OsString>),
}

impl Command {
    /// The program and its arguments.
    pub(crate) fn words(&self) -> &[OsString] {
        let Self::Program(words) = self;
        words
    }
}

/// Units of round trips in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RttUnitName {
    /// Seconds.
    S,
    /// Milliseconds.
    Ms,
    /// Microseconds.
    Us,
}

/// How actors are balanced and tasks shared.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct BalanceFlags {
    /// Move actors by this strategy, whatever the program sets: at sync points, and in between when
    /// links or other programs' use of the processors change.
    #[arg(long, value_name = "STRATEGY", value_parser = strategies())]
    pub(crate) balance: Option<StrategyName>,
    /// Also ask the strategy at this interval, such as 5s.
    #[arg(long, value_name = "TIME", value_parser = period)]
    pub(crate) balance_every: Option<Duration>,
    /// Require that plans are worth their cost, and undo those that were not [default: on].
    #[arg(long, value_enum, value_name = "ON")]
    pub(crate) balance_gate: Option<Switch>,
    /// Let nodes without tasks obtain some by this policy, whatever the program sets.
    #[arg(long, value_name = "POLICY", value_parser = policies())]
    pub(crate) stealing: Option<StealingPolicyName>,
    /// Send broadcasts this way, whatever the program sets: as planned while the job runs, or over
    /// the layout's tree, a binomial tree, or a star.
    #[arg(long, value_name = "WAY", value_parser = modes())]
    pub(crate) broadcast: Option<Mode>,
    /// Write the measurements of each rebalance to this file, for `gridctl balance replay`.
    #[arg(long, value_name = "FILE")]
    pub(crate) balance_dump: Option<PathBuf>,
}

/// Flags about checkpoints.
#[derive(Debug, Args)]
#[command(next_help_heading = "Checkpoints and losses")]
pub(crate) struct CheckpointFlags {
    /// Make checkpoints this often, in memory: auto, a time such as 30s, or a number of main's
    /// progress points such as 100steps [default: what the program says; auto if --copies,
    /// --protect-sites or --node-mtbf is given].
    #[arg(long, value_name = "WHEN", value_parser = every)]
    pub(crate) checkpoint_every: Option<CheckpointEvery>,
    /// Store checkpoints in DIR, too, which all nodes share; the last two are kept. DIR may be the
    /// address of a place in an object store, such as s3://BUCKET/JOB.
    #[arg(long, value_name = "DIR")]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Go on from the last checkpoint in DIR, on any number of nodes and PEs.
    #[arg(long, value_name = "DIR")]
    pub(crate) restart: Option<PathBuf>,
    /// Keep each part of a checkpoint on N nodes, 1 or 2.
    #[arg(long, value_name = "N", default_value_t = 2, hide_default_value = false, value_parser = clap::value_parser!(u32).range(1..=2))]
    pub(crate) copies: u32,
    /// Keep the second copy at another site.
    #[arg(long)]
    pub(crate) protect_sites: bool,
    /// Mean time between failures of a node, for `--checkpoint-every auto` [default: 30 days].
    #[arg(long, value_name = "TIME", value_parser = period)]
    pub(crate) node_mtbf: Option<Duration>,
    /// What happens when nodes are lost [default: shrink if --checkpoint-every or --checkpoint is
    /// given, or if the program makes checkpoints and its main can begin again; else fail].
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) on_loss: Option<OnLossFlag>,
    /// Do not start this node (SITE/NUMBER), host or site, which `gridctl add` may start later, and
    /// `--on-loss replace`.
    #[arg(long, value_name = "NODE")]
    pub(crate) spare: Vec<String>,
    /// Time that nodes have to leave after SIGTERM, and the job to stop.
    #[arg(long, value_name = "TIME", value_parser = period, default_value = "25s")]
    pub(crate) drain_deadline: Duration,
}

/// What happens when nodes are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLossFlag {
    /// Go on with the nodes that remain, from the last checkpoint.
    Shrink,
    /// Start the lost nodes again, or spare nodes if their hosts do not answer, and go on from the
    /// last checkpoint.
    Replace,
    /// End the job.
    Fail,
}

/// Action on a job that can never continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnStall {
    /// Print a warning.
    Warn,
    /// End it with an error.
    Fail,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    /// On.
    On,
    /// Off.
    Off,
}

/// Commands of `gridctl checkpoint`.
#[derive(Debug, Subcommand)]
pub(crate) enum CheckpointVerb {
    /// List the complete checkpoints.
    Ls(CheckpointArgs),
    /// Show where the actors of a checkpoint were.
    Show(CheckpointArgs),
    /// Read a checkpoint, or all, and check every byte.
    Verify(CheckpointArgs),
}

/// Arguments of the commands of `gridctl checkpoint`.
#[derive(Debug, Args)]
pub(crate) struct CheckpointArgs {
    /// The folder, or the address, of `gridctl run --checkpoint`.
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// The number of the checkpoint. Default: the last; for verify, all.
    #[arg(long, value_name = "N")]
    pub(crate) number: Option<u64>,
    /// Print JSON, one object per line.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Commands of `gridctl balance`.
#[derive(Debug, Subcommand)]
pub(crate) enum BalanceVerb {
    /// Show the plans of strategies for recorded measurements.
    Replay(ReplayArgs),
    /// Convert a file of `--balance-dump` for the tools of another runtime.
    Export(ExportArgs),
}

/// File format of measurements for balancing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SnapshotFormat {
    /// The format of `--balance-dump`.
    Dump,
    /// The format of DARMA/vt: files FILE.0.json, FILE.1.json, and so on, one per PE.
    Vt,
}

/// Arguments of `gridctl balance replay`.
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// A file of `--balance-dump`, or the common prefix of vt's files.
    pub(crate) file: PathBuf,
    /// Format of the file. The N-th rebalance of vt is its N-th phase.
    #[arg(long, value_name = "FORMAT", default_value = "dump")]
    pub(crate) format: SnapshotFormat,
    /// Plan by these strategies. Default: greedy, refine, grid-cut and auto.
    #[arg(short, long, value_name = "NAME,…", value_delimiter = ',', value_parser = strategies())]
    pub(crate) strategy: Vec<StrategyName>,
    /// Use the N-th rebalance, from 1. Default: the last.
    #[arg(long, value_name = "N")]
    pub(crate) rebalance: Option<NonZeroU32>,
    /// Explain why each actor moves.
    #[arg(long)]
    pub(crate) why: bool,
    /// Seed randomised strategies.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `gridctl balance export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// A file of `--balance-dump`.
    pub(crate) file: PathBuf,
    /// Common prefix of the files to write.
    pub(crate) to: PathBuf,
    /// Format of the files to write. The rebalance is phase 0 of vt.
    #[arg(long, value_name = "FORMAT", default_value = "vt")]
    pub(crate) format: SnapshotFormat,
    /// Use the N-th rebalance, from 1. Default: the last.
    #[arg(long, value_name = "N")]
    pub(crate) rebalance: Option<NonZeroU32>,
}

/// Smallest value of `--log-limit`: less would move the output of a process line by line.
const LOG_BYTES_MIN: u64 = 4000;

fn period(text: &str) -> Result<Duration, &'static str> {
    gridspan::variables::period(text).ok_or("write a time from 1ms, such as 5s or 200ms")
}

/// Parses how often samples are taken.
fn sampling_period(text: &str) -> Result<Duration, &'static str> {
    let bounds = Duration::from_millis(200)..=Duration::from_secs(60);
    let period = gridspan::variables::period(text).filter(|period| bounds.contains(period));
    period.ok_or("write a time from 200ms to 60s, such as 2s")
}

/// Parses how often checkpoints are made.
fn every(text: &str) -> Result<CheckpointEvery, &'static str> {
    gridspan::variables::checkpoint_every(text)
        .ok_or("neither auto, nor a time such as 30s, nor a number of steps such as 100steps")
}

fn silence(text: &str) -> Result<Duration, &'static str> {
    gridspan::variables::silence(text).ok_or("write a time from 1s to a day, such as 60s")
}

fn log_limit(text: &str) -> Result<u64, String> {
    let ByteCount(bytes) = text.parse().map_err(|error| format!("{error}"))?;
    let is_sensible = bytes >= LOG_BYTES_MIN;
    is_sensible.then_some(bytes).ok_or_else(|| "write a size from 4kB, such as 64MiB".to_owned())
}

fn policies() -> impl TypedValueParser<Value = StealingPolicyName> {
    PossibleValuesParser::from(STEALING_POLICIES).try_map(|name| name.parse::<StealingPolicyName>())
}

fn modes() -> impl TypedValueParser<Value = Mode> {
    PossibleValuesParser::from(MODES).try_map(|name| name.parse::<Mode>())
}

fn strategies() -> impl TypedValueParser<Value = StrategyName> {
    PossibleValuesParser::from(NAMES).try_map(|name| name.parse::<StrategyName>())
}

#[cfg(test)]
mod flags;

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn arguments_after_the_program_belong_to_the_program() {
        let line = ["gridctl", "run", "-n", "2", "ring", "-n", "9", "--seed", "--", "-v"];
        let Verb::Run(args) = Cli::try_parse_from(line).unwrap().verb else { panic!() };

        assert_eq!(args.place.nodes, NonZeroU32::new(2));
        assert_eq!(args.seed, None);
        assert_eq!(args.program.unwrap().words(), ["ring", "-n", "9", "--seed", "--", "-v"]);
    }

    #[test]
    fn an_unknown_flag_before_the_program_is_refused() {
        assert!(Cli::try_parse_from(["gridctl", "run", "--bogus", "ring"]).is_err());
    }

    #[test]
    fn samples_are_taken_at_most_five_times_a_second() {
        let every = |time| match Cli::try_parse_from(["gridctl", "top", "--every", time])?.verb {
            Verb::Top(args) => Ok::<_, clap::Error>(args.every),
            _ => unreachable!("it is the verb given"),
        };
        assert_eq!(every("2s").unwrap(), Duration::from_secs(2));
        for wrong in ["100ms", "61s", "0s", "fast"] {
            assert!(every(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn two_places_are_refused() {
        assert!(Cli::try_parse_from(["gridctl", "run", "-n", "2", "-e", "2x2", "ring"]).is_err());
    }
}
