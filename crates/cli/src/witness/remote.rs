//! The launcher's end of a witness on another host: each request runs gridctl there, over `ssh`.
//!
//! Separate threads use the pipes, so that a host that does not answer, or an `ssh` that is stuck,
//! delays the launcher by no more than [`TIME_MAX`]. The launcher does not read a later answer. It
//! asks again, and gets the settled half.

use super::location::WitnessHost;
use super::protocol::{Answer, LINE_BYTES_MAX, Order, Question, VERB, VERSION, read_answer};
use crate::check::{Failure, keep_end, plain};
use crate::hosts::on_host;
use crate::small_thread::spawn;
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Time that the host has to answer: two attempts fit into the time that keepers have to agree to
/// a run.
const TIME_MAX: Duration = Duration::from_secs(8);
/// Time for `ssh` to end after its output, and for its last messages to arrive.
const END_MAX: Duration = Duration::from_secs(1);
/// Interval between checks whether `ssh` has ended.
const LOOK: Duration = Duration::from_millis(5);

/// A folder on another host as the witness of one job.
#[derive(Clone, Debug)]
pub(crate) struct RemoteWitness {
    host: WitnessHost,
    /// A name of the job that no other job has.
    job: String,
    /// The command to run in place of `ssh`, with its first arguments.
    ssh: Vec<OsString>,
    /// Path of gridctl, the same on the host as here.
    gridctl: PathBuf,
    /// Time that the host has to answer.
    time_max: Duration,
}

impl RemoteWitness {
    /// The witness on a host. `ssh` is the command to run in place of `ssh`.
    ///
    /// # Errors
    ///
    /// If the system does not give the path of gridctl.
    pub(crate) fn new(host: WitnessHost, ssh: Vec<OsString>, job: String) -> io::Result<Self> {
        let gridctl = std::env::current_exe()?;
        Ok(Self { host, job, ssh, gridctl, time_max: TIME_MAX })
    }

    /// The host.
    pub(crate) fn host(&self) -> &WitnessHost {
        &self.host
    }

    /// Leaves the mark of the job.
    ///
    /// # Errors
    ///
    /// Why the host cannot be the witness.
    pub(crate) fn begin(&self) -> Result<(), String> {
        match self.ask(Question::Begin)? {
            Answer::Begun => Ok(()),
            _ => Err(self.unexpected()),
        }
    }

    /// Settles on this half of run number `run`, unless another half is settled. Returns the
    /// settled half.
    ///
    /// # Errors
    ///
    /// The reason why the settled half is unknown.
    pub(crate) fn settle(&self, run: usize, half: &str) -> Result<String, String> {
        match self.ask(Question::Settle { run, half: half.to_owned() })? {
            Answer::Settled { half: Some(half) } => Ok(half),
            _ => Err(self.unexpected()),
        }
    }

    /// Returns the settled half of run number `run`, if there is one.
    ///
    /// # Errors
    ///
    /// The reason why that is unknown.
    pub(crate) fn settled(&self, run: usize) -> Result<Option<String>, String> {
        match self.ask(Question::Settled { run })? {
            Answer::Settled { half } => Ok(half),
            _ => Err(self.unexpected()),
        }
    }

    fn ask(&self, question: Question) -> Result<Answer, String> {
        let (folder, job) = (self.host.folder.clone(), self.job.clone());
        let order = Order { version: VERSION, folder, job, question };
        let mut line = serde_json::to_vec(&order).map_err(|error| error.to_string())?;
        line.push(b'\n');
        if line.len() as u64 > LINE_BYTES_MAX {
            return Err(format!("{}: the half has too many members", self.host));
        }
        let problem = match converse(self.command(), line, self.time_max) {
            Ok(Answer::Refused { reason }) => plain(&reason),
            Ok(Answer::Version) => self.about(&Failure::OtherVersion),
            Ok(answer) => return Ok(answer),
            Err(Silence { failure, said }) => match said.is_empty() {
                // If `ssh` itself failed, its last line explains that best.
                false if !is_of_program(&failure) => said,
                _ => self.about(&failure),
            },
        };
        Err(format!("{}: {problem}", self.host))
    }

    /// The command that runs gridctl there.
    fn command(&self) -> Command {
        // The timeout also ends an `ssh` that still connects when this process has ended.
        let mut options =
            vec!["-o".to_owned(), format!("ConnectTimeout={}", self.time_max.as_secs())];
        if let Some(port) = self.host.port {
            options.extend(["-p".to_owned(), port.to_string()]);
        }
        let program = [self.gridctl.as_os_str(), OsStr::new(VERB)];
        on_host(&self.ssh, &self.host.login(), &options, &program)
    }

    fn unexpected(&self) -> String {
        format!("{}: it gives the answer to another question", self.host)
    }

