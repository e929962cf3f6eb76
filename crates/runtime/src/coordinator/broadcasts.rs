//! The numbers of broadcasts: all members of a collection handle its broadcasts in one order.
//!
//! A broadcast comes here with its message, is numbered and goes to every PE; or its sender brings
//! the message to every PE, and only the number goes out from here. Requests are brought into the
//! order in which their sender made them. While a PE has the right to number (`sequencer`), and
//! while an insertion is under way, what needs a number waits.

use super::machine::Coordinator;
use super::state::broadcasts::{BroadcastRequest, WaitsForNumber};
use crate::address::id::{ActorId, CollectionId};
use crate::message::{Asked, BroadcastOrder, Control, Earlier, Wanted};
use crate::pe::{Accounted, broadcasts_of};
use gridspan_topology::PeId;

/// The sender of the runtime's own broadcasts, such as the results of reductions.
pub(super) fn by_runtime(collection: CollectionId) -> Asked {
    Asked { source: broadcasts_of(collection), count: 0, earlier: Earlier::default() }
}

impl Coordinator {
    /// Takes a request that has just come. While a PE has the right to number, all that needs a
    /// number waits in the order in which it has come.
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

    /// Brings requests into the order in which their sender made them, and accepts those whose turn
    /// has come. Returns whether none is left.
    pub(super) fn sort_request(
        &mut self,
        collection: CollectionId,
        request: Accounted<BroadcastRequest>,
    ) -> bool {
        let Asked { source, count, .. } = request.asked;
        let order = self.requests.order((collection, source), &self.budget);
        order.early.insert(count, request);
        self.accept_ready(collection, source)
    }

    /// Accepts the requests of a sender whose turn has come. Returns whether none is left.
    pub(super) fn accept_ready(&mut self, collection: CollectionId, source: ActorId) -> bool {
        let order = self.requests.order((collection, source), &self.budget);
        let mut ready = Vec::new();
        while let Some(request) = order.early.remove(&(order.come + 1)) {
            order.come += 1;
            ready.push(request);
        }
        let is_last = order.early.is_empty();
        for request in ready {
            self.accept_broadcast(collection, request.into_inner());
        }
        is_last
    }

    /// Gives a broadcast its number, once no PE has the right to and no insertion is under way.
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
}
