//! Events of the processes of a job, commands in response, and the outcome of the job.

use crate::error::CliError;
use crate::request::{Answer, Request};
use crate::signals::not_ignored;
use gridspan::control::{Failure, Holdings, Pause};
use gridspan::keeper::NodeExit;
use gridspan_runtime::message::telemetry::TelemetrySample;
use gridspan_runtime::net::NodePublicKey;
use gridspan_runtime::net::bootstrap::{LossNotice, PauseOrder, RestoreOrder, SampleOrder};
use gridspan_runtime::{CopiesRemade, Diagnosis, ToleratedLoss};
use gridspan_topology::NodeId;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// Signals that the launcher handles, unless it was started to ignore them.
const WATCHED: [i32; 5] = [SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGCHLD];

/// How the time until the next checkpoint was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CheckpointPace {
    /// Time until the next checkpoint.
    pub(super) next_after: Duration,
    /// Cost of the last checkpoint: the time of the stop, plus the time that a PE took to encode
    /// and copy its part.
    pub(super) cost: Duration,
    /// Mean time until the job loses a node.
    pub(super) time_to_loss: Duration,
}

/// An event that the supervisor handles.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Event {
    /// A node reports where it listens.
    Listening { node: NodeId, address: SocketAddr },
    /// A node reports that the job failed.
    Failed { node: NodeId, failure: Failure },
    /// A node says which parts of checkpoints it has, and waits for a bundle.
    Holds { node: NodeId, holdings: Holdings },
    /// The job has stopped after a checkpoint.
    Paused(Pause),
    /// A checkpoint is complete.
    Checkpointed {
        checkpoint: u64,
        /// Time since it was encoded.
        age: Duration,
        /// How the time until the next one was computed, if it was.
        pace: Option<CheckpointPace>,
    },
    /// The checkpoint from which the job continues has all its copies again.
    CopiesRemade(CopiesRemade),
    /// The program makes checkpoints, so that the job can go on after a loss.
    Recovers,
    /// The coordinator of the job decides whether the job goes on without a lost node.
    RepeatsTasks,
    /// The job goes on without a lost node, whose number is that in the present run.
    Tolerated(ToleratedLoss),
    /// SIGTERM has requested a node to leave the job.
    Leaving { node: NodeId },
    /// The job cannot be stopped for a change of its nodes.
    Unchangeable { reason: String },
    /// Another process of the user requests something.
    Requested {
        /// Number of the request, for the answer.
        id: u64,
        request: Request,
    },
    /// The process of a node runs, and takes part in a diagnosis.
    Awake {
        node: NodeId,
        /// Number of the diagnosis.
        number: u64,
        /// The nodes of the present run that it suspects, with the seconds of their silence.
        silent: Vec<(NodeId, u64)>,
    },
    /// The coordinator of the job has found out what the job waits for.
    Diagnosed {
        /// Number of the diagnosis.
        number: u64,
        diagnosis: Box<Diagnosis>,
    },
    /// The node of main answers a request for a sample of the job's counters.
    Sampled {
        /// Number of the request.
        number: u64,
        /// The latest sample, if there is one.
        sample: Option<Box<TelemetrySample>>,
    },
    /// The job was simulated.
    Simulated,
    /// The task of a node has enrolled, and waits for its bundle.
    Enrolled {
        node: NodeId,
        /// The key that the task has made for the node.
        key: NodePublicKey,
    },
    /// A task was refused, because another process has enrolled as its node.
    EnrolledTwice { node: NodeId },
    /// A task that this launcher has started was refused.
    TaskRefused {
        /// The nodes of its `srun` whose tasks have not enrolled.
        nodes: Vec<NodeId>,
        reason: String,
    },
    /// The `ssh` of a node reports that the connection was dropped before it could authenticate.
    ConnectionDropped { node: NodeId },
    /// One of the two output streams of a node has ended.
    StreamEnded { node: NodeId },
    /// The process of a node has ended.
    Exited {
        node: NodeId,
        /// How it ended.
        exit: Exit,
    },
    /// A process has ended; the signal does not tell which.
    ChildrenChanged,
    /// All lines for a process have been written.
    Written,
    /// The keeper of a node has saved the state of this number.
    Saved { node: NodeId, number: u64 },
    /// The witness has settled on a half of the members of the run at a position.
    Settled {
        /// The position.
        run: usize,
        /// The half, or why it is not known.
        half: Result<BTreeSet<NodeId>, String>,
    },
    /// A bridge to a node has connected, or has broken.
    BridgeChanged,
    /// A reader waits until the launcher has handled the reader's last event and saved the result.
    Read(Waiting),
    /// The user, or a signal on their behalf, requests the end of the job.
    Interrupted { signal: i32 },
    /// The user requests that the job stops until it is continued.
    StopWanted,
    /// Output can no longer be written, although its reader has not closed it.
    OutputFailed,
    /// All output is printed.
    Printed,
}