    /// What a failure means.
    fn about(&self, failure: &Failure) -> String {
        let gridctl = self.gridctl.display();
        match failure {
            Failure::Missing { .. } => format!("{gridctl} is not there"),
            Failure::NotExecutable => format!("{gridctl} cannot be executed there"),
            Failure::OtherVersion => {
                format!("{gridctl} is another version there, which cannot answer this one")
            }
            Failure::NoSsh { reason } => format!("ssh cannot be started here: {reason}"),
            Failure::Unreadable { reason } => format!("its answer cannot be read: {reason}"),
            Failure::TimedOut => format!("there is no answer within {:?}", self.time_max),
            _ => "gridctl ended there without an answer".to_owned(),
        }
    }
}

/// Whether gridctl on the host is the cause of a failure; a shell explains that worse than `about`.
fn is_of_program(failure: &Failure) -> bool {
    matches!(failure, Failure::Missing { .. } | Failure::NotExecutable | Failure::OtherVersion)
}

/// A host has not answered.
#[derive(Debug)]
struct Silence {
    failure: Failure,
    /// The last line of what `ssh` or the host said, if it said anything.
    said: String,
}

impl Silence {
    fn new(failure: Failure) -> Self {
        Self { failure, said: String::new() }
    }
}

/// Starts a command, writes a request to it, and reads the answer, which has to arrive within
/// `limit`.
fn converse(mut command: Command, order: Vec<u8>, limit: Duration) -> Result<Answer, Silence> {
    let no_ssh = |error: io::Error| Silence::new(Failure::NoSsh { reason: error.to_string() });
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Processes that `ssh` starts, such as another `ssh` to a gateway, end with it.
    command.process_group(0);
    let until = Instant::now() + limit;
    let mut ssh = Ssh(command.spawn().map_err(no_ssh)?);
    let (Some(stdin), Some(stdout), Some(stderr)) =
        (ssh.0.stdin.take(), ssh.0.stdout.take(), ssh.0.stderr.take())
    else {
        return Err(no_ssh(io::Error::other("a pipe is missing")));
    };
    let errors = Arc::<Mutex<Vec<u8>>>::default();
    let (of_reader, (reads, all_read)) = (errors.clone(), channel::<()>());
    let answers = ask(stdin, stdout, order).map_err(no_ssh)?;
    let keep = move || {
        keep_end(stderr, &of_reader);
        drop(reads);
    };
    spawn("witness", keep).map_err(no_ssh)?;
    match answers.recv_timeout(until.saturating_duration_since(Instant::now())) {
        Ok(Some(Ok(answer))) => return Ok(answer),
        Ok(Some(Err(reason))) => return Err(Silence::new(Failure::Unreadable { reason })),
        Err(RecvTimeoutError::Timeout) => return Err(Silence::new(Failure::TimedOut)),
        Ok(None) | Err(RecvTimeoutError::Disconnected) => {}
    }
    let status = ssh.ending();
    // A process that `ssh` leaves behind may keep the stream open.
    let _ = all_read.recv_timeout(END_MAX);
    let errors = errors.lock().unwrap_or_else(PoisonError::into_inner);
    let text = String::from_utf8_lossy(&errors);
    let failure = Failure::of(status.and_then(|status| status.code()), &text);
    let last = text.lines().rev().find(|line| !line.trim().is_empty());
    Err(Silence { failure, said: plain(last.unwrap_or_default()) })
}

/// Writes a request, and reads the answer, in another thread.
fn ask(
    mut stdin: ChildStdin,
    stdout: ChildStdout,
    order: Vec<u8>,
) -> io::Result<Receiver<Option<Result<Answer, String>>>> {
    let (send, answers) = channel();
    spawn("witness", move || {
        // If the host does not read the request, there is no answer.
        let _ = stdin.write_all(&order);
        drop(stdin);
        // The launcher may not wait any longer.
        let _ = send.send(read_answer(stdout));
    })?;
    Ok(answers)
}

/// `ssh`. Dropping this kills it, with all that it has started.
struct Ssh(Child);

impl Ssh {
    /// Waits for its end, once its output has ended.
    fn ending(&mut self) -> Option<ExitStatus> {
        let until = Instant::now() + END_MAX;
        loop {
            let status = self.0.try_wait().ok().flatten();
            if status.is_some() || Instant::now() > until {
                return status;
            }
            thread::sleep(LOOK);
        }
    }
}

impl Drop for Ssh {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            // It may have ended just now.
            let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
            let _ = self.0.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::location::WitnessLocation;
    use super::super::protocol::MARK;
    use super::*;
    use std::path::Path;

