//! The state of the bridge to a kept node, shared by the launcher and the threads of the bridge.

use super::bridge_command::kill;
use super::event::{Event, Exit};
use super::reader::Outlets;
use super::report::Report;
use gridspan::keeper::{Attendance, LauncherId, NodeSignal, ToBridge};
use gridspan_topology::NodeId;
use std::collections::VecDeque;
use std::process::Child;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Time that `ssh` has to end after its output.
pub(super) const END_PATIENCE: Duration = Duration::from_secs(1);
/// Pause before each connection attempt after the first ones: while the node counts as running, and
/// after it has ended for the job, which may then still need its keeper.
const LONG_PAUSES: [Duration; 2] = [Duration::from_secs(8), Duration::from_secs(60)];
/// Interval between checks whether `ssh` has ended.
const LOOK: Duration = Duration::from_millis(10);

/// A frame with its content.
pub(super) type Frame = (ToBridge, Arc<[u8]>);

/// The data that the launcher and the threads of a bridge share.
pub(super) struct Shared {
    pub(super) node: NodeId,
    /// Name of the node.
    pub(super) name: String,
    pub(super) outlets: Outlets,
    state: Mutex<State>,
    changed: Condvar,
}

/// The state of a bridge.
pub(super) struct State {
    pub(super) status: Status,
    /// Frames for the bridge, while it attends to the node.
    pub(super) frames: Option<Sender<Frame>>,
    pub(super) ssh: Option<Child>,
    /// Lines that the node has not confirmed.
    pub(super) lines: VecDeque<Arc<[u8]>>,
    /// Number of lines that the node has received; `None` until the keeper has reported it.
    pub(super) taken: Option<u64>,
    /// The last state to save, and its number.
    pub(super) save: Option<(u64, Arc<[u8]>)>,
    /// How the node ended, as far as the job is concerned.
    pub(super) exit: Option<Exit>,
    /// Whether the keeper has reported the end of the node's process.
    has_ended: bool,
    /// Whether the node is killed as soon as it can be reached.
    pub(super) is_unwanted: bool,
}

/// Whether the keeper can be reached.
pub(super) enum Status {
    /// A bridge starts the node.
    Starts,
    /// The keeper has been out of reach since this time.
    Unconnected(Instant),
    Attends,
    /// The keeper has accepted this other launcher; the bridge learnt that at this time.
    TakenOver(LauncherId, Instant),
    Closed,
}

impl State {
    /// Sends a frame, if there is a connection.
    pub(super) fn send(&self, frame: ToBridge, content: Arc<[u8]>) {
        if let Some(frames) = &self.frames {
            // This fails if the connection has just broken. The next one sends lines and the state
            // to save again.
            let _ = frames.send((frame, content));
        }
    }

    /// Sends the first line that the node has not received.
    pub(super) fn send_line(&self) {
        if let (Some(taken), Some(line)) = (self.taken, self.lines.front()) {
            self.send(ToBridge::Line(taken + 1), line.clone());
        }
    }

    /// Sends the last state to save.
    pub(super) fn send_save(&self) {
        if let Some((number, content)) = &self.save {
            self.send(ToBridge::Save(*number), content.clone());
        }
    }

    /// Notes the number of lines that the node has received.
    fn note_taken(&mut self, taken: u64) {
        let before = self.taken.replace(taken).unwrap_or(taken);
        for _ in before..taken {
            self.lines.pop_front();
        }
    }
}