/// A reader that waits while this value, or a copy of it, exists.
#[derive(Clone, Debug)]
pub(super) struct Waiting(Arc<Sender<()>>);

impl Waiting {
    /// Creates a value, and the receiver that its drop disconnects.
    pub(super) fn new() -> (Self, Receiver<()>) {
        let (kept, dropped) = channel();
        (Self(Arc::new(kept)), dropped)
    }
}

impl PartialEq for Waiting {
    /// Whether the same reader waits.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// With this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// In a way that this launcher cannot know, since it did not start the process.
    Unknown,
    /// It has never run, since its `srun` has ended before.
    NotStarted,
    /// It may still run, but its host could not be reached for a while.
    Unreachable,
    /// It may still run, but another launcher attends to it.
    TakenOver,
}

impl From<NodeExit> for Exit {
    fn from(exit: NodeExit) -> Self {
        match exit {
            NodeExit::Code(code) => Self::Code(code),
            NodeExit::Signal(signal) => Self::Signal(signal),
            _ => Self::Unknown,
        }
    }
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, signal) => Self::Signal(signal.unwrap_or(0)),
        }
    }
}

/// A command of the supervisor.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Command {
    /// Write the addresses of all members to each of these.
    Introduce(Vec<NodeId>, Vec<SocketAddr>),
    /// Make a node stop and say which parts of checkpoints it has.
    Recover(NodeId),
    /// Make the node of main stop the job after a checkpoint.
    Pause(NodeId, PauseOrder),
    /// Notify the node of main that another node is lost.
    TellLost(NodeId, LossNotice),
    /// Make a node take part in the diagnosis of this number.
    Diagnose(NodeId, u64),
    /// Ask the node of main for a sample of the job's counters.
    Sample(NodeId, SampleOrder),
    /// Answer a request with the observed state of the job: this sample, the number of losses, and
    /// the number of the run.
    TellObserved(u64, Option<Box<TelemetrySample>>, u64, u64),
    /// Let a stopped node end.
    Leave(NodeId),
    /// Answer a request.
    Answer(u64, Answer),
    /// Let these nodes go on from a checkpoint, or begin again if there is none, and start those of
    /// them that have no process.
    GoOn(Vec<NodeId>, Option<RestoreOrder>),
    /// Report to the user that nodes were lost and the job goes back to a checkpoint.
    TellRecovery(String),
    /// Ask a node to end: send SIGTERM.
    Ask(NodeId),
    /// End a node: close the pipe to it and send SIGKILL.
    Kill(NodeId),
    /// Report to the user that a process has ended.
    TellExit(NodeId, Exit),
    /// Report to the user that nodes were lost, before the others have ended.
    TellLoss(String),
    /// Report to the user that the nodes were asked to end.
    TellStopping,
}

/// How the job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// The exit code.
    pub(super) code: u8,
    /// Whether it ended at the user's request.
    pub(super) is_interrupted: bool,
    /// The first failure, unless the user requested the end.
    pub(super) blame: Option<Blame>,
}

/// The node that failed, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Blame {
    pub(super) node: NodeId,
    /// Description of the failure.
    pub(super) message: String,
    /// Advice on the next step.
    pub(super) hint: Option<String>,
}

/// Starts a thread that turns signals into events.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::TryRecvError;

    #[test]
    fn a_reader_waits_until_all_copies_of_its_value_are_dropped() {
        let (waiting, handled) = Waiting::new();
        let copy = waiting.clone();
        assert_eq!(waiting, copy);
        assert_ne!(waiting, Waiting::new().0, "another reader");

        drop(waiting);
        assert_eq!(handled.try_recv(), Err(TryRecvError::Empty));
        drop(copy);
        assert_eq!(handled.try_recv(), Err(TryRecvError::Disconnected));
    }
}
