//! Loans to guests, kept until their results have arrived.
//!
//! The result of such a loan comes back to a separate frame on the PE that lent the tasks. When the
//! guest is gone, that frame is closed and the tasks are queued again for another frame: a result
//! that arrives too late finds no frame, and nothing counts twice. A loan has one result, however
//! many nodes took part in it; if the guest had lent some of the tasks to others, their results do
//! not count either. The tasks are marked as [repetitions](super::lineage::Repeats), since the
//! guest may have spread the best value of the pool's bound (`bound`).
//!
//! A guest that leaves hands back tasks that it has not begun. From then on their outputs go to the
//! frame of the loan, and the loan stays in the ledger until the guest has reported the rest: if
//! the guest is lost before that, the whole loan is done again.

use super::engine::{Engine, Work};
use super::frame::{Frame, FrameId, Lender, QueuedTask};
use super::message::Loan;
use crate::message::codec::{self, DecodeError};
use bytes::Bytes;
use gridspan_topology::NodeId;
use std::collections::BTreeMap;

/// The loans that guests owe to this node. It holds the encoded tasks of each loan: at most as many
/// as one grant has.
#[derive(Default)]
pub(super) struct Ledger(BTreeMap<FrameId, Entry>);

struct Entry {
    guest: NodeId,
    items: Bytes,
}

impl Ledger {
    /// Enters a loan that is about to go to a guest, and directs its result to the PE of `engine`.
    pub(super) fn enter<W: Work>(
        &mut self,
        guest: NodeId,
        loan: &mut Loan,
        engine: &mut Engine<W>,
    ) {
        let Lender { items, .. } = loan.lender;
        // If a guest or a copy through which the loan has come is gone, no frame waits for the
        // result.
        let vias = loan.lineage.iter().copied();
        let Some(lineage) = engine.node.lineages.enter(vias, loan.repeats) else { return };
        let frame = engine.frames.borrow(loan.lender, lineage, W::loan());
        self.0.insert(frame, Entry { guest, items: loan.items.clone() });
        loan.lender = Lender { pe: engine.pe, frame, child: 0, items, copy: None };
    }

    /// Whether the frame waits for a loan to this guest.
    pub(super) fn is_owed(&self, frame: FrameId, guest: NodeId) -> bool {
        self.0.get(&frame).is_some_and(|entry| entry.guest == guest)
    }

    /// Removes the loan of a frame if `by`, which has sent a result, is the guest that owes it.
    /// Other nodes, which work on tasks that were handed back, may report to the same frame.
    pub(super) fn settle(&mut self, frame: FrameId, by: NodeId) {
        if self.0.get(&frame).is_some_and(|entry| entry.guest == by) {
            self.0.remove(&frame);
        }
    }

    /// Forgets loans of closed frames, because their tasks are orphans.
    pub(super) fn drop_orphans<W: Work>(&mut self, engine: &mut Engine<W>) {
        self.0.retain(|&frame, _| engine.frames.get(frame).is_some());
    }

    /// Queues once more the tasks that a guest owes, marked as repetitions. They go before all
    /// others, since they were the oldest when this node lent them.
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
            let lineage = lineage.rerun();
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
        // Tasks that the guest has handed back are done again with the rest.
        if !owed.is_empty() {
            engine.drop_unowned();
        }
        engine.kept.splice(..0, tokens);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::deques::Deques;
    use super::super::engine::Finished;
    use super::super::lending::lend;
    use super::super::lineage::Repeats;
    use super::super::{Merge, Search, SearchContext, Searching};
    use super::*;
    use gridspan_topology::PeId;
    use serde::{Deserialize, Serialize};
    use std::sync::Arc;

    /// A node of a tree that offers this value, unless a value as good is known.
    #[derive(Serialize, Deserialize)]
    struct Offer(i64);

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    struct Best(Option<i64>);

    impl Merge for Best {
        fn merge(&mut self, other: Self) {
            self.0 = self.0.max(other.0);
        }
    }

    impl Search for Offer {
        type Total = Best;

        fn visit(self, cx: &mut SearchContext<'_, Self>) {
            if cx.bound().is_none_or(|best| self.0 > best) {
                cx.improve(self.0);
                cx.total().merge(Best(Some(self.0)));
            }
        }
    }

    #[test]
    fn the_best_value_of_a_lost_guest_is_found_again_and_again() {
        let node = Arc::new(Deques::new(0..1));
        let mut engine = Engine::<Searching<Offer>>::new(PeId(0), 0, node.clone(), false);
        engine.submit([(Offer(9), 0), (Offer(5), 1)], Repeats::default());
        let mut ledger = Ledger::default();
        for (guest, is_rerun) in [(NodeId(7), false), (NodeId(8), true)] {
            let take = || engine.take_oldest();
            let (mut loans, _) =
                lend::<Searching<Offer>>(1, take, |_| PeId(0), &node.lineages, false);
            assert_eq!((loans.len(), loans[0].repeats.is_rerun), (1, is_rerun));
            ledger.enter(guest, &mut loans[0], &mut engine);
            // The guest has found the value and sent it to all nodes, and then it is lost.
            node.bound.learn(9);
            ledger.recall(guest, &mut engine).unwrap();
        }

        while engine.step() {}

        let total = |finished: Finished<Best>| match finished {
            Finished::Loan(_, total) | Finished::Root(_, total) => total,
        };
        let totals: Vec<Best> = engine.finished.into_iter().map(total).collect();
        // The newest task runs first, and the known value is better than the value of this task.
        assert_eq!(totals, [Best(None), Best(Some(9))]);
    }
}
