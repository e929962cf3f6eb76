//! The bridge to a node: it starts the node or attends to it, and carries frames both ways until
//! the launcher has gone.

use super::folder::KeeperFolder;
use super::followed::follow;
use super::frames::{
    Attendance, BRIDGE_BEGINS, BridgeOrder, BridgeRefusal, BridgeTask, FromBridge, KeptNode,
    NodeExit, NodeSignal, ToBridge, read_frame, write_frame,
};
use super::limit::StreamLimit;
use super::process_id::ProcessId;
use crate::outcome::{EXIT_FAILED, complain};
use crate::variables::{DETACHED, LAUNCHER};
use gridspan_runtime::net::bootstrap::CANCEL;
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::Signal;
use rustix::stdio::dup2_stdout;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, IntoRawFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Time that another bridge has to finish the line that it writes.
const LINE_PATIENCE: Duration = Duration::from_secs(3);
/// Time that a killed process has to end.
const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// Runs this process as a bridge, which reads frames from `launcher`.
pub(crate) fn run(launcher: impl Read) -> ExitCode {
    match serve(launcher) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let hint = "`gridctl run --detach` starts bridges; unset GRIDSPAN_DETACHED otherwise";
            complain(&format!("cannot be the bridge to a node: {error}"), hint);
            ExitCode::from(EXIT_FAILED)
        }
    }
}

fn serve(mut launcher: impl Read) -> io::Result<()> {
    let to = Answers::open()?;
    let Some((ToBridge::Order(order), content)) = read_frame(&mut launcher)? else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "there is no order"));
    };
    order.check()?;
    let refusal = match &order.task {
        BridgeTask::Look => match KeeperFolder::open(&order.job, &order.node)? {
            Some(folder) => return tell(&folder, &to),
            None => BridgeRefusal::Unknown,
        },
        BridgeTask::Accept => match accept(&order) {
            Ok(Ok(accepted)) => return tell(&accepted.folder, &to),
            Ok(Err(refusal)) => refusal,
            Err(error) => BridgeRefusal::Failed(error.to_string()),
        },
        BridgeTask::Start | BridgeTask::Attend { .. } => match begin(&order, &content) {
            Ok(Ok(bridge)) => return bridge.carry(launcher, &to),
            Ok(Err(refusal)) => refusal,
            Err(error) => BridgeRefusal::Failed(error.to_string()),
        },
    };
    to.send(&FromBridge::Refuses(refusal), b"")
}

/// Sends the recorded state of a node to the launcher.
fn tell(folder: &KeeperFolder, to: &Answers) -> io::Result<()> {
    let is_bridged = folder.bridge()?.is_some_and(ProcessId::is_running);
    let silence = folder.unread_for().filter(|_| is_bridged);
    let kept = KeptNode {
        launcher: folder.launcher()?,
        attended_ms: silence.map(|it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX)),
        runs: folder.node()?.is_some_and(ProcessId::is_running),
    };
    to.send(&FromBridge::Kept(kept), &folder.state()?)
}

/// A bridge whose launcher was accepted.
struct Bridge {
    order: BridgeOrder,
    folder: KeeperFolder,
    own: ProcessId,
    attendance: Attendance,
    node: Node,
}

/// The process of the node.
enum Node {
    /// Started by this bridge.
    Own(Child),
    /// Started by another one.
    Other(ProcessId),
}

/// A node whose keeper has accepted a launcher.
struct Accepted {
    folder: KeeperFolder,
    own: ProcessId,
    /// While this exists, no other process changes the folder.
    lock: File,
}

/// Accepts the launcher, and ends the previous bridge; or returns the refusal.
fn accept(order: &BridgeOrder) -> io::Result<Result<Accepted, BridgeRefusal>> {
    let folder = match order.task {
        BridgeTask::Start => Some(KeeperFolder::create(&order.job, &order.node)?),
        _ => KeeperFolder::open(&order.job, &order.node)?,
    };
    let Some(folder) = folder else { return Ok(Err(BridgeRefusal::Unknown)) };
    let own = ProcessId::own()?;
    let lock = folder.lock()?;
    let accepted = folder.launcher()?;
    if !accepted.yields_to(&order.launcher) {
        return Ok(Err(BridgeRefusal::Other(accepted)));
    }
    let old = folder.bridge()?.filter(|old| *old != own);
    folder.accept(&order.launcher)?;
    // From here on, other bridges write no further line.
    folder.set_bridge(own)?;
    drop(folder.await_lines(LINE_PATIENCE)?);
    if let Some(old) = old.filter(|old| !old.kill(KILL_PATIENCE)) {
        let text = format!("its previous bridge, process {}, does not end", old.pid);
        return Ok(Err(BridgeRefusal::Failed(text)));
    }
    Ok(Ok(Accepted { folder, own, lock }))
}

