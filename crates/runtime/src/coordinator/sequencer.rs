//! The right to number the broadcasts of a collection. It passes to a PE if no other PE broadcasts,
//! so that the broadcasts of this PE need not wait for the coordinator.
//!
//! **Start.** The coordinator numbers broadcasts. After several consecutive requests from one PE of
//! another node, it grants that PE the right, with the next number.
//!
//! **Steady state.** The holder numbers the broadcasts of senders that live on it, and sends them
//! to all nodes itself. It numbers a broadcast only if the sender's previous one has a number:
//! broadcasts of a sender that moved there with requests in flight go to the coordinator, as from
//! any other PE.
//!
//! **End.** When the coordinator needs a number (for a request, an insertion, or a result of a
//! reduction for all members), it recalls the right and waits for it. The holder returns the right
//! with the next number and the number of requests of each sender so far. So only the coordinator
//! or one PE can number at a time, and numbers have no gaps. A PE remembers the term of a recall
//! that overtakes its grant. If a PE had to return the right soon, it needs more consecutive
//! requests to get it again. A PE whose actors insert members does not accept the right: their
//! insertions and broadcasts are in order because both go to the coordinator. Once main has
//! inserted a member, no PE accepts the right.
//!
//! `broadcasts` describes how requests continue after the return.
//!
//! **Failure.** Quiescence counts the messages of this protocol, so the job is not quiescent while
//! a request waits for the right. A holder inside a long handler returns the right afterwards.

use super::machine::Coordinator;
use crate::address::id::{ActorId, CollectionId};
use crate::message::{Control, SequencerNews, SequencerRight};
use gridspan_topology::PeId;

impl Coordinator {
    /// Grants the right to PE `to` if only this PE has made the last requests. The coordinator
    /// calls this after it has numbered a request of the PE, from sender `source`.
    pub(super) fn consider_grant(&mut self, collection: CollectionId, source: ActorId, to: PeId) {
        let layout = &self.common.layout;
        let node = layout.node_of(to);
        let is_near = node == self.node || layout.is_guest(node);
        let accepted = self.requests.accepted((collection, source));
        let Some(state) = self.collections.get_mut(&collection) else { return };
        if is_near || state.inserting > 0 || !state.waiting.is_empty() {
            return;
        }
        let next = state.broadcasts;
        let Some(term) = state.sequencer.grant(to, next) else { return };
        self.handovers += 1;
        let right = SequencerRight { term, next, numbered: [(source, accepted)].into() };
        self.post(to, Control::Sequencer { collection, news: SequencerNews::Grant(right) });
    }

    /// Recalls the right, if a PE has it. Returns whether a PE has it.
    pub(super) fn recall_right(&mut self, collection: CollectionId) -> bool {
        let Some(state) = self.state(collection) else { return false };
        let is_away = state.sequencer.is_away();
        if let Some((holder, term)) = state.sequencer.recall() {
            self.post(holder, Control::Sequencer { collection, news: SequencerNews::Recall(term) });
        }
        is_away
    }
}
