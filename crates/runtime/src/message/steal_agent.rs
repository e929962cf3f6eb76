//! The interface between relays, workers and steal agents, which share the tasks of a node with
//! other nodes.
//!
//! The agent of a pool on a node is part of the node's relay, so that it answers other nodes at
//! once, even while long tasks run on the node's PEs.

use crate::message::codec::DecodeError;
use crate::message::{MembershipEvent, Stage};
use bytes::Bytes;
use gridspan_balance::stealing::{Grant, StealingLayout};
use gridspan_topology::{NodeId, PeId, Time};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Makes the node's network thread call the relay at once.
pub(crate) type Nudge = Arc<dyn Fn() + Send + Sync>;

/// Shares a pool's tasks on one node with other nodes.
pub(crate) trait StealAgent: Send {
    /// Sets the function with which running tasks wake the agent. Not called in virtual time.
    fn connect(&mut self, nudge: &Nudge);

    /// Handles an event from a worker of the node.
    fn handle_event(&mut self, now: Time, event: StealEvent, out: &mut Vec<StealCommand>);

    /// Handles a new stage of a guest, or of a founder that is suspended or lost.
    fn handle_membership(&mut self, now: Time, event: MembershipEvent, out: &mut Vec<StealCommand>);

    /// Handles a message from the agent of another node. Messages between two nodes arrive once and
    /// in order.
    fn receive(
        &mut self,
        now: Time,
        from: NodeId,
        message: &Bytes,
        out: &mut Vec<StealCommand>,
    ) -> Result<(), DecodeError>;

    /// Returns the time at which to [wake](Self::wake) the agent even if nothing arrives.
    fn due(&self) -> Option<Time>;

    /// Runs the work that is due at `now`.
    fn wake(&mut self, now: Time, out: &mut Vec<StealCommand>);
}

/// One of two copies of a node's loan: the one that was lent, or the backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct CopyId {
    /// Number of the loan among those of its node.
    pub(crate) loan: u64,
    pub(crate) is_backup: bool,
}

/// Events from the workers of a node to its agent.
pub(crate) enum StealEvent {
    /// A pool was opened, with this agent.
    Open(Box<dyn StealAgent>),
    /// The node has run out of tasks, has tasks again, or has many more or fewer.
    StockChanged,
    /// A worker gives the tasks that the agent asked for: `tasks` tasks in a message, perhaps none.
    Given { to: NodeId, grant: Grant, tasks: u64, message: Bytes },
    /// The output of one copy of a loan to a node of another site has arrived. `copy` is the other
    /// one, which is no longer needed.
    Superseded { to: NodeId, copy: CopyId },
    /// A worker hands over tasks to another node, in a message.
    HandOver { to: NodeId, message: Bytes },
    /// The layout has changed, because sites were measured.
    Measured(Arc<StealingLayout>),
    /// This node is a guest, and is now active or draining.
    OwnStage(Stage),
    /// The pool is closed.
    Close,
}

/// An action that an agent requests.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StealCommand {
    /// Send a message to the agent of another node.
    ToAgent { to: NodeId, message: Vec<u8> },
    /// Send a message to the worker on a PE of this node.
    ToWorker { pe: PeId, message: Bytes },
    /// End the job: the code of a task type has panicked.
    Panicked { task: &'static str, reason: String },
}
