//! Numbering of broadcasts: all members of a collection handle its broadcasts in one order.
//!
//! A broadcast arrives here with its message, and the coordinator numbers it and sends it to every
//! PE; or its sender sends the message to every PE, and the coordinator sends only the number. The
//! coordinator handles the requests of a sender in the order in which they were made. While a PE
//! has the right to number (`sequencer`), or an insertion is in progress, requests for a number
//! wait. Insertions take part in this order: a new member starts with the broadcast that gets the
//! next number.

use super::machine::Coordinator;
use super::state::broadcasts::{BroadcastRequest, WaitingInsertion, WaitsForNumber};
use crate::address::id::{ActorId, CollectionId};
use crate::message::payload::Payload;
use crate::message::{
    Asked, BroadcastOrder, Control, Earlier, Insertion, MemberRecord, SequencerRight, Wanted,
};
use crate::pe::{Accounted, broadcasts_of};
use gridspan_topology::PeId;
use std::collections::VecDeque;

/// Describes the sender of the runtime's own broadcasts, such as the results of reductions.
pub(super) fn by_runtime(collection: CollectionId) -> Asked {
    Asked { source: broadcasts_of(collection), count: 0, earlier: Earlier::default() }
}

impl Coordinator {
    /// Handles a new request. While a PE has the right to number, everything that needs a number
    /// waits in the order of arrival.
    pub(super) fn handle_broadcast_request(
        &mut self,
        (from, is_alone): (PeId, bool),
        collection: CollectionId,
        request: BroadcastRequest,
    ) {
        let Some(state) = self.state(collection) else {
            return self.fail_no_collection(collection);
        };
        state.sequencer.note(from, is_alone);
        let is_away = self.recall_right(collection);
        let source = request.asked.source;
        if let Wanted::Number(travel) = &request.wanted {
            self.note_travel(*travel);
        }
        let request = self.keep_request(request);
        if is_away {
            return self.await_number(collection, WaitsForNumber::Request(request));
        }
        if self.sort_request(collection, request) {
            self.consider_grant(collection, source, from);
        }
    }

    /// Sorts a request among the others of its sender, and accepts those that are next in the
    /// sender's order. Returns whether no request of the sender is left.
    fn sort_request(
        &mut self,
        collection: CollectionId,
        request: Accounted<BroadcastRequest>,
    ) -> bool {
        let Asked { source, count, .. } = request.asked;
        let order = self.requests.order((collection, source), &self.budget);
        order.early.insert(count, request);
        self.accept_ready(collection, source)
    }

    /// Accepts the requests that are next in their sender's order. Returns whether no request of
    /// the sender is left.
    fn accept_ready(&mut self, collection: CollectionId, source: ActorId) -> bool {
        let order = self.requests.order((collection, source), &self.budget);
        let mut ready = Vec::new();
        while let Some(next) = order.accepted.checked_add(1)
            && let Some(request) = order.early.remove(&next)
        {
            order.accepted = next;
            ready.push(request);
        }
        let is_last = order.early.is_empty();
        for request in ready {
            self.accept_broadcast(collection, request.into_inner());
        }
        is_last
    }

    /// Numbers a broadcast, once no PE has the right to number and no insertion is in progress.
    pub(super) fn accept_broadcast(&mut self, collection: CollectionId, request: BroadcastRequest) {
        let is_away = self.recall_right(collection);
        let Some(state) = self.state(collection) else { return };
        if request.asked.count == 0 {
            state.sequencer.break_row();
        }
        match is_away || state.inserting > 0 {
            true => {
                let request = self.keep_request(request);
                self.await_number(collection, WaitsForNumber::Broadcast(request));
            }
            false => self.number_broadcast(collection, request),
        }
    }

    fn number_broadcast(&mut self, collection: CollectionId, request: BroadcastRequest) {
        let Some(state) = self.state(collection) else { return };
        let number = state.broadcasts;
        state.broadcasts += 1;
        let BroadcastRequest { kind, asked, wanted, priority } = request;
        let message = match wanted {
            Wanted::Message(message) => message,
            Wanted::Number(_) => {
                let Asked { source, count, .. } = asked;
                return self.post_to_all(|| Control::BroadcastNumber {
                    collection,
                    number,
                    source,
                    count,
                });
            }
        };
        let Some(copies) = self.common.kind(kind) else { return };
        let broadcast = |message| {
            let (order, asked) = (BroadcastOrder::Total(number), asked.clone());
            Control::Broadcast { kind, collection, order, asked, message, priority }
        };
        let mut here = self.pes_here();
        let Some(last) = here.next_back() else { return };
        for pe in here {
            self.post(pe, broadcast(copies.copy(&message)));
        }
        let control = broadcast(message);
        self.post_to_others(&control);
        self.post(last, control);
    }

    fn await_number(&mut self, collection: CollectionId, waiting: WaitsForNumber) {
        if let Some(state) = self.state(collection) {
            state.waiting.push_back(waiting);
        }
    }

    fn keep_request(&self, request: BroadcastRequest) -> Accounted<BroadcastRequest> {
        let kind = self.common.kind(request.kind);
        let message = match (&request.wanted, kind) {
            (Wanted::Message(message), Some(kind)) => kind.payload_bytes(message),
            _ => 0,
        };
        let bytes = message + request.asked.earlier.bytes();
        self.budget.keep(request, size_of::<BroadcastRequest>() + bytes)
    }

    /// Handles a request to insert a member. The member takes the broadcasts that are numbered from
    /// then on.
    pub(super) fn handle_insert_request(&mut self, id: ActorId, init: Payload, at: PeId) {
        let is_away = self.recall_right(id.collection);
        let home = self.home(id);
        let (Some(state), Some(home)) = (self.collections.get_mut(&id.collection), home) else {
            return self.fail_no_collection(id.collection);
        };
        // The insertion waits behind the broadcasts that wait, because the new member must not take
        // them.
        if is_away || !state.waiting.is_empty() {
            let bytes = size_of::<WaitingInsertion>() + init.wire_len();
            let insertion = self.budget.keep(WaitingInsertion { id, init, at }, bytes);
            return state.waiting.push_back(WaitsForNumber::Insertion(insertion));
        }
        state.inserting += 1;
        let record = MemberRecord {
            reductions: state.reductions.join(),
            syncs: state.syncs.join_on_the_way(),
            broadcasts: state.broadcasts,
            ..MemberRecord::default()
        };
        let insertion = Insertion { id, init, at, epoch: 0, record, held: Vec::new() };
        self.post(home, Control::Insert(Box::new(insertion)));
    }

    /// Takes back the right to number, and continues with the requests that waited for it.
    pub(super) fn handle_right_returned(
        &mut self,
        collection: CollectionId,
        right: &SequencerRight,
    ) {
        let Some(state) = self.state(collection) else { return };
        if !state.sequencer.returned(right.term, right.next) {
            return;
        }
        state.broadcasts = right.next;
        // The holder may have numbered requests whose successors arrived here early, before the
        // grant. These successors are accepted first.
        let waiting = std::mem::take(&mut state.waiting);
        for (&source, &numbered) in &right.numbered {
            let order = self.requests.order((collection, source), &self.budget);
            order.accepted = order.accepted.max(numbered);
            self.accept_ready(collection, source);
        }
        self.release(collection, waiting);
    }

    /// Continues with the requests that waited for an insertion or for the right to number.
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
                WaitsForNumber::Insertion(insertion) => {
                    let WaitingInsertion { id, init, at } = insertion.into_inner();
                    self.handle_insert_request(id, init, at);
                }
            }
        }
    }
}
