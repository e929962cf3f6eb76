//! Starts the node processes of a job whose first node is this process.
//!
//! # Start
//!
//! This process is the launcher of [`bootstrap`]: it writes the identity of each node to the
//! standard input of its process, reads the address of the process from its standard output, and
//! then writes the addresses of all nodes.
//!
//! # Failure
//!
//! A process that ends before it listens, or does not listen in time, fails the job before main
//! starts. If a process ends later, the other nodes notice that its node is lost. Processes end
//! with the job. This process closes the input of those that do not end within 2 s, and kills those
//! that still run 3 s later.

use crate::control::{Control, MARK, OutputDemux, OutputItem};
use crate::settings::Settings;
use crate::variables::{DETACHED, DRIVER, LAUNCHER, REPORT};
use gridspan_balance::BalanceReport;
use gridspan_runtime::driver::{NodeHandle, cluster, cores};
use gridspan_runtime::net::bootstrap::{self, Addresses, Joined, NodeBundle, listening_address};
use gridspan_runtime::net::{Authority, UdpPort};
use gridspan_runtime::{
    CheckpointReport, Checkpoints, Job, JobError, LossCause, NodeProcessError, StartError, Warning,
};
use gridspan_topology::{GridSpec, LinkChange, NodeId};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{self, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time in which all processes must listen.
const START_PATIENCE: Duration = Duration::from_secs(30);
/// Time between checks whether the job is cancelled while processes start.
const START_CHECK: Duration = Duration::from_millis(20);
/// Time for a process to end after its job has ended, before its input ends.
const END_PATIENCE: Duration = Duration::from_secs(2);
/// Time for a process to end after its input has ended.
const KILL_PATIENCE: Duration = Duration::from_secs(3);
/// Time to read the last output of a process that has ended, on a busy machine.
const READ_PATIENCE: Duration = Duration::from_secs(1);
/// Time between checks whether a process has ended.
const END_CHECK: Duration = Duration::from_millis(1);
/// Length in bytes above which a line of a process's output is divided.
const LINE_BYTES_MAX: u64 = 64 << 10;

type MakeCommand = dyn Fn(NodeId) -> Command + Send + Sync;

/// The node processes of a job.
#[derive(Clone)]
pub(crate) struct Processes {
    grid: Box<GridSpec>,
    command: Arc<MakeCommand>,
}

/// Output of a process, for the program that started the job.
pub(crate) enum Printed {
    /// A line that its program printed.
    Line(String),
    /// A warning of the job.
    Warning(Warning),
    /// A rebalance, from the process of the coordinator.
    Balanced(BalanceReport),
    /// A complete checkpoint, from the process of the coordinator.
    Checkpoint(CheckpointReport),
    /// Changes of links, from the process of the coordinator.
    LinksChanged(Vec<LinkChange>),
}

/// Receives the output of the processes.
pub(crate) type OnPrinted = Arc<dyn Fn(NodeId, Printed) + Send + Sync>;

impl Processes {
    pub(crate) fn new(
        grid: GridSpec,
        command: impl Fn(NodeId) -> Command + Send + Sync + 'static,
    ) -> Self {
        Self { grid: Box::new(grid), command: Arc::new(command) }
    }

    /// Runs the job, with these settings on all nodes. Main runs on the calling thread. The
    /// processes have ended when this returns.
    pub(crate) fn run(
        &self,
        job: Job,
        settings: &Settings,
        on_printed: &OnPrinted,
        is_cancelled: impl Fn() -> bool,
        begun: impl FnOnce(NodeHandle),
    ) -> Result<(), JobError> {
        let of_others = of_other_nodes(&job, settings);
        let (joined, mut children) =
            self.start(job.name(), &of_others, on_printed, is_cancelled)?;
        let outcome = cluster::run_with(settings.apply(job), joined, begun);
        let outcome = outcome.map_err(|error| explained(error, &mut children));
        end(children);
        outcome
    }

    /// Starts the processes, and sends them the addresses of all nodes.
    fn start(
        &self,
        job: &str,
        settings: &Settings,
        on_printed: &OnPrinted,
        is_cancelled: impl Fn() -> bool,
    ) -> Result<(Joined, BTreeMap<NodeId, Child>), JobError> {
        let setup = |error: &dyn fmt::Display| StartError::Network { reason: error.to_string() };
        let no_port = |error: io::Error| StartError::Port { reason: error.to_string() };
        let authority = Authority::new(job).map_err(StartError::from)?;
        let mut bundles = bootstrap::issue(&authority, &self.grid).map_err(StartError::from)?;
        let nodes_per_core = self.grid.layout().node_count().div_ceil(cores());
        let settings = serde_json::to_value(settings).map_err(|error| setup(&error))?;
        for bundle in &mut bundles {
            (bundle.nodes_per_core, bundle.settings) = (nodes_per_core, settings.clone());
        }
        let (send, reports) = channel();
        let mut children = BTreeMap::new();
        for bundle in bundles.split_off(1) {
            let node = bundle.identity.node;
            let outlet = Outlet { node, reports: send.clone(), on_printed: on_printed.clone() };
            let command = catch_unwind(AssertUnwindSafe(|| (self.command)(node)));
            let command = command.map_err(|_| not_started(node, NodeProcessError::NoCommand))?;
            children.insert(node, Child::start(command, &bundle, outlet)?);
        }
        drop(send);
        let port = UdpPort::bind((Ipv4Addr::LOCALHOST, 0).into()).map_err(StartError::from)?;
        let mut addresses = listening(&reports, &mut children, is_cancelled)?;
        addresses.insert(NodeId(0), port.local_address().map_err(no_port)?);
        let addresses = Addresses(addresses.into_values().collect());
        let line = addresses.to_line().map_err(|error| setup(&error))?;
        children.values().for_each(|child| child.write(&line));
        // The first bundle is left, since a grid has at least one node.
        let bundle = bundles.pop().ok_or_else(|| setup(&"the grid has no node"))?;
        Ok((Joined { bundle, port, addresses: addresses.0 }, children))
    }
}

/// Returns the settings of the other nodes. Each node stores the parts of its PEs where the job
/// stores checkpoints, and reads those with which it continues, so all nodes need these places. No
/// node waits for another run after a loss, because the job has none.
fn of_other_nodes(job: &Job, settings: &Settings) -> Settings {
    let place = |path: Option<&Path>| path.map(absolute);
    let checkpoints = job.checkpoint_settings();
    Settings {
        checkpoints: Some(checkpoints).filter(|it| *it != Checkpoints::default()),
        checkpoint_folder: place(job.folder()),
        restart: place(job.restart_from()),
        recovers: Some(false),
        ..settings.clone()
    }
}

/// The path of a folder from the root, since processes may start in other folders; an address of an
/// object store stays as it is.
fn absolute(path: &Path) -> PathBuf {
    let is_address = path.to_str().is_some_and(|text| text.contains("://"));
    let found = if is_address { None } else { std::path::absolute(path).ok() };
    found.unwrap_or_else(|| path.to_owned())
}

impl fmt::Debug for Processes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Processes").field("grid", &self.grid).finish_non_exhaustive()
    }
}

