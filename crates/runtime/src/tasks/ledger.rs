//! What is lent to guests, and kept until its result is in.
//!
//! The result of such a loan comes back to a frame of its own on the agent's PE. When the guest
//! is gone, that frame is closed and the tasks are queued again for another one: so a result that
//! comes too late finds no frame, and nothing counts twice. A loan's result is one whole, however
//! many had part in it; if the guest had lent tasks to others, their results do not count either.
//!
//! A guest that leaves hands back tasks that it has not begun. They work for the frame of their
//! loan from then on, and the loan stays here until the guest has reported the rest: should it be
//! lost before that, all of the loan is done again.

use super::engine::{Engine, Work};
use super::frame::{Frame, FrameId, Lender, QueuedTask};
use super::message::Loan;
use crate::message::codec::{self, DecodeError};
use bytes::Bytes;
use gridspan_topology::NodeId;
use std::collections::BTreeMap;

/// The loans that guests owe to this node. It holds the tasks of each, encoded: at most what one
/// grant has.
#[derive(Default)]
pub(super) struct Ledger(BTreeMap<FrameId, Entry>);

struct Entry {
    guest: NodeId,
    items: Bytes,
}

impl Ledger {
    /// Enters a loan that is about to go to a guest, and has its result come back to the PE of
    /// `engine`.
    pub(super) fn enter<W: Work>(
        &mut self,
        guest: NodeId,
        loan: &mut Loan,
        engine: &mut Engine<W>,
    ) {
        let Lender { items, .. } = loan.lender;
        // A guest that it has come through is gone since just now: nobody waits for the result.
        let Some(lineage) = engine.node.lineages.enter(loan.lineage.iter().copied()) else {
            return;
        };
        let frame = engine.frames.borrow(loan.lender, lineage, W::loan());
        self.0.insert(frame, Entry { guest, items: loan.items.clone() });
        loan.lender = Lender { pe: engine.pe, frame, child: 0, items, copy: None };
    }

    /// Whether a guest has been lent what the frame waits for.
    pub(super) fn is_owed(&self, frame: FrameId, guest: NodeId) -> bool {
        self.0.get(&frame).is_some_and(|entry| entry.guest == guest)
    }

    /// A result of a node has come to a frame, perhaps that of a loan. Others, which work on what
    /// was handed back, may report to the same frame.
    pub(super) fn settle(&mut self, frame: FrameId, by: NodeId) {
        if self.0.get(&frame).is_some_and(|entry| entry.guest == by) {
            self.0.remove(&frame);
        }
    }

    /// Forgets loans whose tasks are orphans: the frames that they come back to are closed.
    pub(super) fn drop_orphans<W: Work>(&mut self, engine: &mut Engine<W>) {
        self.0.retain(|&frame, _| engine.frames.get(frame).is_some());
    }

    /// Queues again what a guest owes, at the old end, since it was old when it was lent.
    pub(super) fn recall<W: Work>(
        &mut self,
        guest: NodeId,
        engine: &mut Engine<W>,
    ) -> Result<(), DecodeError> {
        let (owed, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.0).into_iter().partition(|(_, entry)| entry.guest == guest);
        self.0 = others;
        let mut tokens = Vec::new();
        for (frame, entry) in &owed {
            let Some(Frame { up, lineage, .. }) = engine.frames.release(*frame) else { continue };
            let items: Vec<W::Item> = codec::decode(W::name(), &entry.items)?;
            let pending = items.len() as u64;
            let frame = engine.frames.open(Frame { up, pending, lineage, state: W::loan() });
            tokens.extend(items.into_iter().map(|item| QueuedTask {
                item,
                frame,
                child: 0,
                lineage,
            }));
        }
        // What the guest has handed back of them is done again with the rest.
        if !owed.is_empty() {
            engine.drop_unowned();
        }
        engine.kept.splice(..0, tokens);
        Ok(())
    }
}
