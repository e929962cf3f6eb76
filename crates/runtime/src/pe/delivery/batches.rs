//! Delivery of batches, multicasts and broadcasts to actors of one type.

use crate::Actor;
use crate::address::id::{ActorId, KindId};
use crate::message::codec::DecodeError;
use crate::message::envelope::{Batch, Envelope, EnvelopeBatch, Header};
use crate::message::payload::Payload;
use crate::message::{EncodedBatch, Multicast, MulticastMember};
use crate::pe::actor::registry::Typed;
use crate::pe::{Core, Deliver};
use std::any::{Any, type_name};

impl<A: Actor> Deliver for Typed<A> {
    fn deliver(&self, core: &mut Core, batch: Box<dyn Batch>) {
        let batch: Box<dyn Any> = batch;
        let Ok(batch) = batch.downcast::<EnvelopeBatch<A::Message>>() else {
            return core.fail_type_mismatch(type_name::<A>());
        };
        core.arrive_all::<A>(*batch);
    }

    fn deliver_encoded(&self, core: &mut Core, batch: &EncodedBatch) -> Result<(), DecodeError> {
        // Decodes all messages before delivering any: a malformed batch changes nothing.
        let EncodedBatch { kind, messages, ref bytes, is_traced } = *batch;
        core.arrive_all::<A>(EnvelopeBatch::decode(kind, messages, bytes, is_traced)?);
        Ok(())
    }

    fn multicast(
        &self,
        core: &mut Core,
        multicast: Multicast,
        members: &[MulticastMember],
    ) -> Result<(), DecodeError> {
        let Multicast { kind, collection, source, priority, after, origin, message, .. } =
            multicast;
        let message: A::Message = message.open()?;
        for member in members {
            let to = ActorId { collection, key: member.key };
            let MulticastMember { sequence, epoch, .. } = *member;
            let header =
                Header { priority, epoch, after, ..Header::new(to, source, sequence, origin) };
            core.arrive_here::<A>(kind, Envelope { header, message: message.clone() });
        }
        Ok(())
    }

    fn broadcast(
        &self,
        core: &mut Core,
        kind: KindId,
        mut headers: Vec<Header>,
        message: Payload,
    ) -> Result<(), DecodeError> {
        let message: A::Message = message.open()?;
        let last = headers.pop();
        for header in headers {
            core.arrive_here::<A>(kind, Envelope { header, message: message.clone() });
        }
        if let Some(header) = last {
            core.arrive_here::<A>(kind, Envelope { header, message });
        }
        Ok(())
    }
}
