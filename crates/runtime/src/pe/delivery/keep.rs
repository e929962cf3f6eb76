//! What a PE keeps until something before it has come: how much of it there may be.
//!
//! Messages wait for earlier ones and for broadcasts, broadcasts for messages and for earlier ones,
//! both for receivers and collections that are not known here yet. None of it is ready, and nothing
//! can be done to shorten the wait but to take what comes. So it counts towards the hard limit, at
//! which the job ends with an error, and not towards the soft one: a PE over that takes no more
//! from its inbox and holds senders back, and would never see what the rest waits for.

use super::{Accounted, AccountedBroadcast, AccountedEnvelope};
use crate::envelope::AnyEnvelope;
use crate::id::KindId;
use crate::payload::Payload;
use crate::pe::core::Core;
use crate::pe::state::BroadcastRequest;
use crate::wire::{Asked, Wanted};

impl Core {
    /// Counts a message for as long as it is kept.
    pub(in crate::pe) fn keep(
        &self,
        kind: KindId,
        envelope: Box<dyn AnyEnvelope>,
    ) -> AccountedEnvelope {
        let bytes = self.kind(kind).map_or(0, |kind| kind.envelope_bytes(&*envelope));
        self.budget.keep(envelope, bytes)
    }

    /// The same for a message to an actor whose collection is known here.
    pub(in crate::pe) fn keep_known(&self, envelope: Box<dyn AnyEnvelope>) -> AccountedEnvelope {
        let collection = envelope.header().to.collection;
        match self.collections.get(collection).map(|local| local.info.kind) {
            Some(kind) => self.keep(kind, envelope),
            None => self.budget.keep(envelope, 0),
        }
    }

    /// Counts a broadcast that has no number yet.
    pub(in crate::pe) fn keep_request(
        &self,
        request: BroadcastRequest,
    ) -> Accounted<BroadcastRequest> {
        let message = match &request.wanted {
            Wanted::Message(message) => self.payload_bytes(request.kind, message),
            Wanted::Number(_) => 0,
        };
        let bytes = message + request.asked.earlier.bytes();
        self.budget.keep(request, size_of::<BroadcastRequest>() + bytes)
    }

    /// Counts a broadcast whose turn has not come.
    pub(in crate::pe) fn keep_broadcast(
        &self,
        kind: KindId,
        broadcast: (Asked, Payload, i32),
    ) -> AccountedBroadcast {
        let bytes = self.payload_bytes(kind, &broadcast.1) + broadcast.0.earlier.bytes();
        let bytes = size_of_val(&broadcast) + bytes;
        self.budget.keep(broadcast, bytes)
    }

    /// What a message counts for that is not for one receiver.
    pub(in crate::pe) fn payload_bytes(&self, kind: KindId, message: &Payload) -> usize {
        self.kind(kind).map_or(0, |kind| kind.payload_bytes(message))
    }
}
