//! One process of a job: its launch, its pipes and its end.
//!
//! The process has its own group, so that Ctrl-C on the terminal reaches only the launcher, which
//! then asks the processes to end. Threads write to its pipe and read its output, so that a process
//! that neither reads nor prints stalls no other.

use super::event::{Event, Exit};
use super::known::Known;
use super::lines::{LineSplitter, Tail};
use super::queue::Queue;
use super::report::{Report, Stream};
use crate::channel;
use gridspan::control::{self, Control};
use gridspan_runtime::net::bootstrap::listening_address;
use gridspan_topology::NodeId;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::io::{self, PipeWriter, Read, Write};
use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::process::{self, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Number of bytes read at once.
const READ_BYTES: usize = 32 << 10;
/// Largest number of control lines of a process that are not [`FREQUENT`]: how it failed, and what
/// it simulated. After more of them, every control line is treated as
/// output. Frequent lines need no limit, because their reports wait for room in the queue, as
/// output does.
const CONTROLS_MAX: u32 = 8;
/// Beginnings of the frequent control lines, after the mark: about links, moves, guests, warnings,
/// the recovery from losses, and changes of the nodes.
const FREQUENT: [&[u8]; 9] = [
    b"{\"links\"",
    b"{\"balanced\"",
    b"{\"guest\"",
    b"{\"warning\"",
    b"{\"paused\"",
    b"{\"unchangeable\"",
    b"\"leaving\"",
    HOLDS,
    b"listening ",
];
/// The beginning of the control line with the parts of checkpoints that a node has.
const HOLDS: &[u8] = b"{\"holds\"";
/// Stack size of the threads, which have no deep calls.
const STACK_BYTES: usize = 256 << 10;

/// A process of the job.
pub(super) struct Child {
    process: process::Child,
    is_over: bool,
    /// Lines for the process; `None` once the pipe to it is closed.
    lines: Option<Sender<String>>,
    tail: Arc<Mutex<Tail>>,
}

/// The origin of output: the process of one node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    /// The node.
    pub(super) node: NodeId,
    /// Address at which others reach the node; `None` if it runs on this machine.
    pub(super) address: Option<IpAddr>,
}

/// Destinations of a process's output.
#[derive(Clone)]
pub(super) struct Outlets {
    /// Events for the supervisor.
    pub(super) events: Sender<Event>,
    /// Reports for the user.
    pub(super) reports: Arc<Queue<Report>>,
    /// The known links of the job.
    pub(super) known: Arc<Known>,
}

impl Child {
    /// Starts the process of a node. Must be called from a thread that lives as long as the job:
    /// each process asks the kernel to kill it when that thread ends.
    pub(super) fn start(
        origin: Origin,
        mut command: Command,
        outlets: &Outlets,
    ) -> io::Result<Self> {
        let (node_end, writer) = channel::open(&mut command, origin.address.is_some())?;
        let mut process =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).spawn()?;
        drop((node_end, command));
        let pipes = (process.stdout.take(), process.stderr.take());
        let mut child = Self { process, is_over: false, lines: None, tail: Arc::default() };
        let connected = child.connect(origin, writer, pipes, outlets);
        if let Err(error) = connected {
            child.signal(Signal::KILL);
            // The process is killed, even if waiting for it fails.
            let _ = child.process.wait();
            return Err(error);
        }
        Ok(child)
    }

    fn connect(
        &mut self,
        origin: Origin,
        writer: PipeWriter,
        pipes: (Option<process::ChildStdout>, Option<process::ChildStderr>),
        outlets: &Outlets,
    ) -> io::Result<()> {
        let (Some(stdout), Some(stderr)) = pipes else {
            return Err(io::Error::other("a pipe is missing"));
        };
        let (send, lines) = channel::<String>();
        self.lines = Some(send);
        spawn("lines", move || write_lines(writer, lines.iter()))?;
        let reader = Reader { origin, outlets: outlets.clone(), tail: None, controls: 0 };
        spawn("stdout", move || reader.read(stdout))?;
        let reader =
            Reader { origin, outlets: outlets.clone(), tail: Some(self.tail.clone()), controls: 0 };
        spawn("stderr", move || reader.read(stderr))
    }

    /// Returns the process id.
    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Whether the process has not ended, as far as is known.
    pub(super) fn is_running(&self) -> bool {
        !self.is_over
    }

    /// Queues a line to be written to the process.
    pub(super) fn tell(&self, line: String) {
        if let Some(lines) = &self.lines {
            // A process that has ended no longer reads; its end is noticed elsewhere.
            let _ = lines.send(line);
        }
    }

    /// Asks the process to end, by SIGTERM. The pipe stays open: if it were closed, a program that
    /// handles SIGTERM could not finish its work.
    pub(super) fn ask(&self) {
        self.signal(Signal::TERM);
    }

    /// Stops the process group: the process, and those that it has started in the group.
    pub(super) fn stop(&self) {
        self.signal(Signal::STOP);
    }

    /// Continues the process group.
    pub(super) fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    /// Closes the pipe, and kills the process group.
    pub(super) fn kill(&mut self) {
        self.lines = None;
        self.signal(Signal::KILL);
    }

    /// Returns how the process ended, in the first call after its end; `None` otherwise.
    pub(super) fn take_exit(&mut self) -> Option<Exit> {
        if self.is_over {
            return None;
        }
        let status = self.process.try_wait().ok().flatten()?;
        self.is_over = true;
        self.lines = None;
        Some(status.into())
    }

    /// Returns the last lines that the process printed on standard error.
    pub(super) fn last_lines(&self) -> Vec<String> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner).lines()
    }

    /// Sends a signal to the process group, unless `take_exit` has noticed the end of the process.
    /// Until then the system does not reuse the process id.
    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid.filter(|_| !self.is_over)
            && kill_process_group(pid, signal).is_err()
        {
            // `kill_process` fails only if the process has just ended.
            let _ = kill_process(pid, signal);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES).spawn(run).map(drop)
}

