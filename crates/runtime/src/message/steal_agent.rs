//! Who shares the tasks of a node with other nodes: what relays know of it, and what workers tell
//! it.
//!
//! The agent of a pool on a node is part of the node's relay, so that it answers other nodes at
//! once, however long the tasks take that the node's PEs run.

use crate::message::codec::DecodeError;
use crate::message::{MembershipEvent, Stage};
use bytes::Bytes;
use gridspan_balance::stealing::{Grant, StealingLayout};
use gridspan_topology::{NodeId, PeId, Time};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Has whoever drives the network look at the relay of its node at once, on whichever thread.
pub(crate) type Nudge = Arc<dyn Fn() + Send + Sync>;

/// Shares the tasks that a pool has on a node.
pub(crate) trait StealAgent: Send {
    /// How tasks have the agent woken while they run, where time is real.
    fn connect(&mut self, nudge: &Nudge);

    /// A worker of the node says something.
    fn handle_event(&mut self, now: Time, event: StealEvent, out: &mut Vec<StealCommand>);

    /// A node that joined has reached a stage.
    fn handle_membership(&mut self, now: Time, event: MembershipEvent, out: &mut Vec<StealCommand>);

    /// The agent of another node says something. Messages between two nodes come once and in order.
    fn receive(
        &mut self,
        now: Time,
        from: NodeId,
        message: &Bytes,
        out: &mut Vec<StealCommand>,
    ) -> Result<(), DecodeError>;

    /// When it is to be [woken](Self::wake) although nothing comes.
    fn due(&self) -> Option<Time>;

    /// That time has come.
    fn wake(&mut self, now: Time, out: &mut Vec<StealCommand>);
}

/// One of two copies of a loan of a node: the one that was lent, or the backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct CopyId {
    /// Names the loan among those of its node.
    pub(crate) loan: u64,
    pub(crate) is_backup: bool,
}

/// What the workers of a node tell its agent.
pub(crate) enum StealEvent {
    /// There is a pool, and this is its agent.
    Open(Box<dyn StealAgent>),
    /// The node has run dry, has work again, or has much more or less of it.
    StockChanged,
    /// What it asked a worker to give away: so many tasks in a message, perhaps none.
    Given { to: NodeId, grant: Grant, tasks: u64, message: Bytes },
    /// One copy of a loan to that node of another site is done, and this is the other.
    Superseded { to: NodeId, copy: CopyId },
    /// Tasks that a worker wants to be rid of, in a message.
    HandOver { to: NodeId, message: Bytes },
    /// The places are known better.
    Measured(Arc<StealingLayout>),
    /// This node has joined, and is active now or draining.
    OwnStage(Stage),
    /// The pool is closed.
    Close,
}

/// What an agent wants done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StealCommand {
    /// Bring a message to the agent of another node.
    ToAgent { to: NodeId, message: Vec<u8> },
    /// Send a message to the worker on a PE of this node.
    ToWorker { pe: PeId, message: Bytes },
    /// End the job: the code of a type of tasks has panicked.
    Panicked { task: &'static str, reason: String },
}