/// Carries out an order to start a node or to attend to one, or returns the refusal.
fn begin(order: &BridgeOrder, content: &[u8]) -> io::Result<Result<Bridge, BridgeRefusal>> {
    let Accepted { folder, own, lock } = match accept(order)? {
        Ok(accepted) => accepted,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let before = folder.node()?;
    let node = match (&order.task, before) {
        (BridgeTask::Start, before) => {
            if let Some(before) = before.filter(|before| !before.kill_group(KILL_PATIENCE)) {
                let text = format!("its previous process, {}, does not end", before.pid);
                return Ok(Err(BridgeRefusal::Failed(text)));
            }
            folder.begin(content)?;
            Node::Own(start(&folder)?)
        }
        (_, None) => return Ok(Err(BridgeRefusal::Unknown)),
        (_, Some(node)) => Node::Other(node),
    };
    let attendance = attendance(order, &folder)?;
    drop(lock);
    Ok(Ok(Bridge { order: order.clone(), folder, own, attendance, node }))
}

fn attendance(order: &BridgeOrder, folder: &KeeperFolder) -> io::Result<Attendance> {
    let lengths = folder.lengths();
    let from = match order.task {
        BridgeTask::Attend { from: Some(from) } => from,
        // Earlier output belongs to another process.
        _ => folder.read_so_far()?,
    };
    let from = [from[0].min(lengths[0]), from[1].min(lengths[1])];
    let process = folder.node()?.map_or(0, |it| it.pid);
    Ok(Attendance { process, lengths, from, taken: folder.taken()? })
}

/// Starts the process of a node: this program, with the same arguments. Call it on a thread that
/// lives as long as this process: until the node has read its first line, it ends with that thread.
fn start(folder: &KeeperFolder) -> io::Result<Child> {
    let pipe = folder.pipe()?;
    let [out, err] = folder.streams_to_append()?;
    // Only the node inherits the pipe, since this process starts no other process.
    fcntl_setfd(&pipe, FdFlags::empty())?;
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(std::env::args_os().skip(1))
        .env(DETACHED, std::process::id().to_string())
        .env(LAUNCHER, pipe.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err);
    let mut child = command.spawn()?;
    drop(pipe);
    let saved = match ProcessId::of(child.id()) {
        Some(mark) => folder.set_node(mark),
        None => Err(io::Error::other("/proc does not say when the node began")),
    };
    if let Err(error) = saved {
        // No later bridge could find the node.
        child.kill()?;
        child.wait()?;
        return Err(error);
    }
    Ok(child)
}

impl Bridge {
    /// Carries frames until the launcher has gone.
    fn carry(self, launcher: impl Read, to: &Answers) -> io::Result<()> {
        let Self { order, folder, own, attendance, node } = self;
        to.send(&FromBridge::Attends(attendance), b"")?;
        let mark = folder.node()?;
        let lines = {
            let (folder, to) = (folder.clone(), to.clone());
            let is_start = matches!(node, Node::Own(_));
            let (send, lines) = channel();
            spawn("lines", move || {
                if let Err(error) = write_lines(&folder, own, is_start, &lines, &to) {
                    end(&folder, &error);
                }
            })?;
            send
        };
        {
            let (folder, to) = (folder.clone(), to.clone());
            spawn("streams", move || {
                if let Err(error) = pass_on(&folder, attendance.from, node, &to) {
                    end(&folder, &error);
                }
            })?;
        }
        let limit = StreamLimit::new(order.log_limit);
        let mut session = Session { order, folder, own, mark, limit, lines, to: to.clone() };
        let ended = session.attend(launcher);
        stop_lines(&session.folder);
        ended
    }
}

/// The state with which a bridge handles the frames of the launcher.
struct Session {
    order: BridgeOrder,
    folder: KeeperFolder,
    own: ProcessId,
    /// The process of the node.
    mark: Option<ProcessId>,
    limit: StreamLimit,
    lines: Sender<(u64, Vec<u8>)>,
    to: Answers,
}

impl Session {
    /// Acts on frames until the last one, or the end of the launcher.
    fn attend(&mut self, mut launcher: impl Read) -> io::Result<()> {
        while let Some((frame, content)) = read_frame(&mut launcher)? {
            if self.handle(&frame, content)? {
                break;
            }
        }
        Ok(())
    }

    /// Acts on a frame. Returns whether it was the last one.
    fn handle(&mut self, frame: &ToBridge, content: Vec<u8>) -> io::Result<bool> {
        match *frame {
            ToBridge::Order(_) => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a second order"));
            }
            // The thread that receives lines ends only with this process.
            ToBridge::Line(number) => drop(self.lines.send((number, content))),
            ToBridge::Signal(signal) => {
                let signal = match signal {
                    NodeSignal::Term => Signal::TERM,
                    NodeSignal::Kill => Signal::KILL,
                };
                self.mark.into_iter().for_each(|node| node.signal_group(signal));
            }
            ToBridge::Save(number) => {
                let lock = self.folder.lock()?;
                let is_accepted = self.folder.launcher()? == self.order.launcher;
                if is_accepted && self.folder.bridge()? == Some(self.own) {
                    self.folder.save(&content)?;
                    drop(lock);
                    self.to.send(&FromBridge::Saved(number), b"")?;
                }
            }
            ToBridge::Read(read) => {
                self.folder.set_read_so_far(read)?;
                self.limit.note_read(&self.folder, read);
                self.to.send(&FromBridge::Alive, b"")?;
            }
            ToBridge::Forget => {
                if self.mark.is_none_or(|node| !node.is_running()) {
                    self.folder.remove()?;
                }
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Writes lines to the pipe of the node.
fn write_lines(
    folder: &KeeperFolder,
    own: ProcessId,
    is_start: bool,
    lines: &Receiver<(u64, Vec<u8>)>,
    to: &Answers,
) -> io::Result<()> {
    let mut pipe = folder.pipe_to_node()?;
    if !is_start {
        let _lock = folder.lock_lines()?;
        write_to(&mut pipe, &[CANCEL])?;
    }
    for (number, line) in lines {
        let lock = folder.lock_lines()?;
        if folder.bridge()? != Some(own) {
            return Err(io::Error::other("another bridge has taken over"));
        }
        // The launcher sends a line again if it does not know whether it was taken.
        if number == folder.taken()? + 1 {
            write_to(&mut pipe, &line)?;
            folder.set_taken(number)?;
        }
        drop(lock);
        to.send(&FromBridge::Taken(number), b"")?;
    }
    Ok(())
}

/// Writes to the pipe. A node that has ended reads nothing.
fn write_to(pipe: &mut Option<File>, bytes: &[u8]) -> io::Result<()> {
    let Some(open) = pipe else { return Ok(()) };
    match open.write_all(bytes) {
        Err(error) if error.raw_os_error() == Some(Errno::PIPE.raw_os_error()) => {
            *pipe = None;
            Ok(())
        }
        written => written,
    }
}

/// Passes on the output of the node, and then its exit status.
fn pass_on(folder: &KeeperFolder, from: [u64; 2], node: Node, to: &Answers) -> io::Result<()> {
    let is_over = AtomicBool::new(false);
    let exit = thread::scope(|scope| {
        let is_over = &is_over;
        let followers = [0, 1].map(|number| {
            scope.spawn(move || {
                let file = folder.stream(number)?;
                follow(file, from[number], is_over, |bytes| {
                    to.send(&FromBridge::Output(number), bytes)
                })
            })
        });
        let exit = await_end(node);
        is_over.store(true, Ordering::Release);
        for follower in followers {
            follower.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))?;
        }
        exit
    })?;
    to.send(&FromBridge::Ended(exit), b"")
}

fn await_end(node: Node) -> io::Result<NodeExit> {
    match node {
        Node::Other(node) => {
            node.await_end();
            Ok(NodeExit::Unknown)
        }
        Node::Own(mut child) => {
            let status = child.wait()?;
            Ok(match (status.code(), status.signal()) {
                (Some(code), _) => NodeExit::Code(code),
                (None, Some(signal)) => NodeExit::Signal(signal),
                (None, None) => NodeExit::Unknown,
            })
        }
    }
}

/// The stream of frames to the launcher, which all threads of the bridge share.
#[derive(Clone)]
struct Answers(Arc<Mutex<File>>);

impl Answers {
    /// Reserves standard output for frames. Output of other threads of the program is dropped.
    fn open() -> io::Result<Self> {
        let mut stdout = io::stdout();
        stdout.write_all(BRIDGE_BEGINS.as_bytes())?;
        stdout.flush()?;
        let own = stdout.as_fd().try_clone_to_owned()?;
        dup2_stdout(File::options().write(true).open("/dev/null")?)?;
        Ok(Self(Arc::new(Mutex::new(own.into()))))
    }

    fn send(&self, frame: &FromBridge, content: &[u8]) -> io::Result<()> {
        let mut to = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        write_frame(&mut *to, frame, content)
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(run).map(drop)
}

/// Stops this process from writing another line before it ends. Waits for a limited time until a
/// line that it has begun is written and counted as taken: otherwise the launcher would send the
/// line again.
fn stop_lines(folder: &KeeperFolder) {
    // If the folder was removed, there is no node to which a line could be written.
    if let Ok(Some(lock)) = folder.await_lines(LINE_PATIENCE) {
        // The lock lasts as long as this process.
        let _ = lock.into_raw_fd();
    }
}

/// Ends this process, since it cannot be a bridge any longer. The node goes on.
fn end(folder: &KeeperFolder, error: &io::Error) -> ! {
    stop_lines(folder);
    complain(&format!("the bridge to a node ends: {error}"), None::<&str>);
    std::process::exit(i32::from(EXIT_FAILED));
}
