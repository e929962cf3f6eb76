//! The part of gridctl inside the namespaces of a lab: it starts the hosts and the command, and
//! forwards packets until the command ends.
//!
//! It has one thread: a process whose children are in another PID namespace than itself cannot
//! create threads.

use super::entry::described;
use super::error::LabError;
use super::files::{self, LabFiles, NAME_SERVICES};
use super::forwarding::forward;
use super::lab_host::LabHost;
use super::namespaces::OF_HOST;
use super::router::{Router, RouterCounts};
use super::signal_pipes::SignalPipes;
use super::{program, tun};
use crate::args::{LabHostArgs, LabRunArgs};
use crate::error::CliError;
use crate::output;
use crate::signals;
use gridspan::variables::{EMULATE, GRID};
use gridspan_topology::GridSpec;
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, ExitStatus, Stdio};

/// The lab warns if more than one in this number of packets was late.
const LATE_SHARE: u64 = 100;

/// The processes of a lab besides the command. They end with it.
struct Lab {
    gridctl: PathBuf,
    /// The first process of the PID namespace. It ends when this process ends; the system then
    /// kills all others in the namespace.
    init: Child,
    hosts: Vec<HostProcess>,
}

/// The process of a host.
struct HostProcess {
    name: String,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Its number in the PID namespace of the lab.
    number: u32,
}

/// Runs a lab. Returns when all of its processes have ended.
pub(super) fn run(args: &LabRunArgs) -> Result<ExitCode, CliError> {
    let spec = grid_of(args)?;
    let hosts = LabHost::all_of(&spec)?;
    let files = LabFiles::new(&args.folder);
    let router = Router::new(spec, hosts.clone(), args.lab.seed);
    let mut lab = Lab::start()?;
    let ended = lab.run(&hosts, &files, &args.lab.command, router);
    lab.end();
    let (status, counts) = ended?;
    log_packets(counts);
    Ok(exit_code(status))
}

/// Returns the grid of the lab.
fn grid_of(args: &LabRunArgs) -> Result<GridSpec, CliError> {
    let Some(json) = &args.described else { return Ok(described(&args.lab)?.spec) };
    serde_json::from_str(json)
        .map_err(|error| CliError::System { what: "read the grid of a lab", error: error.into() })
}

impl Lab {
    /// Starts the first process of the PID namespace of the lab.
    fn start() -> Result<Self, CliError> {
        let gridctl = std::env::current_exe().map_err(CliError::system("find gridctl"))?;
        let mut command = Command::new(&gridctl);
        command.args(["__lab", "init"]).stdin(Stdio::piped()).stdout(Stdio::null());
        // Ctrl-C is for the command.
        let init = command.process_group(0).spawn();
        let init = init.map_err(CliError::system("start the first process of a lab"))?;
        Ok(Self { gridctl, init, hosts: Vec::new() })
    }

    /// Starts the hosts and then the command, and forwards packets until the command ends.
    fn run(
        &mut self,
        hosts: &[LabHost],
        files: &LabFiles,
        command: &[OsString],
        mut router: Router,
    ) -> Result<(ExitStatus, RouterCounts), CliError> {
        self.write_files(hosts, files)?;
        let devices = self.start_hosts(hosts, files)?;
        let signals = signals::not_ignored(&[SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGHUP]);
        let signals =
            SignalPipes::watch(&signals).map_err(CliError::system("watch for signals"))?;
        let mut child = self.start_command(files, command)?;
        let ended =
            forward(&mut router, &devices, &signals, |signal| self.attend(&mut child, signal));
        let status = ended.map_err(CliError::system("forward packets of a lab"))??;
        Ok((status, router.counts()))
    }

