//! The launcher's end of the bridge to a kept node (see `gridspan::keeper`).
//!
//! Lines for the node are numbered and sent one at a time, so that none is lost or repeated when
//! the connection breaks. This module does not decide how long a node may be unreachable.

use super::bridge_command::BridgeCommand;
use super::bridge_state::{Shared, Status};
use super::event::Exit;
use super::keeping::Keeping;
use super::mirror::Mirror;
use super::reader::{Outlets, Reader};
use super::slots::Slots;
use crate::small_thread::spawn;
use gridspan::keeper::{BridgeTask, LauncherId, NodeSignal, ToBridge};
use gridspan_topology::NodeId;
use std::io;
use std::process::Child;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Time that a node has to end after it was killed.
const KILL_PATIENCE: Duration = Duration::from_secs(3);

/// The bridge to a node. Dropping it ends the connection; the node goes on.
pub(super) struct Bridge {
    shared: Arc<Shared>,
    /// Id of the process that `open` has started; `None` if it has started none.
    pid: Option<u32>,
}

impl Bridge {
    /// Starts a bridge, which starts the node or attends to it, and copies what the node prints.
    /// `notes` creates a reader of the standard error of `ssh`.
    pub(super) fn open(
        (node, name): (NodeId, String),
        mut command: BridgeCommand,
        content: Vec<u8>,
        mirror: Mirror,
        slots: Arc<Slots>,
        outlets: &Outlets,
        notes: impl Fn() -> Reader + Send + 'static,
    ) -> io::Result<Self> {
        // This thread starts the process, so that nodes start one after the other (see `pacing`)
        // and an error shows at once.
        let first = match command.order.task {
            BridgeTask::Start => Some(command.open()?),
            _ => None,
        };
        let pid = first.as_ref().map(Child::id);
        let shared = Shared::new(node, name, outlets.clone(), first.is_some());
        let shared = Arc::new(shared);
        let keeping = Keeping { shared: shared.clone(), command, content, mirror, slots };
        spawn("bridge", move || keeping.run(first, notes))?;
        Ok(Self { shared, pid })
    }

    /// Returns the id of the process that `open` has started; `None` if it has started none.
    pub(super) fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// Queues a line for the node.
    pub(super) fn tell(&self, line: String) {
        let mut state = self.shared.lock();
        state.lines.push_back(line.into_bytes().into());
        if state.lines.len() == 1 {
            state.send_line();
        }
    }

    /// Whether the node has yet to confirm a line.
    pub(super) fn is_written_to(&self) -> bool {
        !self.shared.lock().lines.is_empty()
    }

    /// Lets the keeper save what another launcher needs, now or when it can be reached.
    pub(super) fn save(&self, number: u64, state: Arc<[u8]>) {
        let mut shared = self.shared.lock();
        shared.save = Some((number, state));
        shared.send_save();
    }

    /// Sends SIGTERM to the processes of the node, if it can be reached.
    pub(super) fn ask(&self) {
        self.shared.lock().send(ToBridge::Signal(NodeSignal::Term), Arc::default());
    }

    /// Kills the processes of the node. If the node cannot be reached, or does not end in
    /// [`KILL_PATIENCE`], gives it up.
    pub(super) fn kill(&self) {
        let state = self.shared.lock();
        if state.exit.is_some() {
            return;
        }
        let is_connected = state.frames.is_some();
        state.send(ToBridge::Signal(NodeSignal::Kill), Arc::default());
        drop(state);
        let shared = self.shared.clone();
        let wait = move || {
            thread::sleep(KILL_PATIENCE);
            shared.give_up(Exit::Unreachable);
        };
        if !is_connected || spawn("kill", wait).is_err() {
            self.shared.give_up(Exit::Unreachable);
        }
    }

    /// Kills the processes of the node as soon as it can be reached. The bridge stays, because the
    /// job may need the keeper.
    pub(super) fn kill_later(&self) {
        let mut state = self.shared.lock();
        state.is_unwanted = true;
        state.send(ToBridge::Signal(NodeSignal::Kill), Arc::default());
    }

    /// Counts the node as ended with `exit`, unless its end is known.
    pub(super) fn give_up(&self, exit: Exit) {
        self.shared.give_up(exit);
    }

    /// How the node ended; `None` until it has ended and all its output is copied.
    pub(super) fn exit(&self) -> Option<Exit> {
        self.shared.lock().exit
    }

    /// Whether the keeper can be reached.
    pub(super) fn is_connected(&self) -> bool {
        matches!(self.shared.lock().status, Status::Attends)
    }

    /// Returns since when the keeper cannot be reached; `None` if it can, or if the node's end is
    /// known.
    pub(super) fn unreachable_since(&self) -> Option<Instant> {
        let state = self.shared.lock();
        match &state.status {
            Status::Unconnected(since) if state.exit.is_none() => Some(*since),
            _ => None,
        }
    }

    /// The launcher that the keeper has accepted instead, and since when that is known.
    pub(super) fn taken_over(&self) -> Option<(LauncherId, Instant)> {
        match &self.shared.lock().status {
            Status::TakenOver(launcher, since) => Some((launcher.clone(), *since)),
            _ => None,
        }
    }

    /// Lets the keeper forget the node, whose end is known.
    pub(super) fn forget(&self) {
        self.shared.lock().send(ToBridge::Forget, Arc::default());
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.shared.close();
    }
}
