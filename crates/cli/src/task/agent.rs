//! The agent of a task, which `srun` starts: runs the node, and connects it with the launcher.

use super::bundle::completed;
use super::frame::{Frame, TO_AGENT_BYTES_MAX};
use super::hello::Hello;
use super::output::Output;
use super::watched::{BEAT, Watched};
use crate::args::TaskArgs;
use crate::channel;
use crate::error::{CliError, TaskError};
use crate::node_program::NodeProgram;
use crate::signals::exit_code;
use gridspan_runtime::net::{EnrolmentToken, NodeKey, SecureStream};
use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGCHLD, SIGINT, SIGKILL, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use std::fs::File;
use std::io::{self, BufRead, Read, Write};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Time to try to reach the launcher, and pause between two attempts: the network of a host that
/// has just started may come up late.
const CONNECT_MAX: Duration = Duration::from_secs(20);
const CONNECT_PAUSE: Duration = Duration::from_millis(500);
/// Time limit of an attempt at one address.
const ADDRESS_MAX: Duration = Duration::from_secs(5);
/// Time for the launcher to answer: it may have many tasks.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Longest line with a token, in bytes.
const TOKEN_BYTES_MAX: u64 = 1 << 10;
/// Time that the launcher may take to read the last frames.
const CLOSE_MAX: Duration = Duration::from_secs(5);
/// Pause between two SIGTERMs: the system merges a signal with a pending one of the same number.
const BETWEEN_SIGNALS: Duration = Duration::from_millis(50);
/// Exit code of shells for a program that cannot be started.
const CANNOT_RUN: u8 = 127;

/// Runs the node of this task to its end.
pub(crate) fn run(args: &TaskArgs) -> Result<ExitCode, CliError> {
    // Signals are watched before the node starts, so that its end is not missed.
    let signals = Signals::new([SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGCHLD]);
    let mut signals = signals.map_err(CliError::system("watch for signals"))?;
    let (token, key) = (token()?, NodeKey::new()?);
    let stream = Arc::new(connect(args, &token)?);
    let hello = hello(&token, &key).ok_or(TaskError::NoTask)?;
    let program = enrol(&stream, &hello)?;
    let own = stream.local_address().map_err(CliError::system("find the own address"))?.ip();
    let node = Arc::new(Node::default());
    let (mut child, pipe) = match start(&program) {
        Ok(started) => started,
        Err(error) => {
            let ended = listen(&stream, &node, channel().0)?;
            let text = format!("error: {error}\n").into_bytes();
            say(&stream, &Frame::Stderr(text));
            say(&stream, &Frame::Exited(i32::from(CANNOT_RUN)));
            // The launcher may have ended.
            let _ = ended.recv_timeout(CLOSE_MAX);
            return Ok(ExitCode::from(CANNOT_RUN));
        }
    };
    *node.lock() = Some(Pid::from_child(&child));
    let (lines, incoming) = channel();
    let ended = listen(&stream, &node, lines)?;
    spawn("lines", move || write_lines(&incoming, pipe, &key, own))?;
    beat(&stream)?;
    let outputs = [
        child.stdout.take().map(|from| pass_on(&stream, from, Frame::Stdout)),
        child.stderr.take().map(|from| pass_on(&stream, from, Frame::Stderr)),
    ];
    let status = attend(&mut child, &node, &stream, &mut signals)?;
    for output in outputs.into_iter().flatten() {
        output?.drain();
    }
    let (frame, code) = match (status.code(), status.signal()) {
        (Some(code), _) => (Frame::Exited(code), code),
        (None, signal) => {
            let signal = signal.unwrap_or(0);
            (Frame::Killed(signal), exit_code(signal).into())
        }
    };
    say(&stream, &frame);
    let _ = ended.recv_timeout(CLOSE_MAX);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}

/// Reads the token that all tasks get.
fn token() -> Result<EnrolmentToken, CliError> {
    let mut line = String::new();
    let mut stdin = io::stdin().lock().take(TOKEN_BYTES_MAX);
    stdin.read_line(&mut line).map_err(CliError::system("read from srun"))?;
    EnrolmentToken::from_line(&line).ok_or(CliError::Task(TaskError::NoTask))
}

