//! The command line of `gridctl`.

mod balance;
mod bcast;
mod bench;
mod check;
mod checkpoint;
mod jobs;
mod lab;
mod nodes;
mod place;
mod plan;
mod process;
mod program;
mod record;
mod recorded;
mod reference;
mod report;
mod rpc;
mod topo;
mod values;
mod watching;

pub(crate) use balance::{BalanceFlags, BalanceVerb, ReplayArgs, SnapshotFormat, Switch};
pub(crate) use bcast::{BcastArgs, SharingName};
pub(crate) use bench::{
    BenchBcastArgs, BenchMessagesArgs, BenchRanksArgs, BenchTasksArgs, BenchVerb,
};
pub(crate) use check::{CheckAgentArgs, CheckArgs};
pub(crate) use checkpoint::{CheckpointArgs, CheckpointFlags, CheckpointVerb, OnLossFlag};
pub(crate) use jobs::{AttachArgs, KillArgs, LogsArgs, PruneArgs, PsArgs, StopArgs, WaitArgs};
pub(crate) use lab::{LabArgs, LabEnterArgs, LabHostArgs, LabPart, LabRunArgs, LabSshArgs};
pub(crate) use nodes::{AddArgs, DrainArgs, JoinArgs, NodesArgs};
pub(crate) use place::{DriverName, PlaceArgs, SiteArg};
pub(crate) use plan::{Change, PlanArgs};
pub(crate) use process::{ProcessFlags, StdinFlag};
pub(crate) use program::{Command, JobArgs, TaskArgs};
pub(crate) use record::RecordFlags;
pub(crate) use recorded::{CompareArgs, TraceArgs};
pub(crate) use reference::{CompletionsArgs, ManArgs, ProgramsArgs};
pub(crate) use report::ReportArgs;
pub(crate) use rpc::{
    INDIVIDUAL, Late, RpcCallArgs, RpcListArgs, RpcRunArgs, RpcServeArgs, RpcVerb,
    StragglerPolicyName,
};
pub(crate) use topo::{RttUnitName, TopoArgs};
pub(crate) use watching::{DoctorArgs, TopArgs};

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;
use values::{log_limit, period, silence};

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
  gridctl run -n 4 --metrics 9464 leanmd   serves its counters to Prometheus
  gridctl report DIR                       what limited a recorded run, and a page that shows it
  gridctl plan -e 4x8,wan=20ms leanmd      how long a job would take on a grid
  gridctl drain b/2                        lets a node leave your latest running job
  gridctl add --at b b7                    starts another node for it on host b7
  gridctl check --grid grid.toml           whether a job could run on these hosts
  gridctl trace DIR                        a recording, for Perfetto
  gridctl compare A B                      why one recorded run is faster than another
  gridctl topo                             the sites and links that a running job knows
  gridctl bcast --grid grid.toml           how a broadcast would travel over a grid
  gridctl rpc run -e 4x8x4 workflow.json   how a workflow would be mapped to servers
  gridctl bench messages                   how long messages take on this machine
  gridctl bench bcast                      how long broadcasts take on this machine
  gridctl lab -e 2x2,wan=20ms -- mpirun ./program
                                           an MPI program on two sites, 20 ms apart

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
    /// End a running job of yours at once, or kill some of its nodes.
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
    /// Predict how long a job takes on a grid, and what other links or sites would change.
    Plan(Box<PlanArgs>),
    /// List the nodes of a running job of yours.
    Nodes(NodesArgs),
    /// Let nodes leave a running job of yours, which goes on without them.
    Drain(DrainArgs),
    /// Start nodes that take no part in a running job of yours, or new ones on any hosts, and let
    /// them join.
    Add(AddArgs),
    /// Check the hosts of a grid before a job runs on them, and say what to do.
    Check(CheckArgs),
    /// Run a job in virtual time: any number of PEs, and the same seed gives the same run.
    Sim(SimArgs),
    /// Write a recording as a trace for Perfetto: slices, flows and counters.
    Trace(TraceArgs),
    /// Compare two recordings of a job: which was faster, and where the time went.
    Compare(CompareArgs),
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
    /// Run any command on an emulated grid: hosts with names and networks, on this machine.
    Lab(LabArgs),
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
    /// Be one of the processes of a lab.
    #[command(name = "__lab", hide = true, subcommand)]
    LabPart(LabPart),
    /// Answer `gridctl check`, which starts this on each host.
    #[command(name = "__check", hide = true)]
    CheckAgent(CheckAgentArgs),
    /// Be the witness of a detached job, whose launcher starts this on another host.
    #[command(name = "__witness", hide = true)]
    WitnessAgent,
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
    /// How its processes run.
    #[command(flatten)]
    pub(crate) process: ProcessFlags,
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
    /// Do WHAT when the job can never continue, since all of it waits [default: warn].
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) on_stall: Option<OnStall>,
    /// End the job after this time, such as 10min, with an error that reports what it waits for.
    #[arg(long, value_name = "TIME", value_parser = period)]
    pub(crate) time_limit: Option<Duration>,
    /// Declare a node lost after this much silence, from 1s to a day, plus four round trips; a
    /// `lost_after` of a link in the grid file takes precedence [default: 3s].
    #[arg(long, value_name = "TIME", value_parser = silence)]
    pub(crate) lost_after: Option<Duration>,
    /// Set this variable for the nodes, to VALUE or to its value here; repeat it for more.
    #[arg(long = "env", value_name = "NAME[=VALUE]")]
    pub(crate) variables: Vec<String>,
    /// Run the nodes in DIR [default: the current folder, on other hosts if it exists there].
    #[arg(long = "wdir", value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// Write what each node prints into files in DIR, too: SITE-N.out and SITE-N.err. Files of an
    /// earlier job with these names are replaced. A detached job has such files anyway.
    #[arg(long, value_name = "DIR", conflicts_with = "detach")]
    pub(crate) logs: Option<PathBuf>,
    /// Print what these nodes print, and nothing of the others: `SITE/NUMBER`, a host, or a site
    /// for all its nodes; separated by commas. Each node is then a separate process, as with `-n`.
    #[arg(long, value_name = "NODE,…", value_delimiter = ',', conflicts_with = "detach")]
    pub(crate) only: Vec<String>,
    /// Run in the background. The job outlives this terminal and its launcher; `gridctl attach`
    /// shows the output.
    #[arg(long, conflicts_with_all = ["guests", "dry_run"])]
    pub(crate) detach: bool,
    /// With --detach: limit each file of output to about SIZE, at least 4kB. A second file keeps as
    /// much of the earlier output.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = log_limit, requires = "detach")]
    pub(crate) log_limit: u64,
    /// With --detach, on several hosts: if exactly half of the nodes are left, PLACE settles
    /// whether this half goes on or the other one. PLACE is a folder that all launchers of the job
    /// reach, the address of a place in an object store, or `ssh://[USER@]HOST[:PORT][/DIR]`: a
    /// folder on a host that ssh reaches, and that has gridctl at the same path as here. A new
    /// folder needs a `/` in PLACE, such as `./NAME`.
    #[arg(long, value_name = "PLACE", requires = "detach")]
    pub(crate) witness: Option<PathBuf>,
    /// Be the launcher of this detached job; gridctl starts itself with this flag.
    #[arg(long, value_name = "ID", hide = true, requires = "detach")]
    pub(crate) background: Option<String>,
    /// This node, host or site of the detached job has ended for good: see `gridctl attach
    /// --ended`.
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

Node 0 reads gridctl's standard input, on other hosts too, if the input is no terminal; other nodes
have none, except with --stdin SITE/NUMBER or all. In a loop of a shell that reads the same input,
use --stdin none.
Nodes end when gridctl does, except with --detach.
Ctrl-C asks all nodes to end; a second one kills them.";

/// Action on a job that can never continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnStall {
    /// Print a warning.
    Warn,
    /// End it with an error.
    Fail,
}

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
    /// End the job after this virtual time, such as 10min, with an error that reports what it waits
    /// for [default: a day].
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
