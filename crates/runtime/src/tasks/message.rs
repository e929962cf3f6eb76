//! Messages between workers and agents.

use super::frame::Lender;
use super::lineage::{Repeats, Via};
use crate::address::index::Ix1;
use crate::message::codec;
use crate::message::steal_agent::CopyId;
use crate::message::steal_agent::StealEvent;
use crate::message::{Packet, Spread};
use crate::pe::PoolEvent;
use crate::pe::actor::reference::Reply;
use crate::{Actor, Context};
use bytes::Bytes;
use gridspan_balance::stealing::{Grant, StealMessage};
use gridspan_topology::{Layout, NodeId, PeId, Time};
use serde::{Deserialize, Serialize};

/// Outputs with the numbers of their tasks in a stream.
pub(crate) type Outputs = Vec<(u64, Bytes)>;

/// A message to a worker.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) enum WorkerMessage {
    /// A root from main, encoded. `reply` gets its encoded output, or `None` if the pool is closed
    /// before.
    Begin { item: Bytes, repeats: Repeats, reply: Reply<Option<Bytes>> },
    /// More tasks of a stream of main, encoded; `first` is the number of the first one.
    Feed { stream: u64, first: u64, items: Bytes },
    /// Main waits for outputs of a stream; it gets `None` if the pool is closed before.
    Collect { stream: u64, reply: Reply<Option<Outputs>> },
    /// Main asks for the best value of the pool's bound.
    Bound { reply: Reply<Option<i64>> },
    /// Main has dropped a stream.
    EndStream { stream: u64 },
    /// A task of another pool, for which a task of this one waits, is done; `None` if that pool, or
    /// one that the task waits for, is closed.
    Called { call: u64, output: Option<Bytes> },
    /// Run tasks for a while; a worker sends this message to itself.
    Run,
    /// This node has tasks to take.
    Wake,
    /// A PE has finished lent work.
    Done { lender: Lender, output: Bytes, by: PeId },
    /// Give at most `limit` tasks to another node through the agent. For a node of another site,
    /// `until` is the time at which an output could be back.
    Give { to: NodeId, limit: u64, grant: Grant, until: Option<Time> },
    /// Membership has changed, or places were measured.
    PoolEvent(PoolEvent),
    /// Tasks that a guest hands back, for the frame that they work for.
    Return { to: Lender, loan: Loan },
    /// This node drains: hand back tasks that have not begun.
    Drain,
    /// No frame waits for results of that PE any more; sent to the first PE of a node that leaves.
    Empty { pe: PeId },
    /// A guest or a copy is gone: no frame waits for tasks that have come through it.
    DropOrphans,
    /// Contribute the node's statistics.
    Report,
    /// No more work will come.
    Close,
    /// If main begins again, it hands in the further tasks of this stream again.
    Repeatable { stream: u64 },
    /// Main asks for the node's statistics, since a broadcast would not reach all nodes.
    Statistics { reply: Reply<Vec<u64>> },
    /// A root from a task of another pool, encoded. `reply` gets its encoded output, or `None` if
    /// this pool, or one that the root waits for, is closed before. `repeats`: those of the calling
    /// task.
    Call { item: Bytes, repeats: Repeats, reply: Reply<Option<Bytes>> },
    /// Lent work of a PE waits for a pool that is closed, and has no output.
    GivenUp { lender: Lender, by: PeId },
    /// A founder that is about to leave gives back a loan, with the items that it has not begun,
    /// for their lender. `output` is that of the other items.
    GiveBack { loan: Loan, output: Option<Bytes>, by: PeId },
}

impl WorkerMessage {
    /// Number of bytes that the message owns on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Self::Begin { item: bytes, .. }
            | Self::Call { item: bytes, .. }
            | Self::Feed { items: bytes, .. }
            | Self::Called { output: Some(bytes), .. }
            | Self::Done { output: bytes, .. } => bytes.len(),
            Self::Return { loan, .. } => loan.bytes(),
            Self::GiveBack { loan, output, .. } => {
                loan.bytes() + output.as_ref().map_or(0, Bytes::len)
            }
            Self::Run | Self::Wake | Self::Give { .. } | Self::PoolEvent(_) => 0,
            Self::Collect { .. }
            | Self::Bound { .. }
            | Self::EndStream { .. }
            | Self::Repeatable { .. }
            | Self::Statistics { .. }
            | Self::GivenUp { .. }
            | Self::Called { output: None, .. } => 0,
            Self::DropOrphans | Self::Drain | Self::Empty { .. } | Self::Report | Self::Close => 0,
        }
    }
}

