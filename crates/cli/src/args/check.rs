//! The command line of `gridctl check`.

use super::program::Command;
use super::values::{command_text, silence};
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `gridctl check`.
#[derive(Debug, Args)]
#[command(
    override_usage = "gridctl check [OPTIONS] [PROGRAM [ARGS]...]",
    subcommand_value_name = "PROGRAM",
    subcommand_help_heading = "Program",
    disable_help_subcommand = true,
    after_help = CHECK_HELP
)]
pub(crate) struct CheckArgs {
    /// Check the hosts of this grid file, over ssh where they are not this machine.
    #[arg(short, long, value_name = "FILE", group = "place")]
    pub(crate) grid: Option<PathBuf>,
    /// Start a check on each host of this host file, in the form of Open MPI (`HOST slots=N`) or MPICH
    /// (`HOST:N`), as for `gridctl run --hostfile`.
    #[arg(long, value_name = "FILE", group = "place")]
    pub(crate) hostfile: Option<PathBuf>,
    /// Check this machine for all nodes of a grid, given in short or by a grid file, as for
    /// `gridctl run --emulate`.
    #[arg(short, long, value_name = "SPEC", group = "place")]
    pub(crate) emulate: Option<String>,
    /// Reach other hosts by CMD, which is split at blanks and takes the arguments of `ssh`
    /// [default: $GRIDCTL_SSH, else ssh].
    #[arg(long, value_name = "CMD", value_parser = command_text)]
    pub(crate) ssh: Option<String>,
    /// Give up on a host that has not answered after this time.
    #[arg(long, value_name = "TIME", value_parser = silence, default_value = "20s")]
    pub(crate) timeout: Duration,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// The program that is to run on the hosts [default: a built-in job].
    #[command(subcommand)]
    pub(crate) program: Option<Command>,
}

const CHECK_HELP: &str = "\
On each host: whether ssh reaches it, whether the program is at the same path and of the same build,
its clock, free cores, memory and disk. Between hosts: whether UDP passes in both directions, at
which addresses hosts see each other, and whether datagrams of 1,200 and 1,452 bytes pass.

gridctl itself must be at the same path on every host; where it is missing, only ssh and the path of
the program are checked.

Without a place, gridctl checks the hosts that PBS or LSF has allocated, or else this machine. In an
allocation of Slurm, where srun starts nodes, name a place.

Examples:
  gridctl check --grid grid.toml                     for a built-in job
  gridctl check --grid grid.toml ./my-job            for your program
  gridctl check --hostfile hosts ./my-job            the hosts of a host file
  gridctl check --emulate 2x4                        this machine

Exit codes: 0 fine, perhaps with warnings, 1 there are errors, 2 usage.";

/// Arguments of the agent of `gridctl check` on a host.
#[derive(Debug, Args)]
pub(crate) struct CheckAgentArgs {
    /// The program to look at.
    #[arg(value_name = "PROGRAM")]
    pub(crate) program: OsString,
}