    /// Writes the files of the lab into a file system in memory that only processes of the lab see.
    fn write_files(&self, hosts: &[LabHost], files: &LabFiles) -> Result<(), CliError> {
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        let mounted = mount("tmpfs", files.folder(), "tmpfs", flags, c"mode=0700,size=256m");
        let failed = |errno: Errno| LabError::Mount { what: "a folder", error: errno.into() };
        mounted.map_err(failed)?;
        let folders = [files.programs(), files.temporary(), files.runtime()];
        let made = folders.iter().try_for_each(|path| DirBuilder::new().mode(0o700).create(path));
        made.map_err(CliError::system("create the folders of a lab"))?;
        write(&files.names(), &files::names(hosts))?;
        if let Ok(of_machine) = fs::read_to_string(NAME_SERVICES) {
            write(&files.name_services(), &files::name_services(&of_machine))?;
        }
        write(&files.open_mpi(), &files::open_mpi_hosts(hosts))?;
        write(&files.mpich(), &files::mpich_hosts(hosts))?;
        let path = files.ssh();
        let script = OpenOptions::new().write(true).create_new(true).mode(0o700).open(&path);
        script
            .and_then(|mut file| {
                file.write_all(&files::ssh_script(&self.gridctl, &files.processes()))
            })
            .map_err(|error| CliError::Write { path, error })
    }

    /// Starts all hosts, and waits until they are ready. Returns their devices.
    fn start_hosts(&mut self, hosts: &[LabHost], files: &LabFiles) -> Result<Vec<File>, CliError> {
        let unshare = program::unshare()?;
        let mut devices = Vec::new();
        for (at, host) in hosts.iter().enumerate() {
            let device = format!("lab{at}");
            devices.push(tun::create(&device).map_err(LabError::NoTun)?);
            let args = LabHostArgs {
                name: host.name.clone(),
                address: host.address,
                device,
                folder: files.folder().to_owned(),
            };
            self.hosts.push(HostProcess::start(&unshare, &self.gridctl, args)?);
        }
        let mut moves = String::new();
        for (at, host) in self.hosts.iter_mut().enumerate() {
            let number = host.next_line()?;
            host.number = number.parse().map_err(|_| host.ended())?;
            // Writing to a string cannot fail.
            let _ = writeln!(moves, "link set dev lab{at} netns /proc/{}/ns/net", host.child.id());
        }
        program::run_ip(&moves)?;
        let numbers: Vec<u32> = self.hosts.iter().map(|host| host.number).collect();
        write(&files.processes(), &files::process_table(hosts, &numbers))?;
        for host in &mut self.hosts {
            host.input.write_all(b"moved\n").map_err(|_| host.ended())?;
        }
        self.hosts.iter_mut().try_for_each(|host| host.next_line().map(drop))?;
        Ok(devices)
    }

    /// Starts the command on the first host.
    fn start_command(&self, files: &LabFiles, command: &[OsString]) -> Result<Child, CliError> {
        let folder = std::env::current_dir().map_err(CliError::system("find this folder"))?;
        let number = self.hosts.first().map_or(0, |host| host.number);
        let mut child = Command::new(&self.gridctl);
        child.args(["__lab", "enter", &number.to_string()]).arg(folder).arg("--").args(command);
        // A program of Gridspan in the lab must not emulate the grid once more.
        child.env_remove(EMULATE).env_remove(GRID).envs(files.variables(of_user));
        child.spawn().map_err(CliError::system("start the command of a lab"))
    }

    /// Reacts to a signal. Returns `Break` when the command, or a process that the lab needs, has
    /// ended.
    fn attend(
        &mut self,
        command: &mut Child,
        signal: i32,
    ) -> ControlFlow<Result<ExitStatus, CliError>> {
        let forwarded = match signal {
            SIGCHLD => return self.look_for_ends(command),
            SIGTERM => Signal::TERM,
            SIGHUP => Signal::HUP,
            // The terminal sends them to the command, too.
            _ => return ControlFlow::Continue(()),
        };
        // The command may have just ended.
        let _ = kill_process(Pid::from_child(command), forwarded);
        ControlFlow::Continue(())
    }