/// Waits until all processes listen. Returns their addresses.
fn listening(
    reports: &Receiver<(NodeId, StartReport)>,
    children: &mut BTreeMap<NodeId, Child>,
    is_cancelled: impl Fn() -> bool,
) -> Result<BTreeMap<NodeId, SocketAddr>, JobError> {
    let (begin, mut addresses) = (Instant::now(), BTreeMap::new());
    while addresses.len() < children.len() {
        if is_cancelled() {
            return Err(JobError::Cancelled);
        }
        match reports.recv_timeout(START_CHECK) {
            Ok((node, StartReport::Listening(address))) => drop(addresses.insert(node, address)),
            Ok((node, StartReport::Failed(reason))) => {
                return Err(not_started(node, NodeProcessError::Failed { reason }));
            }
            Ok((node, StartReport::Ended)) => {
                let exit = children.get_mut(&node).and_then(Child::wait);
                let end = exit.map_or_else(|| "closed its output".to_owned(), |exit| exit.text());
                return Err(not_started(node, NodeProcessError::Ended { end }));
            }
            Err(RecvTimeoutError::Timeout) if begin.elapsed() < START_PATIENCE => {}
            Err(_) => {
                let silent = children.keys().find(|node| !addresses.contains_key(node));
                let error = NodeProcessError::Silent { limit: START_PATIENCE };
                return Err(not_started(silent.copied().unwrap_or_default(), error));
            }
        }
    }
    Ok(addresses)
}

fn not_started(node: NodeId, error: NodeProcessError) -> JobError {
    StartError::Node { node, error }.into()
}

