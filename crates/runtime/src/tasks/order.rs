//! What workers are told.

use super::frame::Lender;
use crate::Actor;
use crate::index::Ix1;
use crate::reference::Reply;
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
    /// Lent work is done.
    Done { lender: Lender, output: Bytes },
    /// The node has run dry, or has work again; to its steward.
    Look,
    /// What another node's steward says.
    Steal { from: NodeId, message: StealMessage },
    /// Tasks from another node.
    Gift { from: NodeId, gift: Gift, loans: Vec<Loan> },
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

/// The index of the worker on a PE.
pub(super) fn at(pe: PeId) -> Ix1 {
    Ix1(pe.0 as i32)
}