    fn look_for_ends(&mut self, command: &mut Child) -> ControlFlow<Result<ExitStatus, CliError>> {
        let failed = CliError::system("wait for the processes of a lab");
        match command.try_wait() {
            Ok(Some(status)) => return ControlFlow::Break(Ok(status)),
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(Err(failed(error))),
        }
        let has_ended = |child: &mut Child| !matches!(child.try_wait(), Ok(None));
        if has_ended(&mut self.init) {
            return ControlFlow::Break(Err(LabError::Killed.into()));
        }
        match self
            .hosts
            .iter_mut()
            .find_map(|host| has_ended(&mut host.child).then(|| host.ended()))
        {
            Some(error) => ControlFlow::Break(Err(error.into())),
            None => ControlFlow::Continue(()),
        }
    }

    /// Ends all processes of the lab, and waits until they have ended.
    fn end(mut self) {
        drop(self.init.stdin.take());
        // The first process ends after all others. Some of these are children of this process.
        while !matches!(wait(WaitOptions::empty()), Err(Errno::CHILD)) {}
    }
}

impl HostProcess {
    fn start(unshare: &Path, gridctl: &Path, args: LabHostArgs) -> Result<Self, CliError> {
        let failed = CliError::system("start a host of a lab");
        let mut command = Command::new(unshare);
        command.args(OF_HOST).arg("--").arg(gridctl).args(["__lab", "host", &args.name]);
        command.arg(args.address.to_string()).arg(args.device).arg(args.folder);
        // Ctrl-C is for the command.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(&failed)?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed(io::Error::other("a pipe is missing")));
        };
        let output = BufReader::new(output);
        Ok(Self { name: args.name, child, input, output, number: 0 })
    }

    /// Waits for the next line that the host prints.
    fn next_line(&mut self) -> Result<String, LabError> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(bytes) if bytes > 0 => Ok(line.trim_end().to_owned()),
            _ => Err(self.ended()),
        }
    }

    fn ended(&self) -> LabError {
        LabError::HostEnded { name: self.name.clone() }
    }
}

fn write(path: &Path, text: &str) -> Result<(), CliError> {
    fs::write(path, text).map_err(|error| CliError::Write { path: path.to_owned(), error })
}

/// Returns a variable of the user.
fn of_user(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Logs the counts of packets, and warns if the machine was too slow.
fn log_packets(counts: RouterCounts) {
    let RouterCounts { packets, dropped, foreign, late, late_max } = counts;
    tracing::info!(packets, dropped, foreign, late, ?late_max, "packets of the lab");
    if late.saturating_mul(LATE_SHARE) > packets {
        output::warn(&format!(
            "{late} of {packets} packets were passed on more than 1 ms late (at most {:.1} ms): the \
             processors are too busy for these links",
            late_max.as_secs_f64() * 1e3
        ));
    }
}

/// Returns the exit code of the command, or 128 and the signal that has ended it.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| Some(signals::exit_code(status.signal()?).into()));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(gridspan::EXIT_FAILED))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::LabArgs;

    #[test]
    fn the_exit_code_is_that_of_the_command_or_of_its_signal() {
        let shown = |raw| format!("{:?}", exit_code(ExitStatus::from_raw(raw)));
        let expected = |code: u8| format!("{:?}", ExitCode::from(code));
        // As wait(2) encodes them.
        assert_eq!(shown(7 << 8), expected(7));
        assert_eq!(shown(0), expected(0));
        assert_eq!(shown(15), expected(143));
    }

    #[test]
    fn a_grid_that_cannot_be_read_once_more_is_taken_from_the_command_line() {
        let spec = GridSpec::from_emulate("2x3,wan=5ms").unwrap();
        let lab =
            LabArgs { grid: None, emulate: None, seed: 0, command: vec![OsString::from("true")] };
        let args = |described| LabRunArgs { folder: PathBuf::new(), described, lab: lab.clone() };
        let described = Some(serde_json::to_string(&spec).unwrap());
        assert_eq!(grid_of(&args(described)).unwrap(), spec);
        assert!(grid_of(&args(Some("{}".to_owned()))).is_err());
    }
}