/// Adds to the error about a lost node how the process of that node ended.
fn explained(error: JobError, children: &mut BTreeMap<NodeId, Child>) -> JobError {
    match error {
        JobError::NodeLost { node, site, cause, reason, others } => {
            let exit = children.get_mut(&node).and_then(Child::take_exit);
            let (cause, reason) = match exit {
                Some(exit) => {
                    // A process also ends because of a refusal.
                    let is_refusal = matches!(cause, LossCause::Refused(_));
                    let cause = if is_refusal { cause } else { LossCause::Ended };
                    (cause, format!("{reason}; its process {}", exit.text()))
                }
                None => (cause, reason),
            };
            JobError::NodeLost { node, site, cause, reason, others }
        }
        error => error,
    }
}

/// Waits until all processes have ended. Closes the input of those that do not end with the job,
/// and kills those that still do not end.
fn end(mut children: BTreeMap<NodeId, Child>) {
    let mut wait = |patience: Duration| {
        let begin = Instant::now();
        while children.values_mut().any(Child::is_running) && begin.elapsed() < patience {
            thread::sleep(END_CHECK);
        }
        children.values_mut().for_each(|child| child.input = None);
    };
    wait(END_PATIENCE);
    wait(KILL_PATIENCE);
}

/// A report of a process while it starts.
enum StartReport {
    Listening(SocketAddr),
    Failed(String),
    /// Its output has ended.
    Ended,
}

/// How a process ended.
struct Exit(process::ExitStatus);

impl Exit {
    fn text(&self) -> String {
        format!("ended with {}", self.0)
    }
}

/// A process, which is killed when this value is dropped.
struct Child {
    process: process::Child,
    /// Lines for the input of the process, which ends when the sender is dropped.
    input: Option<Sender<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Child {
    /// Starts a process and sends it the bundle. The thread that calls this must live as long as
    /// the job: each process asks the kernel to kill it when that thread ends.
    fn start(mut command: Command, bundle: &NodeBundle, outlet: Outlet) -> Result<Self, JobError> {
        let node = bundle.identity.node;
        let program = command.get_program().to_owned();
        command.env(DRIVER, "node").env(REPORT, "lines");
        // This process may be a node of another job, with another launcher.
        command.env_remove(LAUNCHER).env_remove(DETACHED);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // Only this process gets an interrupt from the terminal; it ends the others.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let failed = |error: io::Error| {
            let (program, reason) = (program.to_string_lossy().into_owned(), error.to_string());
            not_started(node, NodeProcessError::Spawn { program, reason })
        };
        let line = bundle.to_line().map_err(|error| failed(error.into()))?;
        let mut process = command.spawn().map_err(failed)?;
        let (input, output) = (process.stdin.take(), process.stdout.take());
        let mut child = Self { process, input: None, reader: None };
        if let Some(input) = input {
            child.input = Some(writer(input).map_err(failed)?);
        }
        if let Some(output) = output {
            let reader = thread::Builder::new().name("node-output".to_owned());
            let reader = reader.spawn(move || outlet.read(output)).map_err(failed)?;
            child.reader = Some(reader);
        }
        child.write(&line);
        Ok(child)
    }

    /// Writes a line to its input, without waiting for the process to read it.
    fn write(&self, line: &str) {
        // Fails if the process has ended. The reader of its output reports that.
        let _ = self.input.as_ref().map(|input| input.send(line.to_owned()));
    }

    fn is_running(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    /// Returns how the process ended, if it has.
    fn take_exit(&mut self) -> Option<Exit> {
        self.process.try_wait().ok().flatten().map(Exit)
    }

    /// Waits up to a second for the end of the process.
    fn wait(&mut self) -> Option<Exit> {
        let begin = Instant::now();
        while self.is_running() && begin.elapsed() < Duration::from_secs(1) {
            thread::sleep(END_CHECK);
        }
        self.take_exit()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // This fails only if the process has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
        if let Some(reader) = self.reader.take() {
            let begin = Instant::now();
            while !reader.is_finished() && begin.elapsed() < READ_PATIENCE {
                thread::sleep(END_CHECK);
            }
            // A child of the process may hold the output open.
            if reader.is_finished() {
                let _ = reader.join();
            }
        }
    }
}

/// Starts a thread that writes lines to the input of a process, which may read them late or never.
fn writer(mut input: ChildStdin) -> io::Result<Sender<String>> {
    let (send, lines) = channel::<String>();
    thread::Builder::new().name("node-input".to_owned()).spawn(move || {
        for line in lines {
            if input.write_all(line.as_bytes()).and_then(|()| input.flush()).is_err() {
                return;
            }
        }
    })?;
    Ok(send)
}

/// Destination of the output of a process.
struct Outlet {
    node: NodeId,
    reports: Sender<(NodeId, StartReport)>,
    on_printed: OnPrinted,
}

impl Outlet {
    fn read(self, output: impl Read) {
        let mut output = BufReader::new(output);
        let mut demux = OutputDemux::default();
        let mut on_item = |item: OutputItem<'_>| self.take(item);
        for_each_line(&mut output, |line| {
            demux.line(line.strip_suffix(b"\n").unwrap_or(line), &mut on_item);
        });
        demux.pass_on(&mut on_item);
        self.report(StartReport::Ended);
    }

