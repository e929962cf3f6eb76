//! Hints on the next step after each error.

use super::CliError;
use crate::slurm::{AllocationError, SRUN};
use crate::witness::WitnessAddressError;
use gridspan::variables::GridLoadError;
use rustix::io::Errno;
use std::io;

impl CliError {
    /// Returns the next step, unless the error already states it.
    pub(crate) fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoProgram => {
                "name a built-in job (`gridctl programs` lists them) or the path of a program".into()
            }
            Self::UnknownJob { name, is_file: true, .. } => {
                format!("write `./{name}` to run the program in this directory")
            }
            Self::UnknownJob { near, .. } if !near.is_empty() => {
                format!("did you mean {}?", quoted(near))
            }
            Self::UnknownJob { .. } => {
                "`gridctl programs` lists the jobs; the path of a program contains a `/`".into()
            }
            Self::Misplaced { option, verb, job } => {
                format!("write `gridctl {verb} {option} … {job} …`")
            }
            Self::ReadHostFile { .. } => "check the path".into(),
            Self::Allocation(AllocationError::SeveralLaunchers { .. }) => {
                "start it once, without srun or with `srun --ntasks=1`; it starts its nodes itself".into()
            }
            Self::Allocation(_) => {
                "`--driver embedded` or `-n N` ignores the allocation and runs on this machine".into()
            }
            Self::Witness(_) => {
                "name a folder that all launchers of the job reach and can write to, on a file \
                 system with hard links, or a place in an object store that honours the condition \
                 If-None-Match"
                    .into()
            }
            Self::WitnessHost { host, .. } => format!(
                "`ssh {host} true` must work without a prompt, on each machine with a launcher, and \
                 the host needs this gridctl at the same path as here, and a folder that you can \
                 write to, on a file system with hard links"
            ),
            Self::WitnessAddress(WitnessAddressError::Loopback { .. }) => {
                "write a name of the host that all machines know".into()
            }
            Self::WitnessAddress(_) => {
                "write `ssh://HOST` or `ssh://HOST/DIR` for another host, and `./DIR` for a new folder \
                 here"
                    .into()
            }
            Self::Folder { .. } => "name an existing folder".into(),
            Self::NotText => "write the argument in UTF-8".into(),
            Self::Start { path, error }
                if path.as_os_str() == SRUN && error.kind() == io::ErrorKind::NotFound =>
            {
                "an allocation of Slurm needs `srun` in $PATH; `--driver embedded` or `-n N` runs on \
                 this machine"
                    .into()
            }
            Self::Start { error, .. } => match error.kind() {
                io::ErrorKind::NotFound => "check the path".into(),
                io::ErrorKind::PermissionDenied => {
                    "is it a program? `chmod +x` makes it one".into()
                }
                _ => "is it a program for this machine?".into(),
            },
            Self::Address { .. } => {
                "`--emulate FILE` runs all its nodes here; else write a name that the DNS or \
                 /etc/hosts knows, since nodes do not ask ssh for addresses"
                    .into()
            }
            Self::Checkpoint(_) => {
                "`gridctl checkpoint ls DIR` lists the complete checkpoints of a folder".into()
            }
            Self::Write { error, .. } if is_full(error) => MAKE_ROOM.into(),
            Self::Grid(GridLoadError::Read { .. }) | Self::Read { .. } | Self::Write { .. } => {
                "check the path".into()
            }
            Self::Snapshot { .. } => {
                "write such a file with `gridctl run --balance-dump FILE`, by the same build".into()
            }
            Self::Output(_) => "name a file".into(),
            Self::OtherJobs { .. } => "`--force` compares them all the same".into(),
            Self::Variable(_) => "`unset` the variable to use the default".into(),
            Self::NoJob { running, .. } if !running.is_empty() => {
                format!("running: {}", running.join(", "))
            }
            Self::NoJob { .. } => {
                "start a job; for `topo`, name a file, or measure with `--emulate SPEC` or `--grid FILE --probe`; jobs are \
                 visible while their `gridctl run` runs, to the same user on the same machine; `gridctl ps` \
                 lists them, and detached ones that have ended"
                    .into()
            }
            Self::Remove { .. } => "check who owns the files in it".into(),
            Self::Refused { .. } => return None,
            Self::UnknownNode { nodes, .. } => {
                format!("its nodes: {}", crate::names::abbreviated(nodes.iter().map(String::as_str)))
            }
            Self::Unreachable { .. } => {
                "it may have just ended: see `gridctl ps`; a job whose launcher could not create its \
                 socket, `ID.sock` among the status files, takes no requests"
                    .into()
            }
            Self::Add(error) => error.hint(),
            Self::Bcast(error) => error.hint(),
            Self::Check(error) => error.hint(),
            Self::Detached(error) => return error.hint(),
            Self::JobEnd(error) => error.hint(),
            Self::Join(error) => error.hint(),
            Self::Plan(error) => error.hint(),
            Self::Rpc(error) => error.hint(),
            Self::RunFlags(error) => error.hint(),
            Self::Task(error) => return error.hint(),
            Self::Topo(error) => error.hint(),
            Self::Lab(error) => return error.hint(),
            Self::Metrics { error, .. } if error.kind() == io::ErrorKind::AddrInUse => {
                "another program is there; write another port, 0 for any, or another path".into()
            }
            Self::Metrics { .. } => "write a port from 1024, or `unix:PATH` for a socket".into(),
            Self::System { error, .. } => system(error)?.into(),
            Self::Grid(_)
            | Self::Recording(_)
            | Self::Forecast(_)
            | Self::HostFile { .. }
            | Self::Hosts { .. }
            | Self::Enrolment(_)
            | Self::Arguments(_)
            | Self::Registry(_)
            | Self::Call { .. }
            | Self::Emulate(_)
            | Self::Nodes(_)
            | Self::Sites(_)
            | Self::Map(_)
            | Self::Identity(_) => return None,
        })
    }
}

/// Returns the next step after a refusal of the system.
fn system(error: &io::Error) -> Option<&'static str> {
    const LIMITS: [Errno; 4] = [Errno::AGAIN, Errno::MFILE, Errno::NFILE, Errno::NOMEM];
    if Errno::from_io_error(error).is_some_and(|error| LIMITS.contains(&error)) {
        return Some("see the limits of this shell with `ulimit -a`, or start fewer nodes");
    }
    match error.kind() {
        io::ErrorKind::NotFound
        | io::ErrorKind::PermissionDenied
        | io::ErrorKind::NotADirectory
        | io::ErrorKind::ReadOnlyFilesystem => Some(
            "gridctl keeps the files of its jobs in $XDG_RUNTIME_DIR/gridspan, or in the folder for temporary files ($TMPDIR), which must exist and be writable",
        ),
        _ if is_full(error) => Some(MAKE_ROOM),
        _ => None,
    }
}

const MAKE_ROOM: &str = "make room, or write to another file system";

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ")
}
