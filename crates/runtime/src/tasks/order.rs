//! What workers are told.

use super::frame::Lender;
use crate::index::Ix1;
use crate::pe::Notice;
use crate::reference::Reply;
use crate::{Actor, Context, codec};
use bytes::Bytes;
use gridspan_balance::victim::{Gift, StealMessage};
use gridspan_topology::{NodeId, PeId};
use serde::{Deserialize, Serialize};

/// What a worker is told.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) enum Order {
    /// A root from main, encoded, and where its output goes, encoded too; nothing if the pool is closed before.
    Begin { item: Bytes, reply: Reply<Option<Bytes>> },
    /// Run tasks for a while; a worker tells itself.
    Run,
    /// There is something to take in this node.
    Wake,
    /// Lent work is done, by a PE.
    Done { lender: Lender, output: Bytes, by: PeId },
    /// The node has run dry, or has work again; to its steward.
    Look,
    /// What another node's steward says.
    Steal { from: NodeId, message: StealMessage },
    /// Tasks from another node.
    Gift { from: NodeId, gift: Gift, loans: Vec<Loan> },
    /// What became of a guest; of this node, if it is one.
    Notice(Notice),
    /// Tasks that a guest hands back, for the frame that they work for.
    Return { to: Lender, loan: Loan },
    /// This node is a guest, which is to hand back what it can.
    Leave,
    /// Nobody waits for anything of that PE any more; to the first one of its node, which leaves.
    Empty { pe: PeId },
    /// The time has come that the steward waited for.
    Timeout,
    /// Contribute what was sent so far.
    Report,
    /// No more work will come.
    Close,
}

/// Tasks lent to another node that work for one frame.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Loan {
    pub(super) lender: Lender,
    /// A list of items, encoded.
    pub(super) items: Bytes,
}

impl Loan {
    /// How large it is, for the memory budget.
    pub(super) fn bytes(&self) -> usize {
        self.items.len()
    }
}

/// The actor that takes orders, one on each PE.
pub(super) trait Crew: Actor<Index = Ix1, Message = Order> {}

impl<A: Actor<Index = Ix1, Message = Order>> Crew for A {}

/// Sends an order to the worker on a PE. Between founders, and inside of a node, it is a message like others.
pub(super) fn tell<A: Crew>(to: PeId, order: Order, cx: &mut Context<'_, A>) {
    let (here, there) = (cx.node(), cx.layout().node_of(to));
    let is_visit = cx.layout().is_guest(here) || cx.layout().is_guest(there);
    let workers = cx.collection();
    if here == there || !is_visit {
        return cx.send(&workers.at(at(to)), order);
    }
    cx.core.send_errand(to, workers.id, codec::encode(&order));
}

/// The index of the worker on a PE.
pub(super) fn at(pe: PeId) -> Ix1 {
    Ix1(pe.0 as i32)
}