fn write_lines(mut to: PipeWriter, lines: impl Iterator<Item = String>) {
    for line in lines {
        if to.write_all(line.as_bytes()).and_then(|()| to.flush()).is_err() {
            return;
        }
    }
}

/// Prefixes of the lines in which OpenSSH reports that the other side closed a connection before it
/// could authenticate.
const DROPPED: [&str; 3] =
    ["kex_exchange_identification: ", "ssh_exchange_identification: ", "banner exchange: "];

/// Whether `ssh` reports a dropped connection that a retry may open.
fn was_dropped(line: &[u8]) -> bool {
    DROPPED.iter().any(|begin| line.starts_with(begin.as_bytes()))
}

/// Reads one output stream of a process.
struct Reader {
    origin: Origin,
    outlets: Outlets,
    /// The last lines of standard error; `None` for standard output.
    tail: Option<Arc<Mutex<Tail>>>,
    /// Number of control lines so far, without frequent ones.
    controls: u32,
}

impl Reader {
    fn read(mut self, mut from: impl Read) {
        let mut splitter = LineSplitter::default();
        let mut buffer = vec![0; READ_BYTES];
        loop {
            match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => splitter.push(&buffer[..read], &mut |line| self.line(line)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        splitter.finish(&mut |line| self.line(line));
        // The launcher may have ended already.
        let _ = self.outlets.events.send(Event::StreamEnded { node: self.origin.node });
    }

    fn line(&mut self, line: &[u8]) {
        match &self.tail {
            None => self.stdout_line(line),
            Some(tail) => {
                if self.origin.address.is_some() && was_dropped(line) {
                    let node = self.origin.node;
                    // The launcher may have ended already.
                    let _ = self.outlets.events.send(Event::ConnectionDropped { node });
                }
                tail.lock().unwrap_or_else(PoisonError::into_inner).push(line);
                self.output(Stream::Stderr, line);
            }
        }
    }

    /// Acts on a control line, which may follow an unfinished line of the program, and passes on
    /// the rest as output.
    fn stdout_line(&mut self, line: &[u8]) {
        let mark = control::MARK.as_bytes();
        let at = line.iter().position(|&byte| byte == mark[0]);
        let at = at.filter(|&at| line[at..].starts_with(mark) && self.may_control(&line[at..]));
        let Some(at) = at else { return self.output(Stream::Stdout, line) };
        if at > 0 {
            self.output(Stream::Stdout, &line[..at]);
        }
        if line[at + mark.len()..].starts_with(HOLDS) {
            // Another run of the job begins.
            self.controls = 0;
        }
        if !self.control(&line[at..]) {
            self.output(Stream::Stdout, &line[at..]);
        }
    }

    /// Counts a control line, unless it is frequent. Returns whether control lines are still
    /// accepted.
    fn may_control(&mut self, line: &[u8]) -> bool {
        let text = &line[control::MARK.len()..];
        let is_frequent = FREQUENT.iter().any(|begin| text.starts_with(begin));
        self.controls += u32::from(!is_frequent);
        is_frequent || self.controls <= CONTROLS_MAX
    }

    /// Acts on a control line. Returns false if it is malformed.
    fn control(&self, line: &[u8]) -> bool {
        let node = self.origin.node;
        let text = &line[control::MARK.len()..];
        let event = if let Some(mut address) = str::from_utf8(line).ok().and_then(listening_address)
        {
            if let Some(host) = self.origin.address.filter(|_| address.ip().is_unspecified()) {
                address.set_ip(host);
            }
            self.outlets.reports.push(Report::Listening { node, address });
            Event::Listening { node, address }
        } else {
            match Control::parse(text) {
                Some(Control::Failed(failure)) => Event::Failed { node, failure },
                Some(Control::Holds(holdings)) => Event::Holds { node, holdings },
                Some(Control::Paused(pause)) => Event::Paused(pause),
                Some(Control::Leaving) => Event::Leaving { node },
                Some(Control::Unchangeable(reason)) => Event::Unchangeable { reason },
                Some(Control::Simulated(summary)) => {
                    self.outlets.reports.push(Report::Simulated(summary));
                    Event::Simulated
                }
                Some(Control::Links(links)) => {
                    for report in self.outlets.known.learn(links) {
                        self.outlets.reports.push_waiting(report, 0);
                    }
                    return true;
                }
                Some(Control::Warning(text)) => {
                    self.outlets.reports.push_waiting(Report::Warning { text }, 0);
                    return true;
                }
                Some(Control::Balanced(report)) => {
                    self.outlets.reports.push_waiting(Report::Balanced(report), 0);
                    return true;
                }
                Some(Control::Guest(event)) => {
                    self.outlets.reports.push_waiting(Report::Guest(event), 0);
                    return true;
                }
                _ => return false,
            }
        };
        // The launcher may have ended already.
        let _ = self.outlets.events.send(event);
        true
    }

    fn output(&self, stream: Stream, line: &[u8]) {
        let report = Report::Output { node: self.origin.node, stream, text: line.to_vec() };
        self.outlets.reports.push_waiting(report, line.len());
    }
}