/// A message from an agent to the agent of another node.
#[derive(Clone, Serialize, Deserialize)]
pub(super) enum AgentMessage {
    /// A message between policies.
    Steal(StealMessage),
    /// The rank of a better value of the pool's bound.
    Bound(i64),
    /// Lent tasks.
    Grant { grant: Grant, loans: Vec<Loan> },
    /// No frame waits for tasks that have come through this copy of a loan, because the other copy
    /// is done.
    Superseded(NodeId, CopyId),
}

/// Tasks lent to another node that work for one frame.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Loan {
    pub(super) lender: Lender,
    /// The guests and copies that its tasks have come through.
    pub(super) lineage: Vec<Via>,
    pub(super) repeats: Repeats,
    /// A list of items, encoded.
    pub(super) items: Bytes,
}

impl Loan {
    /// Its size in bytes, for the memory budget.
    pub(super) fn bytes(&self) -> usize {
        Self::bytes_of(self.lineage.len(), self.items.len())
    }

    /// The size of a loan with this number of guests and copies, and of bytes of items.
    pub(super) fn bytes_of(lineage: usize, items: usize) -> usize {
        (size_of::<Self>() + lineage * size_of::<Via>()).saturating_add(items)
    }

    /// Whether its result goes to a PE of `node`.
    pub(super) fn is_of(&self, layout: &Layout, node: NodeId) -> bool {
        is_of(layout, self.lender.pe, node)
    }

    /// Whether `node` may have sent the loan: its result goes to a PE of the node, or a founder
    /// passes on a loan of a founder.
    pub(super) fn is_from(&self, layout: &Layout, node: NodeId) -> bool {
        let pe = self.lender.pe;
        let is_founder = |node| !layout.is_guest(node);
        let is_passed_on =
            || layout.may_contain(pe) && is_founder(layout.node_of(pe)) && is_founder(node);
        self.is_of(layout, node) || is_passed_on()
    }
}

/// Whether a PE that another node has named may exist and belongs to `node`.
pub(super) fn is_of(layout: &Layout, pe: PeId, node: NodeId) -> bool {
    layout.may_contain(pe) && layout.node_of(pe) == node
}

/// The actor that takes these messages, one on each PE.
pub(super) trait WorkerActor: Actor<Index = Ix1, Message = WorkerMessage> {}

impl<A: Actor<Index = Ix1, Message = WorkerMessage>> WorkerActor for A {}

/// Sends a message to the worker on a PE. Between founders, and inside a node, it is an ordinary
/// message.
pub(super) fn send_to_worker<A: WorkerActor>(
    to: PeId,
    message: WorkerMessage,
    cx: &mut Context<'_, A>,
) {
    let (here, there) = (cx.node(), cx.layout().node_of(to));
    let is_visit = cx.layout().is_guest(here) || cx.layout().is_guest(there);
    let workers = cx.collection();
    if here == there || !is_visit {
        return cx.send(&workers.at(at(to)), message);
    }
    cx.core.send_worker_message(to, workers.id, codec::encode(&message));
}

/// Sends an event to the agent of the node; the event leaves before the next task runs.
pub(super) fn notify_agent<A: WorkerActor>(event: StealEvent, cx: &mut Context<'_, A>) {
    let (me, pool) = (cx.pe(), cx.collection().id);
    cx.core.outbox.packet(me, Packet::spread(Spread::StealEvent { pool, event }));
    cx.core.turn_is_over = true;
}

/// The index of the worker on a PE.
pub(super) fn at(pe: PeId) -> Ix1 {
    Ix1(pe.0 as i32)
}