impl Shared {
    /// Creates the state of a bridge that has yet to connect.
    pub(super) fn new(node: NodeId, name: String, outlets: Outlets, is_start: bool) -> Self {
        let state = State {
            status: if is_start { Status::Starts } else { Status::Unconnected(Instant::now()) },
            frames: None,
            ssh: None,
            lines: VecDeque::new(),
            taken: None,
            save: None,
            exit: None,
            has_ended: false,
            is_unwanted: false,
        };
        Self { node, name, outlets, state: Mutex::new(state), changed: Condvar::new() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tell(&self, event: Event) {
        // The launcher may have ended already.
        let _ = self.outlets.events.send(event);
    }

    /// Warns the user about the node.
    pub(super) fn warn(&self, text: &str) {
        let text = format!("{}: {text}", self.name);
        self.outlets.reports.push(Report::Warning { text });
    }

    /// Notes how the process of the node ended.
    pub(super) fn end(&self, exit: Exit) {
        let mut state = self.lock();
        state.has_ended = true;
        state.exit.get_or_insert(exit);
        drop(state);
        self.tell(Event::ChildrenChanged);
    }

    /// Whether the bridge needs no other connection: the node's process has ended, or the launcher
    /// has closed the bridge.
    pub(super) fn is_settled(&self) -> bool {
        let state = self.lock();
        state.has_ended || matches!(state.status, Status::Closed)
    }

    /// Whether the launcher still reads the node's output, which it does until the node ends.
    pub(super) fn takes_output(&self) -> bool {
        let state = self.lock();
        state.exit.is_none() && !matches!(state.status, Status::Closed)
    }

    /// Counts the node as ended with `exit`, unless its end is known, and kills it once it can be
    /// reached. The job may still need its keeper.
    pub(super) fn give_up(&self, exit: Exit) {
        let mut state = self.lock();
        state.is_unwanted = true;
        state.exit.get_or_insert(exit);
        drop(state);
        self.tell(Event::ChildrenChanged);
    }

    /// Ends the connection, and refuses any other.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        (state.status, state.frames) = (Status::Closed, None);
        state.ssh.iter().for_each(kill);
        drop(state);
        self.changed.notify_all();
    }

    /// The pause before a connection is opened after many attempts.
    pub(super) fn long_pause(&self) -> Duration {
        LONG_PAUSES[usize::from(self.lock().exit.is_some())]
    }

    /// Waits for this time, without a connection. Returns whether another one is wanted then.
    pub(super) fn pause(&self, pause: Duration) -> bool {
        let mut state = self.lock();
        if matches!(state.status, Status::Starts) {
            state.status = Status::Unconnected(Instant::now());
        }
        let is_open = |state: &mut State| !matches!(state.status, Status::Closed);
        let waited = self.changed.wait_timeout_while(state, pause, is_open);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !matches!(state.status, Status::Closed)
    }

    /// Notes that a connection has begun. Returns false if it is not wanted.
    pub(super) fn begin(&self, ssh: Child) -> bool {
        let mut state = self.lock();
        let is_wanted = !matches!(state.status, Status::Closed);
        if !is_wanted {
            kill(&ssh);
        }
        state.ssh = Some(ssh);
        is_wanted
    }

    /// Waits for the end of `ssh`.
    pub(super) fn finish(&self) -> Exit {
        let ssh = {
            let mut state = self.lock();
            state.frames = None;
            if matches!(state.status, Status::Attends) {
                state.status = Status::Unconnected(Instant::now());
            }
            state.ssh.take()
        };
        self.tell(Event::BridgeChanged);
        let Some(mut ssh) = ssh else { return Exit::Unknown };
        let until = Instant::now() + END_PATIENCE;
        while Instant::now() < until {
            if let Ok(Some(status)) = ssh.try_wait() {
                return Exit::from(status);
            }
            thread::sleep(LOOK);
        }
        kill(&ssh);
        ssh.wait().map_or(Exit::Unknown, Exit::from)
    }

    /// Notes that the keeper has accepted this launcher.
    pub(super) fn attend(&self, attendance: &Attendance, frames: &Sender<Frame>) {
        let mut state = self.lock();
        if matches!(state.status, Status::Closed) {
            return;
        }
        (state.status, state.frames) = (Status::Attends, Some(frames.clone()));
        state.note_taken(attendance.taken);
        if state.is_unwanted {
            state.send(ToBridge::Signal(NodeSignal::Kill), Arc::default());
        }
        state.send_line();
        state.send_save();
        drop(state);
        self.tell(Event::BridgeChanged);
    }

    /// Notes that the node has received a line, and sends the next one.
    pub(super) fn take(&self, taken: u64) {
        let mut state = self.lock();
        state.note_taken(taken);
        state.send_line();
        let is_last = state.lines.is_empty();
        drop(state);
        if is_last {
            self.tell(Event::Written);
        }
    }
}