/// Describes this task by the variables that Slurm sets for each task.
fn hello(token: &EnrolmentToken, key: &NodeKey) -> Option<Hello> {
    let number = |name| std::env::var(name).ok()?.parse().ok();
    let task = (number("SLURM_PROCID")?, number("SLURM_LOCALID")?);
    let host = std::env::var("SLURMD_NODENAME").ok()?;
    Some(Hello::new(token.secret.clone(), task, host, key.public()))
}

fn connect(args: &TaskArgs, token: &EnrolmentToken) -> Result<SecureStream, CliError> {
    let until = Instant::now() + CONNECT_MAX;
    let mut last = io::Error::other("its host has no address");
    loop {
        for address in addresses(args) {
            match token.connect(address, until.min(Instant::now() + ADDRESS_MAX)) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        if Instant::now() + CONNECT_PAUSE >= until {
            let launcher = format!("{}, port {}", args.host, args.port);
            return Err(TaskError::NoLauncher { launcher, error: last }.into());
        }
        thread::sleep(CONNECT_PAUSE);
    }
}

/// Returns where the launcher may be reached: at the address from which `srun` has started this
/// task, or at that of the launcher's host.
fn addresses(args: &TaskArgs) -> Vec<SocketAddr> {
    let of_srun = std::env::var("SLURM_LAUNCH_NODE_IPADDR").ok();
    let names = of_srun.iter().map(String::as_str).chain([args.host.as_str()]);
    names.filter_map(|name| (name, args.port).to_socket_addrs().ok()).flatten().collect()
}

/// Introduces this task to the launcher, which says what the node runs.
fn enrol(stream: &SecureStream, hello: &Hello) -> Result<NodeProgram, CliError> {
    let failed = CliError::system("enrol with the launcher");
    let json = serde_json::to_vec(hello).map_err(|error| failed(error.into()))?;
    stream.write_all(&Frame::Hello(json).to_bytes()).map_err(&failed)?;
    let mut answer = stream.reader(Some(Instant::now() + ANSWER_MAX));
    match Frame::read(&mut answer, TO_AGENT_BYTES_MAX).map_err(&failed)? {
        Some(Frame::Welcome(json)) => {
            serde_json::from_slice(&json).map_err(|error| failed(error.into()))
        }
        Some(Frame::Refused(reason)) => Err(TaskError::NotEnrolled { reason }.into()),
        _ => Err(failed(io::ErrorKind::UnexpectedEof.into())),
    }
}

/// Starts the node in a separate group of processes. The calling thread must live as long as this
/// process, because the node ends with that thread.
fn start(program: &NodeProgram) -> Result<(Child, File), CliError> {
    let mut command = program.command();
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let opened = channel::open(&mut command, false);
    let (node_end, pipe) = opened.map_err(CliError::system("open a pipe to the node"))?;
    let path = program.path().to_owned();
    let child = command.spawn().map_err(|error| CliError::Start { path, error })?;
    drop(node_end);
    Ok((child, pipe))
}

/// The process of the node.
#[derive(Default)]
struct Node {
    /// Its number; `None` before it has started and after its end, when another process may have
    /// the same number.
    pid: Mutex<Option<Pid>>,
    /// Whether this agent has reported to the launcher that the node leaves.
    is_leaving: AtomicBool,
}

impl Node {
    fn lock(&self) -> MutexGuard<'_, Option<Pid>> {
        self.pid.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a signal to the group of the node.
    fn signal(&self, signal: i32) {
        let signal = Signal::from_named_raw(signal);
        if let (Some(pid), Some(signal)) = (*self.lock(), signal) {
            // It fails only if the node has just ended.
            let _ = kill_process_group(pid, signal);
        }
    }

    /// Ends the node at the request of the launcher. At the first SIGTERM, some nodes only announce
    /// that they leave. If this agent has announced that for the node, it sends SIGTERM twice, as
    /// the node has got none yet.
    fn end(&self) {
        if self.is_leaving.load(Ordering::SeqCst) {
            self.signal(SIGTERM);
            thread::sleep(BETWEEN_SIGNALS);
        }
        self.signal(SIGTERM);
    }

    /// Returns how the node has ended, once it has.
    fn exit(&self, child: &mut Child) -> io::Result<Option<ExitStatus>> {
        let mut pid = self.lock();
        let status = child.try_wait()?;
        if status.is_some() {
            *pid = None;
        }
        Ok(status)
    }
}

/// Handles signals until the node has ended.
fn attend(
    child: &mut Child,
    node: &Node,
    stream: &SecureStream,
    signals: &mut Signals,
) -> Result<ExitStatus, CliError> {
    let failed = CliError::system("wait for the node");
    for signal in signals.forever() {
        match signal {
            SIGCHLD => {
                if let Some(status) = node.exit(child).map_err(&failed)? {
                    return Ok(status);
                }
            }
            SIGTERM if !node.is_leaving.swap(true, Ordering::SeqCst) => {
                say(stream, &Frame::Leaving);
            }
            signal => node.signal(signal),
        }
    }
    child.wait().map_err(failed)
}

/// Starts a thread that carries out the orders of the launcher. When the launcher ends the
/// connection or is silent, the thread kills the node and closes the returned channel, which
/// carries no values.
fn listen(
    stream: &Arc<SecureStream>,
    node: &Arc<Node>,
    lines: Sender<Vec<u8>>,
) -> Result<Receiver<()>, CliError> {
    let (open, ended) = channel::<()>();
    let (stream, node) = (stream.clone(), node.clone());
    spawn("orders", move || {
        let _open = open;
        let mut from = Watched::new(&stream);
        while let Ok(Some(frame)) = Frame::read(&mut from, TO_AGENT_BYTES_MAX) {
            match frame {
                // A node that has ended reads no more.
                Frame::Input(line) => drop(lines.send(line)),
                Frame::Signal(SIGTERM) => node.end(),
                Frame::Signal(signal) => node.signal(signal),
                _ => {}
            }
        }
        node.signal(SIGKILL);
        // Other threads may block in a write to a silent launcher.
        stream.shutdown();
    })?;
    Ok(ended)
}

/// Starts a thread for heartbeats, since other threads may block while the launcher reads slowly.
fn beat(stream: &Arc<SecureStream>) -> Result<(), CliError> {
    let stream = stream.clone();
    spawn("beats", move || {
        while stream.write_all(&Frame::Alive.to_bytes()).is_ok() {
            thread::sleep(BEAT);
        }
    })
}

/// Writes lines of the launcher to the node.
fn write_lines(lines: &Receiver<Vec<u8>>, mut pipe: File, key: &NodeKey, own: IpAddr) {
    for line in lines {
        if pipe.write_all(&completed(line, key, own)).is_err() {
            return;
        }
    }
}

/// Starts a thread that passes on output of the node.
fn pass_on(
    stream: &Arc<SecureStream>,
    from: impl Read + Send + 'static,
    frame: fn(Vec<u8>) -> Frame,
) -> Result<Output, CliError> {
    let stream = stream.clone();
    let write = move |bytes: &[u8]| stream.write_all(&frame(bytes.to_vec()).to_bytes());
    Output::start(from, write).map_err(CliError::system("start a thread"))
}

/// Sends a frame. If that fails, the connection has ended, which the thread of [`listen`] notices.
fn say(stream: &SecureStream, frame: &Frame) {
    let _ = stream.write_all(&frame.to_bytes());
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), CliError> {
    let spawned = thread::Builder::new().name(name.to_owned()).spawn(run);
    spawned.map(drop).map_err(CliError::system("start a thread"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::fixtures::connection;
    use std::sync::mpsc::RecvTimeoutError;

    #[test]
    fn output_that_the_launcher_does_not_read_ends_with_its_orders() {
        let (launcher, agent) = connection();
        let agent = Arc::new(agent);
        let output = pass_on(&agent, io::repeat(b'x'), Frame::Stdout).unwrap();
        // These bytes are no frame, so the orders end. The launcher keeps the connection, and reads
        // nothing.
        launcher.write_all(&[u8::MAX; 64]).unwrap();

        let ended = listen(&agent, &Arc::default(), channel().0).unwrap();

        let end = ended.recv_timeout(Duration::from_secs(20));
        assert_eq!(end, Err(RecvTimeoutError::Disconnected));
        output.drain();
    }
}