    fn take(&self, item: OutputItem<'_>) {
        let (OutputItem::Line(line) | OutputItem::Control(line)) = item;
        let line = String::from_utf8_lossy(line);
        if let Some(address) = listening_address(&line) {
            return self.report(StartReport::Listening(address));
        }
        let parsed = line.strip_prefix(MARK);
        let printed = match parsed.and_then(|text| Control::parse(text.as_bytes())) {
            Some(Control::Failed(failure)) => {
                return self.report(StartReport::Failed(failure.message));
            }
            Some(Control::Warning(warning)) => Printed::Warning(warning),
            Some(Control::Balanced(report)) => Printed::Balanced(report),
            Some(Control::Checkpoint(report)) => Printed::Checkpoint(report),
            Some(Control::Links(report)) => Printed::LinksChanged(report.changes),
            Some(_) => return,
            None => Printed::Line(line.into_owned()),
        };
        (self.on_printed)(self.node, printed);
    }

    fn report(&self, report: StartReport) {
        // The receiver exists only while the processes start.
        let _ = self.reports.send((self.node, report));
    }
}

/// Reads all lines, of which long ones are divided.
fn for_each_line(from: &mut impl BufRead, mut take: impl FnMut(&[u8])) {
    let mut was_cut = false;
    while let Ok(Some(line)) = read_line(from) {
        // Otherwise the end of a divided line would be an empty line.
        let is_only_end = was_cut && line == b"\n";
        was_cut = !line.ends_with(b"\n");
        if !is_only_end {
            take(&line);
        }
    }
}

/// Reads a line, which is divided if it is long; `None` at the end. A control line is not divided.
fn read_line(from: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    let is_cut = line.len() as u64 == LINE_BYTES_MAX && !line.ends_with(b"\n");
    if is_cut && line.contains(&MARK.as_bytes()[0]) {
        from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    }
    Ok((!line.is_empty()).then_some(line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_runtime::RefusalCause;

    #[test]
    #[cfg(unix)]
    fn a_refusal_is_the_cause_of_a_loss_also_after_the_end_of_the_process() {
        let refused = LossCause::Refused(RefusalCause::Version);
        for (cause, expected) in [(refused, refused), (LossCause::Silent, LossCause::Ended)] {
            let mut process = Command::new("true").spawn().unwrap();
            process.wait().unwrap();
            let child = Child { process, input: None, reader: None };
            let mut children = BTreeMap::from([(NodeId(1), child)]);
            let (site, reason) = ("a".to_owned(), "it is gone".to_owned());
            let error = JobError::NodeLost { node: NodeId(1), site, cause, reason, others: vec![] };
            match explained(error, &mut children) {
                JobError::NodeLost { cause, reason, .. } => {
                    assert_eq!(cause, expected);
                    assert!(reason.starts_with("it is gone; its process ended with"), "{reason}");
                }
                other => panic!("{other}"),
            }
        }
    }

    #[test]
    fn lines_with_a_mark_are_whole_and_end_where_they_end() {
        let long = |before: usize| {
            let text = vec![b'x'; LINE_BYTES_MAX as usize - before];
            [&text[..], MARK.as_bytes(), b"1\n"].concat()
        };
        // One ends at the limit, and the mark of the other is on both sides of it.
        let (at_limit, beyond) = (long(MARK.len() + 2), long(4));
        let text = [&at_limit[..], &beyond, b"next\n"].concat();

        assert!(lines_of(&text) == [at_limit, beyond, b"next\n".to_vec()]);
    }

    fn lines_of(mut text: &[u8]) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        for_each_line(&mut text, |line| lines.push(line.to_vec()));
        lines
    }

    #[test]
    fn the_end_of_a_divided_line_is_no_empty_line() {
        let long = vec![b'x'; LINE_BYTES_MAX as usize];
        let text = [&long[..], b"\n\nnext\n"].concat();

        assert!(lines_of(&text) == [long, b"\n".to_vec(), b"next\n".to_vec()]);
    }
}