    /// More than any command below needs, however busy the machine is.
    const LONG: Duration = Duration::from_secs(120);

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    /// A witness whose `ssh` is this script of the shell.
    fn witness(folder: &Path, script: &str) -> RemoteWitness {
        let path = folder.join("ssh.sh");
        std::fs::write(&path, script).unwrap();
        let location = WitnessLocation::parse(Path::new("ssh://ann@c1:2222/data"));
        let Ok(WitnessLocation::Host(host)) = location else { panic!("{location:?}") };
        let ssh = vec!["sh".into(), path.into()];
        let mut witness = RemoteWitness::new(host, ssh, "ring-7.a1.5".to_owned()).unwrap();
        (witness.gridctl, witness.time_max) = (PathBuf::from("/opt/gridctl"), LONG);
        witness
    }

    #[test]
    fn the_request_goes_to_gridctl_there_and_its_answer_is_returned() {
        let folder = tempfile::tempdir().unwrap();
        let seen = folder.path().join("seen");
        let script = format!(
            "echo \"$*\" > {seen}; head -n 1 >> {seen}; echo welcome; \
             echo '{MARK}{{\"say\":\"settled\",\"half\":\"[2]\"}}'; exec sleep 100",
            seen = seen.display()
        );
        let witness = witness(folder.path(), &script);

        assert_eq!(witness.settle(4, "[2,3]"), Ok("[2]".to_owned()));

        let seen = std::fs::read_to_string(&seen).unwrap();
        let (arguments, order) = seen.split_once('\n').unwrap();
        assert!(arguments.starts_with("-o BatchMode=yes"), "{arguments}");
        assert!(arguments.contains("-p 2222 ann@c1 -- sh -c"), "{arguments}");
        assert!(arguments.ends_with("sh /opt/gridctl __witness"), "{arguments}");
        let order: Order = serde_json::from_str(order).unwrap();
        assert_eq!((order.version, order.job.as_str()), (VERSION, "ring-7.a1.5"));
        assert_eq!(order.folder.as_deref(), Some(Path::new("/data")));
        assert_eq!(order.question, Question::Settle { run: 4, half: "[2,3]".to_owned() });
    }

    #[test]
    fn each_reason_for_no_answer_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let unknown = "ssh: Could not resolve hostname c1: Name or service not known";
        let cases = [
            (format!("echo banner >&2; echo '{unknown}' >&2; exit 255"), unknown),
            ("echo 'sh: 1: not found' >&2; exit 127".to_owned(), "/opt/gridctl is not there"),
            ("exit 126".to_owned(), "/opt/gridctl cannot be executed there"),
            (
                "echo \"error: unrecognized subcommand '__witness'\" >&2; exit 2".to_owned(),
                "/opt/gridctl is another version there",
            ),
            (format!("echo '{MARK}{{\"say\":\"version\"}}'"), "is another version there"),
            (format!("echo '{MARK}{{\"say\":'"), "its answer cannot be read"),
            (format!("echo '{MARK}{{\"say\":\"refused\",\"reason\":\"no space\"}}'"), "no space"),
            ("exit 0".to_owned(), "ended there without an answer"),
        ];
        for (script, expected) in cases {
            let reason = witness(folder.path(), &script).begin().unwrap_err();
            assert!(reason.starts_with("ssh://ann@c1:2222/data: "), "{reason}");
            assert!(reason.contains(expected), "{script}: {reason}");
        }
        let script = format!("echo '{MARK}{{\"say\":\"settled\",\"half\":null}}'");
        let other = witness(folder.path(), &script);
        assert_eq!(other.settled(0), Ok(None));
        assert!(other.settle(0, "[1]").is_err(), "a half must be settled then");
        assert!(other.begin().is_err(), "the answer to another question");
        let mut without = other;
        without.ssh = vec!["/nowhere/ssh".into()];
        let reason = without.begin().unwrap_err();
        assert!(reason.contains("ssh cannot be started here"), "{reason}");
    }

    #[test]
    fn a_host_that_does_not_answer_in_time_grants_nothing_and_is_given_up() {
        let order = vec![b'x'; 1 << 20];
        // It neither reads nor answers, and what it has started holds the pipes.
        let begin = Instant::now();
        let silent = converse(sh("sleep 300 & wait"), order, Duration::from_millis(200));
        let Err(Silence { failure, .. }) = silent else { panic!("{silent:?}") };
        assert_eq!(failure, Failure::TimedOut);
        assert!(begin.elapsed() < LONG);
    }

    #[test]
    fn an_answer_is_not_awaited_from_a_process_that_has_ended() {
        // A process that is left behind keeps standard error open.
        let begin = Instant::now();
        let command = sh("sleep 20 >/dev/null & echo 'no key' >&2; exit 255");
        let Err(Silence { failure, said }) = converse(command, b"{}\n".to_vec(), LONG) else {
            panic!("there was no answer");
        };
        assert_eq!(said, "no key");
        assert_eq!(failure, Failure::Ended { last_line: "no key".to_owned() });
        assert!(begin.elapsed() < LONG);
    }
}
