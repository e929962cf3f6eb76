//! `gridctl lab`: an emulated grid for unmodified programs, like MicroGrid (Song et al., 2000).
//!
//! # Start
//!
//! `gridctl lab` checks the grid and the system (`entry`) and becomes `unshare`, which becomes
//! gridctl again, in new network and mount namespaces, with a new PID namespace for its children.
//! A user who is not root also gets a user namespace, and is root in it. This process (`inside`)
//! starts
//!
//! 1. the first process of the new PID namespace (`init`);
//! 2. for each host a process in other network, mount, UTS and IPC namespaces, with a name, an
//!    `/etc/hosts` and a `/dev/shm` (`host`), whose network gets a TUN device (`tun`);
//! 3. the command, which a process of gridctl becomes after it has moved to the first host
//!    (`enter`).
//!
//! Namespaces without names end with their processes.
//!
//! # While the command runs
//!
//! The process of `inside` reads packets from the devices of hosts, and writes them to the devices
//! of other hosts when the router says that they are due (`forwarding`, `router`). The command
//! resolves the names of hosts, and reaches them by an `ssh` that is first in its `$PATH`.
//! Environment variables tell MPI launchers of the hosts and of this `ssh` (`files`).
//!
//! # End and failure
//!
//! The first process ends at the end of its standard input, a pipe whose other end only the
//! forwarding process has. So it ends with that process, however that ends, and the system then
//! kills all processes of the lab, also those without a parent. The devices end when the forwarding
//! process does.

#[cfg(target_os = "linux")]
mod enter;
#[cfg(target_os = "linux")]
mod entry;
mod error;
#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod forwarding;
#[cfg(target_os = "linux")]
mod host;
#[cfg(target_os = "linux")]
mod init;
#[cfg(target_os = "linux")]
mod inside;
#[cfg(target_os = "linux")]
mod lab_host;
#[cfg(target_os = "linux")]
mod namespaces;
#[cfg(target_os = "linux")]
mod program;
#[cfg(target_os = "linux")]
mod router;
#[cfg(target_os = "linux")]
mod signal_pipes;
#[cfg(target_os = "linux")]
mod ssh_line;
#[cfg(target_os = "linux")]
mod tun;

pub(crate) use error::LabError;

use crate::args::{LabArgs, LabPart};
use crate::error::CliError;
use std::process::ExitCode;

/// Runs a command on an emulated grid.
#[cfg(target_os = "linux")]
pub(crate) fn run(args: &LabArgs, verbose: u8) -> Result<ExitCode, CliError> {
    entry::run(args, verbose)
}

/// Runs as one of the processes of a lab.
#[cfg(target_os = "linux")]
pub(crate) fn run_part(part: &LabPart) -> Result<ExitCode, CliError> {
    match part {
        LabPart::Run(args) => inside::run(args),
        LabPart::Init => init::run(),
        LabPart::Host(args) => host::run(args),
        LabPart::Enter(args) => enter::run(args),
        LabPart::Ssh(args) => enter::run_ssh(args),
    }
}

/// Fails: other systems have no namespaces.
#[cfg(not(target_os = "linux"))]
pub(crate) fn run(_args: &LabArgs, _verbose: u8) -> Result<ExitCode, CliError> {
    Err(LabError::OtherSystem.into())
}

/// Fails: other systems have no namespaces.
#[cfg(not(target_os = "linux"))]
pub(crate) fn run_part(_part: &LabPart) -> Result<ExitCode, CliError> {
    Err(LabError::OtherSystem.into())
}
