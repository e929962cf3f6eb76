//! One process of a job: its launch, its pipes and its end.
//!
//! The process has its own group, so that Ctrl-C on the terminal reaches only the launcher, which
//! then asks the processes to end. Threads write to its pipe and read its output, so that a process
//! that neither reads nor prints stalls no other. A process of a detached job prints to files and
//! reads from a named pipe; another launcher can adopt it. The process of a kept node uses files
//! and a pipe on its host, and the files here are copies.

use super::bridge::Bridge;
use super::bridge_command::BridgeCommand;
use super::event::{Event, Exit};
use super::followed::{Followed, Source};
use super::line_queue::LineQueue;
use super::lines::Tail;
use super::mirror::Mirror;
use super::process::Process;
use super::reader::{Origin, Outlets, Reader};
use super::slots::Slots;
use super::task::{Task, TaskInput};
use crate::channel;
use crate::job_folder::NodeFiles;
use crate::small_thread::spawn;
use gridspan::control::OutputDemux;
use gridspan::keeper::ProcessId;
use rustix::io::Errno;
use rustix::process::Signal;
use std::io::{self, PipeReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A process of the job.
pub(super) struct Child {
    process: Process,
    /// Whether it goes on when this launcher has ended.
    outlives: bool,
    /// Number of lines that have not been written to it.
    unwritten: Arc<AtomicUsize>,
    /// Whether this launcher has noticed its end.
    is_over: Arc<AtomicBool>,
    /// Whether the node has said that its part of the job is done.
    is_done: Arc<AtomicBool>,
    /// Whether `take_exit` has returned its exit.
    is_taken: bool,
    /// The threads that read its output share this until they end.
    is_read: Arc<()>,
    /// Lines for the process; `None` once the pipe to it is closed.
    lines: Option<Arc<LineQueue>>,
    tail: Arc<Mutex<Tail>>,
}

impl Child {
    /// Starts the process of a node, with `files`, if given, in place of pipes. If `has_input`, a
    /// process on this machine gets the standard input of this one. Must be called from a thread
    /// that lives as long as the job: without files, each process asks the kernel to kill it when
    /// that thread ends.
    pub(super) fn start(
        origin: Origin,
        mut command: Command,
        outlets: &Outlets,
        files: Option<&NodeFiles>,
        has_input: bool,
    ) -> io::Result<Self> {
        let is_remote = origin.address.is_some();
        let (node_end, writer) = match files {
            None => channel::open(&mut command, is_remote)?,
            Some(files) => channel::open_named(&mut command, is_remote, &files.input)?,
        };
        if has_input && !is_remote {
            command.stdin(Stdio::inherit());
        }
        match files.map(|files| &files.streams) {
            None => command.stdout(Stdio::piped()).stderr(Stdio::piped()),
            Some([out, err]) => command.stdout(out.open_to_append()?).stderr(err.open_to_append()?),
        };
        let mut process = command.process_group(0).spawn()?;
        drop((node_end, command));
        let pipes = (process.stdout.take(), process.stderr.take());
        let mut child = Self::of(Process::own(process), files.is_some());
        let connected = child.write(writer, outlets).and_then(|()| match (files, pipes) {
            (Some(files), _) => child.follow(origin, files, Default::default(), outlets),
            (None, (Some(out), Some(err))) => child.read(origin, out, err, outlets),
            (None, _) => Err(io::Error::other("a pipe is missing")),
        });
        if let Err(error) = connected {
            child.kill();
            return Err(error);
        }
        Ok(child)
    }

    /// Adopts the process that another launcher has started.
    pub(super) fn adopt(
        origin: Origin,
        process: ProcessId,
        outlets: &Outlets,
        files: &NodeFiles,
    ) -> io::Result<Self> {
        let mut child = Self::of(Process::adopt(process, outlets.events.clone())?, true);
        match channel::open_to_write(&files.input) {
            Ok(writer) => child.write(writer, outlets)?,
            // It may end at this moment.
            Err(_) if child.process.exit().is_some() => {}
            Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
        child.follow(origin, files, Default::default(), outlets)?;
        Ok(child)
    }

    /// Starts a kept node, or attends to one, as the order of the command says; `start` is the
    /// content of that order. `mirror` copies what the node prints into `files`.
    pub(super) fn kept(
        (origin, name): (Origin, String),
        (command, start): (BridgeCommand, Vec<u8>),
        (mirror, files): (Mirror, &NodeFiles),
        slots: Arc<Slots>,
        outlets: &Outlets,
    ) -> io::Result<Self> {
        let tail = Arc::<Mutex<Tail>>::default();
        let live_from = mirror.live_from();
        let notes = {
            let (outlets, tail) = (outlets.clone(), tail.clone());
            move || Reader {
                origin,
                outlets: outlets.clone(),
                tail: Some(tail.clone()),
                is_done: Arc::default(),
                is_saved: false,
                is_read: None,
                demux: OutputDemux::default(),
                controls: 0,
                is_old: false,
            }
        };
        let named = (origin.node, name);
        let bridge = Bridge::open(named, command, start, mirror, slots, outlets, notes)?;
        let mut child = Self::of(Process::Kept(bridge), true);
        child.tail = tail;
        child.follow(origin, files, live_from, outlets)?;
        Ok(child)
    }

    /// The bridge to a kept node.
    pub(super) fn bridge(&self) -> Option<&Bridge> {
        match &self.process {
            Process::Kept(bridge) => Some(bridge),
            Process::Own { .. } | Process::Adopted { .. } | Process::Task(_) => None,
        }
    }

    /// Attends to the task of a node, and reads its output from these pipes.
    pub(super) fn of_task(
        origin: Origin,
        task: Arc<Task>,
        [out, err]: [PipeReader; 2],
        outlets: &Outlets,
    ) -> io::Result<Self> {
        let mut child = Self::of(Process::Task(task.clone()), false);
        child.write(TaskInput(task), outlets)?;
        child.read(origin, out, err, outlets)?;
        Ok(child)
    }

    fn of(process: Process, outlives: bool) -> Self {
        Self {
            process,
            outlives,
            unwritten: Arc::default(),
            is_over: Arc::default(),
            is_done: Arc::default(),
            is_taken: false,
            is_read: Arc::default(),
            lines: None,
            tail: Arc::default(),
        }
    }

    fn write(
        &mut self,
        mut writer: impl Write + Send + 'static,
        outlets: &Outlets,
    ) -> io::Result<()> {
        let (lines, incoming) = LineQueue::new(self.unwritten.clone());
        self.lines = Some(Arc::new(lines));
        let (unwritten, events) = (self.unwritten.clone(), outlets.events.clone());
        spawn("lines", move || {
            for line in incoming {
                let written = writer.write_all(line.as_bytes()).and_then(|()| writer.flush());
                if unwritten.fetch_sub(1, Ordering::SeqCst) == 1 {
                    // The launcher may have ended already.
                    let _ = events.send(Event::Written);
                }
                if written.is_err() {
                    return;
                }
            }
        })
    }

    /// Whether lines for the process have yet to be written.
    pub(super) fn is_written_to(&self) -> bool {
        let has_unwritten = match self.bridge() {
            Some(bridge) => bridge.is_written_to(),
            None => self.unwritten.load(Ordering::SeqCst) > 0,
        };
        has_unwritten && !self.is_over()
    }

    fn follow(
        &self,
        origin: Origin,
        files: &NodeFiles,
        live_from: [Arc<AtomicU64>; 2],
        outlets: &Outlets,
    ) -> io::Result<()> {
        let [out, err] = &files.streams;
        let [live_out, live_err] = live_from;
        let open = |stream| Followed::open(stream, files.log_limit, self.is_over.clone());
        let (out, err) = (open(out)?.live_from(live_out), open(err)?.live_from(live_err));
        self.read(origin, out, err, outlets)
    }

    fn read(
        &self,
        origin: Origin,
        out: impl Source + Send + 'static,
        err: impl Source + Send + 'static,
        outlets: &Outlets,
    ) -> io::Result<()> {
        let reader = |tail| Reader {
            origin,
            outlets: outlets.clone(),
            tail,
            is_done: self.is_done.clone(),
            is_saved: self.outlives,
            is_read: Some(self.is_read.clone()),
            demux: OutputDemux::default(),
            controls: 0,
            is_old: false,
        };
        let (of_out, of_err) = (reader(None), reader(Some(self.tail.clone())));
        spawn("stdout", move || of_out.read(out))?;
        spawn("stderr", move || of_err.read(err))
    }

    /// Returns the process id; `None` if the process runs on another machine.
    pub(super) fn pid(&self) -> Option<u32> {
        self.process.pid()
    }

    /// Returns the id by which another launcher recognises the process.
    pub(super) fn id(&self) -> Option<ProcessId> {
        self.process.id()
    }

    /// Whether the process runs, as far as this launcher knows.
    pub(super) fn is_running(&self) -> bool {
        !self.is_over()
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Queues a line to be written to the process.
    pub(super) fn tell(&self, line: String) {
        if let Some(bridge) = self.bridge() {
            bridge.tell(line);
        } else if let Some(lines) = &self.lines {
            lines.tell(line);
        }
    }

    /// Where another thread queues lines for the process, until the pipe to it is closed.
    pub(super) fn lines(&self) -> Weak<LineQueue> {
        self.lines.as_ref().map(Arc::downgrade).unwrap_or_default()
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

    /// Kills the process group, and closes the pipe. In the other order, the node might read the
    /// end of the pipe first and end by itself, with another exit code.
    pub(super) fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.lines = None;
    }

    /// Returns how the process ended, in the first call after its end; `None` otherwise.
    pub(super) fn take_exit(&mut self) -> Option<Exit> {
        if self.is_taken {
            return None;
        }
        let mut exit = self.process.exit()?;
        self.is_over.store(true, Ordering::Release);
        self.lines = None;
        if exit == Exit::Unknown {
            if Arc::strong_count(&self.is_read) > 1 {
                // The output may say how it ended. The end of each stream causes another event.
                return None;
            }
            if self.is_done.load(Ordering::Acquire) {
                exit = Exit::Code(0);
            }
        }
        self.is_taken = true;
        Some(exit)
    }

    /// Returns the last lines that the process printed on standard error.
    pub(super) fn last_lines(&self) -> Vec<String> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner).lines()
    }

    /// Sends a signal to the process group, unless `take_exit` has noticed the end of the process.
    /// Until then the system does not reuse the id of a process that this one started.
    fn signal(&self, signal: Signal) {
        if !self.is_over() {
            self.process.signal(signal);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.outlives {
            self.kill();
        }
    }
}
