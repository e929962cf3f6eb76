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
            Self::DetachedTasks => {
                "submit a script with `sbatch`, which goes on when you log out".into()
            }
            Self::WitnessOfOneHost => {
                "leave it out: if this machine ends, the job ends with it".into()
            }
            Self::Witness(_) => {
                "name a folder that all launchers of the job reach and can write to, on a file \
                 system with hard links, or a place in an object store that honours the condition \
                 If-None-Match"
                    .into()
            }
            Self::WitnessHost { host, .. } => format!(
                "`ssh {host} true` must work without a question, on each machine with a launcher, and \
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
            Self::NoTask => "`gridctl run` starts tasks itself, inside an allocation of Slurm".into(),
            Self::NoLauncher { .. } => {
                "hosts of the allocation must reach this port of the launcher's host by TCP, as they reach \
                 srun"
                    .into()
            }
            Self::Unset { name } => format!("write `--env {name}=VALUE`"),
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
            Self::NoServer => "start some with `gridctl rpc serve --join FILE`".into(),
            Self::Stuck { .. } => "start more servers, or find out why the others ended".into(),
            Self::Individual => "use one of the other heuristics".into(),
            Self::NoRegistry => {
                "start one with `gridctl rpc serve`, or name the `--token` of another".into()
            }
            Self::CallArguments { .. } => {
                "arguments are JSON in UTF-8, such as `[1, 2]`; divide a call that is too long".into()
            }
            Self::BinaryMatrix { .. } => {
                "a matrix is text: rows of round trips, separated by blanks or commas".into()
            }
            Self::Checkpoint(_) => {
                "`gridctl checkpoint ls DIR` lists the complete checkpoints of a folder".into()
            }
            Self::Grid(GridLoadError::Read { .. }) | Self::Read { .. } | Self::Write { .. } => {
                "check the path".into()
            }
            Self::Matrix { .. } | Self::EmptyMatrix { .. } => {
                "a matrix has a row of round trips for each node; the name of a grid file ends in \
                 `.toml`"
                    .into()
            }
            Self::NoGrid | Self::NoServers => {
                "name a grid file with `--grid FILE`, or write one in short, such as \
                 `--emulate 4x8,wan=32ms`"
                    .into()
            }
            Self::TooManyServers { limit, .. } => format!("name a grid of at most {limit} nodes"),
            Self::Workflow { .. } => {
                "workflows are JSON files in WfFormat, such as those of wfcommons.org".into()
            }
            Self::NoHost { .. } => "`--json` lists the servers".into(),
            Self::NoRoot { nodes, .. } => format!("write a number or a host of {nodes}"),
            Self::Alone => "`--emulate 2x4` has two sites with four nodes each".into(),
            Self::TooLarge { limits: [nodes, clusters], .. } => format!(
                "plan for at most {nodes} nodes in {clusters} clusters; a site without clusters counts as one"
            ),
            Self::Snapshot { .. } => {
                "write such a file with `gridctl run --balance-dump FILE`, by the same build".into()
            }
            Self::Output(_) => "name a file".into(),
            Self::OtherJobs { .. } => "`--force` compares them all the same".into(),
            Self::Variable(_) => "`unset` the variable to use the default".into(),
            Self::NoPlace => {
                "name a grid file (`.toml`), or write `--nodes N`, `--site NAME` or `--emulate SPEC`"
                    .into()
            }
            Self::NotMeasured { .. } => {
                "see the messages above; `--driver cluster` and `-v` may show more".into()
            }
            Self::NoJob { running, .. } if !running.is_empty() => {
                format!("running: {}", running.join(", "))
            }
            Self::NoJob { .. } => {
                "start a job; for `topo`, name a file, or measure with `--emulate SPEC` or `--grid FILE --probe`; jobs are \
                 visible while their `gridctl run` runs, to the same user on the same machine; `gridctl ps` \
                 lists them, and detached ones that have ended"
                    .into()
            }
            Self::NoDetachedJob { known, .. } if !known.is_empty() => {
                format!("detached: {}", known.join(", "))
            }
            Self::NoDetachedJob { .. } => "start one with `gridctl run --detach PROGRAM`".into(),
            Self::ElsewhereDetached { job, machine } => {
                format!(
                    "on {machine}, `gridctl attach {job}` starts another one; if that machine has ended, \
                     `gridctl attach --from HOST {job}` starts one here, where HOST has \
                     another node of the job"
                )
            }
            Self::Attended { .. } => {
                "`gridctl attach` there shows the job; if that launcher has ended, try again in a few \
                 seconds"
                    .into()
            }
            Self::RefusedLauncher(refusal) => return refusal.hint.clone(),
            Self::NoQuorum { .. } => {
                "try again when more hosts can be reached; or name nodes, hosts or sites that have ended \
                 for good with `--ended`, so that they do not count: if they go on, too, the job runs \
                 twice"
                    .into()
            }
            Self::NothingKept { .. } => {
                "name a host where nodes of the job run, by the name in its grid file".into()
            }
            Self::NoStartFolder { .. } => {
                "create it; relative paths of the job begin there".into()
            }
            Self::Unattended { path, job } => {
                let output = path.join("output");
                format!(
                    "`{}` may say why; `gridctl attach {job}` starts another launcher",
                    output.display()
                )
            }
            Self::OnlyKept { job } => {
                format!("`gridctl attach {job}` starts another launcher; kill the job then")
            }
            Self::OtherMachine { job, machine } => {
                format!("run `gridctl kill {job}` on {machine}")
            }
            Self::NotKilled { .. } => {
                "one of its processes is stuck in the kernel, most often while it uses a file; \
                 `ps -eo pid,stat,args` shows it with the state `D`"
                    .into()
            }
            Self::StillRuns { .. } => "give it a longer `--timeout`".into(),
            Self::UnknownExit { .. } => {
                "only a running launcher of node processes reports it: that of `gridctl run -n`, \
                 `--grid`, `--driver cluster` or `--detach`"
                    .into()
            }
            Self::Remove { .. } => "check who owns the files in it".into(),
            Self::RecordedWith { flag: "--guests" } => {
                "leave out one of them; spare nodes that `gridctl add` starts are recorded".into()
            }
            Self::RecordedWith { .. } => {
                "leave out one of them; a terminal multiplexer such as tmux goes on when you log out"
                    .into()
            }
            Self::PlanFor => "write `--pes`, `--grid` or `--emulate`, such as `-e 4x8,wan=20ms`".into(),
            Self::PlanOf => {
                "write `--recording DIR`, or a program, such as `leanmd --steps 20`".into()
            }
            Self::PlanOfTwo => "leave out `--recording`, or the program".into(),
            Self::PlanSizes => {
                "for example `--recording r1=4000 --recording r2=8000 --size 64000`".into()
            }
            Self::NotRecorded { .. } => {
                "try it with `gridctl sim`, which shows what the program prints".into()
            }
            Self::SparesWithGuests => {
                "add --tolerate-lost-guests; guests then join again when the nodes of the job change".into()
            }
            Self::SparesOfThreads => {
                "for example `gridctl run -n 4 --spare site/3 PROGRAM`".into()
            }
            Self::AllSpare => "name fewer nodes".into(),
            Self::Refused { .. } => return None,
            Self::NoNodeToAdd { nodes, .. } => format!(
                "its nodes: {}; `--at SITE` starts a node on a host that the job does not have yet",
                crate::names::abbreviated(nodes.iter().map(String::as_str))
            ),
            Self::WhichSite { sites } => format!("write `--at` with one of {}", sites.join(", ")),
            Self::HostPattern { .. } => "for example `b7`, or `b[7-9]` for three hosts".into(),
            Self::NotInAllocation => {
                "call it inside the other allocation (`salloc … gridctl add --here`), or name it by \
                 `--slurm JOBID`"
                    .into()
            }
            Self::NoAllocation { .. } => {
                "`squeue --me` lists your allocations; inside one, `gridctl add --here` needs no \
                 scontrol"
                    .into()
            }
            Self::UnknownNode { nodes, .. } => {
                format!("its nodes: {}", crate::names::abbreviated(nodes.iter().map(String::as_str)))
            }
            Self::Unreachable { .. } => {
                "it may have just ended: see `gridctl ps`; a job whose launcher could not create its \
                 socket, `ID.sock` among the status files, takes no requests"
                    .into()
            }
            Self::NotInvited { .. } => {
                "start the job with `--guests N`; then N guests can join at each site once the nodes of the job have met".into()
            }
            Self::Invitation { .. } => {
                "copy a file `ID.invitation-N` from the folder where the launcher keeps its jobs (`$XDG_RUNTIME_DIR/gridspan`), made by the same build of gridctl".into()
            }
            Self::OtherProgram { .. } => {
                "it was rebuilt, or is another build; use the job's own program, or start the job again".into()
            }
            Self::NoLinks { .. } => "run it with `--nodes`, `--grid` or `--emulate`".into(),
            Self::NotMeasuredYet { .. } => "try again once the nodes of the job have met".into(),
            Self::Lab(error) => return error.hint(),
            Self::TerminalInput { .. } => "`cat | gridctl run …` passes on what you type".into(),
            Self::NoInput { .. } => "let the program read a file, or its arguments".into(),
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
            | Self::NotEnrolled { .. }
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
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Some("make room, or write to another file system")
        }
        _ => None,
    }
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ")
}
