//! The right to number the broadcasts of a collection, which passes to a PE that broadcasts alone,
//! so that its broadcasts need not wait for the root.
//!
//! **Start.** The root numbers. When some requests in a row have come from one PE of another node,
//! it grants that PE the right, with the next number.
//!
//! **Steady state.** The holder numbers the broadcasts of senders that live there and sends them to
//! everyone itself. It numbers one only if the same sender's one before has its number: those of a
//! sender that came with requests on their way go to the root, as from any other PE.
//!
//! **End.** Whatever needs a number at the root recalls the right and waits for it: requests,
//! insertions, results of reductions for all members. The holder returns it with the next number,
//! and says how far it has come with each sender. So one PE at a time can number, and there are no
//! gaps. A recall that overtakes its grant is remembered by the term. Who had to return the right
//! soon needs more requests in a row for the next. A PE whose actors insert members wants no right:
//! their insertions and broadcasts are in order because both go to the root.
//!
//! **Failure.** The steps are counted, so that the job is not quiescent while something waits for
//! the right. A holder inside a long handler returns it afterwards.

use crate::id::{ActorId, CollectionId, KindId};
use crate::payload::Payload;
use crate::pe::core::Core;
use crate::pe::state::WaitsForNumber;
use crate::wire::{Asked, BroadcastOrder, Control, SequencerNews, SequencerRight};
use gridspan_topology::PeId;
use std::collections::VecDeque;

impl Core {
    /// Numbers a broadcast here, if this PE has the right, and sends it to everyone. Otherwise
    /// gives its message back.
    pub(super) fn broadcast_numbered(
        &mut self,
        (kind, collection): (KindId, CollectionId),
        (asked, has_moved): (&Asked, bool),
        message: Payload,
        priority: i32,
    ) -> Option<Payload> {
        let count = (asked.source, asked.count);
        let Some(number) = self.rights.number(collection, count, has_moved) else {
            return Some(message);
        };
        self.send_to_all(kind, message, |message| {
            let (order, asked) = (BroadcastOrder::Total(number), asked.clone());
            Control::Broadcast { kind, collection, order, asked, message, priority }
        });
        None
    }

    /// Grants the right to a PE whose request, of this sender, has just got its number, if it has
    /// asked alone for some time.
    pub(super) fn consider_grant(&mut self, collection: CollectionId, source: ActorId, to: PeId) {
        let layout = &self.common.layout;
        let node = layout.node_of(to);
        let is_near = node == layout.node_of(Self::ROOT) || layout.is_guest(node);
        let Some(root) = &mut self.root else { return };
        let come = root.requests.get(&(collection, source)).map_or(0, |order| order.come);
        let Some(state) = root.collections.get_mut(&collection) else { return };
        if is_near || state.inserting > 0 || !state.waiting.is_empty() {
            return;
        }
        let next = state.broadcasts;
        let Some(term) = state.sequencer.grant(to, next) else { return };
        self.statistics.handovers += 1;
        let right = SequencerRight { term, next, come: [(source, come)].into() };
        self.post(to, Control::Sequencer { collection, news: SequencerNews::Grant(right) });
    }

    /// Asks for the right to come back, if it is away. Returns whether it is.
    pub(super) fn recall_right(&mut self, collection: CollectionId) -> bool {
        let Some(state) = self.state(collection) else { return false };
        let is_away = state.sequencer.is_away();
        if let Some((holder, term)) = state.sequencer.recall() {
            self.post(holder, Control::Sequencer { collection, news: SequencerNews::Recall(term) });
        }
        is_away
    }

    /// News of the right to number the broadcasts of a collection.
    pub(in crate::pe) fn handle_sequencer(
        &mut self,
        collection: CollectionId,
        news: SequencerNews,
    ) {
        let returned = match news {
            SequencerNews::Grant(right) => self.rights.grant(collection, right),
            SequencerNews::Recall(term) => self.rights.recall(collection, term, self.common.fault),
            SequencerNews::Renounce => return self.give_up_right(collection),
            SequencerNews::Return(right) => return self.handle_returned(collection, &right),
        };
        self.return_right(collection, returned);
    }

    /// A member asks for an insertion, which the root brings into order with broadcasts: those that
    /// are sent from this node afterwards may not have a number before it, by whom ever the other
    /// PEs of the node are told of the insertion.
    pub(super) fn renounce_right(&mut self, collection: CollectionId) {
        if self.rights.has_renounced(collection) {
            return;
        }
        let layout = &self.common.layout;
        let (me, here) = (self.me, layout.place(layout.node_of(self.me)).pes.clone());
        for pe in here.map(PeId).filter(|&pe| pe != me) {
            self.post(pe, Control::Sequencer { collection, news: SequencerNews::Renounce });
        }
        self.give_up_right(collection);
    }

    fn give_up_right(&mut self, collection: CollectionId) {
        let right = self.rights.renounce(collection);
        self.return_right(collection, right);
    }

    fn return_right(&mut self, collection: CollectionId, right: Option<SequencerRight>) {
        if let Some(right) = right {
            let news = SequencerNews::Return(right);
            self.post(Self::ROOT, Control::Sequencer { collection, news });
        }
    }

    /// The root has the right again: what has waited for it goes on.
    fn handle_returned(&mut self, collection: CollectionId, right: &SequencerRight) {
        let Some(state) = self.state(collection) else { return };
        if !state.sequencer.returned(right.term, right.next) {
            return;
        }
        state.broadcasts = right.next;
        // What came before the right had left, and before what its sender had asked for earlier.
        let waiting = std::mem::take(&mut state.waiting);
        for (&source, &come) in &right.come {
            if let Some(order) = self.request_order((collection, source)) {
                order.come = order.come.max(come);
            }
            self.accept_ready(collection, source);
        }
        self.release(collection, waiting);
    }

    /// Takes what has waited for an insertion, or for the right to number.
    pub(super) fn release_waiting(&mut self, collection: CollectionId) {
        let Some(state) = self.state(collection) else { return };
        let waiting = std::mem::take(&mut state.waiting);
        self.release(collection, waiting);
    }

    fn release(&mut self, collection: CollectionId, waiting: VecDeque<WaitsForNumber>) {
        for waiting in waiting {
            match waiting {
                WaitsForNumber::Request(request) => drop(self.sort_request(collection, request)),
                WaitsForNumber::Broadcast(request) => {
                    self.accept_broadcast(collection, request.into_inner());
                }
                WaitsForNumber::Insertion { id, init, at } => {
                    self.handle_insert_request(id, init, at);
                }
            }
        }
    }

    /// Keeps what may not have a number yet.
    pub(super) fn await_number(&mut self, collection: CollectionId, waiting: WaitsForNumber) {
        if let Some(state) = self.state(collection) {
            state.waiting.push_back(waiting);
        }
    }
}
