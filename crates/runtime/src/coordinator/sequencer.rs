//! The right to number the broadcasts of a collection, which passes to a PE that broadcasts alone,
//! so that its broadcasts need not wait for the coordinator.
//!
//! **Start.** The coordinator numbers. When some requests in a row have come from one PE of another
//! node, it grants that PE the right, with the next number.
//!
//! **Steady state.** The holder numbers the broadcasts of senders that live there and sends them to
//! everyone itself. It numbers one only if the same sender's one before has its number: those of a
//! sender that came with requests on their way go to the coordinator, as from any other PE.
//!
//! **End.** Whatever needs a number at the coordinator recalls the right and waits for it:
//! requests, insertions, results of reductions for all members. The holder returns it with the next
//! number, and says how far it has come with each sender. So one PE at a time can number, and there
//! are no gaps. A recall that overtakes its grant is remembered by the term. Who had to return the
//! right soon needs more requests in a row for the next. A PE whose actors insert members wants no
//! right: their insertions and broadcasts are in order because both go to the coordinator. Once main
//! has inserted one, no PE does.
//!
//! What then goes on is told in `broadcasts`.
//!
//! **Failure.** The steps are counted, so that the job is not quiescent while something waits for
//! the right. A holder inside a long handler returns it afterwards.

use super::machine::Coordinator;
use crate::address::id::{ActorId, CollectionId};
use crate::message::{Control, SequencerNews, SequencerRight};
use gridspan_topology::PeId;

impl Coordinator {
    /// Grants the right to a PE whose request, of this sender, has just got its number, if it has
    /// asked alone for some time.
    pub(super) fn consider_grant(&mut self, collection: CollectionId, source: ActorId, to: PeId) {
        let layout = &self.common.layout;
        let node = layout.node_of(to);
        let is_near = node == self.node || layout.is_guest(node);
        let come = self.requests.come((collection, source));
        let Some(state) = self.collections.get_mut(&collection) else { return };
        if is_near || state.inserting > 0 || !state.waiting.is_empty() {
            return;
        }
        let next = state.broadcasts;
        let Some(term) = state.sequencer.grant(to, next) else { return };
        self.handovers += 1;
        let right = SequencerRight { term, next, come: [(source, come)].into() };
        self.post(to, Control::Sequencer { collection, news: SequencerNews::Grant(right) });
    }

    /// Asks for the right to come back, if a PE has it. Returns whether one has.
    pub(super) fn recall_right(&mut self, collection: CollectionId) -> bool {
        let Some(state) = self.state(collection) else { return false };
        let is_away = state.sequencer.is_away();
        if let Some((holder, term)) = state.sequencer.recall() {
            self.post(holder, Control::Sequencer { collection, news: SequencerNews::Recall(term) });
        }
        is_away
    }
}
