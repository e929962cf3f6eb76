//! What happens to the processes of a job, what is done about it, and how it all ended.

use crate::error::CliError;
use crate::signals::not_ignored;
use gridspan::control::Failure;
use gridspan_topology::NodeId;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::mpsc::Sender;
use std::thread;

/// The signals that are handled unless the launcher was started to ignore them.
const WATCHED: [i32; 5] = [SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGCHLD];

/// The exit code of a launcher that a signal has ended.
pub(super) fn code_of(signal: i32) -> u8 {
    128 + u8::try_from(signal & 0x7f).unwrap_or(0)
}

/// What has happened.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Event {
    /// A node says where it listens.
    Listening {
        /// The node.
        node: NodeId,
        /// Where.
        address: SocketAddr,
    },
    /// A node says that the job failed.
    Failed {
        /// The node that says so.
        node: NodeId,
        /// How.
        failure: Failure,
    },
    /// The job was simulated.
    Simulated,
    /// The `ssh` of a node says that the connection was dropped before it could authenticate.
    ConnectionDropped {
        /// The node.
        node: NodeId,
    },
    /// One of the two output streams of a node has ended.
    StreamEnded {
        /// The node.
        node: NodeId,
    },
    /// The process of a node has ended.
    Exited {
        /// The node.
        node: NodeId,
        /// How.
        exit: Exit,
    },
    /// Some process has ended; which, the system tells.
    ChildrenChanged,
    /// The user, or what stands for them, wants the job to end.
    Interrupted {
        /// By which signal.
        signal: i32,
    },
    /// The user wants the job to stop until it is continued.
    StopWanted,
    /// The output can be written no more, for another reason than that nobody reads it.
    OutputFailed,
    /// All that was to be printed is.
    Printed,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// With this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, signal) => Self::Signal(signal.unwrap_or(0)),
        }
    }
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Write the addresses of all nodes to each of them.
    Introduce(Vec<SocketAddr>),
    /// Ask a node to end: send SIGTERM.
    Ask(NodeId),
    /// End a node: close the pipe to it and send SIGKILL.
    Kill(NodeId),
    /// Tell the user that a process has ended.
    TellExit(NodeId, Exit),
    /// Tell the user that nodes were lost, before the others have ended.
    TellLoss(String),
    /// Tell the user that the nodes were asked to end.
    TellStopping,
}

/// How the job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// The exit code.
    pub(super) code: u8,
    /// Whether it ended because the user wanted it to.
    pub(super) is_interrupted: bool,
    /// What failed first, unless the user wanted the end.
    pub(super) blame: Option<Blame>,
}

/// Which node failed, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Blame {
    /// The node.
    pub(super) node: NodeId,
    /// What happened.
    pub(super) message: String,
    /// What to do about it.
    pub(super) hint: Option<String>,
}

/// Turns signals into events from now on.
pub(super) fn forward_signals(events: Sender<Event>) -> Result<(), CliError> {
    let failed = CliError::system("watch for signals");
    let mut signals = Signals::new(not_ignored(&WATCHED)).map_err(&failed)?;
    let forward = move || {
        for signal in signals.forever() {
            let event = match signal {
                SIGCHLD => Event::ChildrenChanged,
                SIGTSTP => Event::StopWanted,
                signal => Event::Interrupted { signal },
            };
            if events.send(event).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(forward).map_err(&failed)?;
    Ok(())
}
