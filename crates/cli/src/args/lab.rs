//! The command lines of `gridctl lab`, and of the processes that it starts.

use clap::{Args, Subcommand};
use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// Arguments of `gridctl lab`.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
#[command(
    override_usage = "gridctl lab [OPTIONS] -- COMMAND [ARGS]...",
    after_help = LAB_HELP
)]
pub(crate) struct LabArgs {
    /// Emulate the grid of this file.
    #[arg(short, long, value_name = "FILE", group = "place")]
    pub(crate) grid: Option<PathBuf>,
    /// Emulate sites and links given in short, `SITESxHOSTS[xPES]` and options, such as
    /// 2x4,wan=32ms,loss=0.1%, or a grid file.
    #[arg(short, long, value_name = "SPEC", group = "place")]
    pub(crate) emulate: Option<String>,
    /// Seed the loss and the jitter of packets.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// The command and its arguments. It runs on the first host.
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    pub(crate) command: Vec<OsString>,
}

const LAB_HELP: &str = "\
COMMAND and all that it starts need no change. Each host has its own name, network, /etc/hosts and
/dev/shm; files are those of this machine. Packets between hosts take the links of the grid; none
leaves the lab. IP packets have at most 1,500 bytes. `ssh HOST` reaches other hosts.

mpirun of Open MPI and MPICH starts its processes on all hosts, without flags; a host has a slot for
each of its PEs. Where a script or a configuration overrides these settings, pass them as flags:
  mpirun --hostfile $GRIDCTL_LAB_HOSTFILE --mca plm_rsh_agent ssh …   (Open MPI)
  mpiexec -f $HYDRA_HOST_FILE -launcher ssh …                         (MPICH)

A lab needs Linux, root or user namespaces, /dev/net/tun, and the programs unshare (Debian's package
util-linux) and ip (iproute2). It leaves nothing behind, even if gridctl is killed.

Examples:
  gridctl lab -e 2x2,wan=20ms -- mpirun ./my-program     four processes, two at each site
  gridctl lab -e 2x1,rate=10mbit,loss=1% -- bash         a shell on the host a1; the other is b1
  gridctl lab --grid grid.toml -- ssh u1 hostname        the hosts and links of a grid file

Exit codes: that of COMMAND, 128 and the signal that ended it, 1 there can be no lab, 2 usage.";

/// The processes of a lab, for which gridctl starts itself.
#[derive(Debug, Subcommand)]
pub(crate) enum LabPart {
    /// In new namespaces: start the hosts and the command, and forward packets.
    Run(LabRunArgs),
    /// When standard input ends, end with all processes of the lab.
    Init,
    /// Run as a host.
    Host(LabHostArgs),
    /// Run a command on a host.
    Enter(LabEnterArgs),
    /// Run a command on a host as `ssh` does.
    Ssh(LabSshArgs),
}

/// Arguments of the process that forwards packets.
#[derive(Debug, Args)]
pub(crate) struct LabRunArgs {
    /// An empty folder for the files of the lab.
    pub(crate) folder: PathBuf,
    /// The grid, if it cannot be read once more, as from a pipe.
    #[arg(long, value_name = "JSON")]
    pub(crate) described: Option<String>,
    /// What the user has asked for.
    #[command(flatten)]
    pub(crate) lab: LabArgs,
}

/// Arguments of the process of a host.
#[derive(Debug, Args)]
pub(crate) struct LabHostArgs {
    /// Name of the host.
    pub(crate) name: String,
    /// Its address.
    pub(crate) address: Ipv4Addr,
    /// Name of its device before it is moved to the host.
    pub(crate) device: String,
    /// The folder with the files of the lab.
    pub(crate) folder: PathBuf,
}

/// Arguments of a process that becomes a command on a host.
#[derive(Debug, Args)]
pub(crate) struct LabEnterArgs {
    /// The process of the host.
    pub(crate) process: u32,
    /// The folder in which the command runs.
    pub(crate) folder: PathBuf,
    /// The command and its arguments.
    #[arg(required = true, trailing_var_arg = true)]
    pub(crate) command: Vec<OsString>,
}

/// Arguments of the `ssh` of a lab.
#[derive(Debug, Args)]
pub(crate) struct LabSshArgs {
    /// The file that lists the hosts and their processes.
    pub(crate) table: PathBuf,
    /// The arguments of `ssh`.
    #[arg(trailing_var_arg = true)]
    pub(crate) words: Vec<OsString>,
}
