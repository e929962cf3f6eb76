//! The actor types of a job, each known by a small number on all nodes.

use crate::Actor;
use crate::codec::DecodeError;
use crate::definition::Part;
use crate::envelope::{AnyEnvelope, Batch, Envelope, EnvelopeBatch, Header, TOO_LONG};
use crate::id::{ActorId, KindId};
use crate::payload::Payload;
use crate::pe::{Core, Kind, Queue, Store, TypedQueue, TypedStore, message_bytes};
use crate::reduce::Reduction;
use crate::schema::Schema;
use crate::wire::{EncodedBatch, Multicast, MulticastMember};
use gridspan_topology::PeId;
use std::any::{Any, TypeId, type_name};
use std::collections::BTreeSet;
use std::marker::PhantomData;

/// All actor types of a job.
#[derive(Clone, Default)]
pub(crate) struct Registry {
    kinds: Vec<&'static dyn Kind>,
    deterministic: BTreeSet<KindId>,
}

impl Registry {
    pub(crate) fn add<A: Actor>(&mut self) {
        if self.find::<A>().is_none() {
            assert!(self.kinds.len() < usize::from(u16::MAX), "fewer than 65,535 actor types");
            self.kinds.push(&Typed::<A>(PhantomData));
        }
    }

    /// Adds a type whose actors may live on two PEs.
    pub(crate) fn add_deterministic<A: Actor>(&mut self) {
        self.add::<A>();
        self.deterministic.extend(self.find::<A>());
    }

    pub(crate) fn deterministic(&self) -> &BTreeSet<KindId> {
        &self.deterministic
    }

    pub(crate) fn deterministic_names(&self) -> impl Iterator<Item = &'static str> {
        self.deterministic.iter().map(|kind| self.kinds[kind.index()].name())
    }

    pub(crate) fn find<A: Actor>(&self) -> Option<KindId> {
        let position = self.kinds.iter().position(|kind| kind.actor() == TypeId::of::<A>())?;
        Some(KindId(position as u16))
    }

    pub(crate) fn kinds(&self) -> impl Iterator<Item = &'static dyn Kind> {
        self.kinds.iter().copied()
    }
}

/// An actor type, as far as those need it who do not know it.
struct Typed<A>(PhantomData<fn() -> A>);

/// The envelope itself. Envelopes wait beside the number of their receiver's type, so that one of
/// another type comes from a reference to a collection of another type.
fn open<A: Actor>(core: &mut Core, envelope: Box<dyn AnyEnvelope>) -> Option<Envelope<A::Message>> {
    let envelope = envelope.into_any().downcast();
    if envelope.is_err() {
        core.fail_type_mismatch(type_name::<A>());
    }
    Some(*envelope.ok()?)
}

impl<A: Actor> Kind for Typed<A> {
    fn actor(&self) -> TypeId {
        TypeId::of::<A>()
    }

    fn name(&self) -> &'static str {
        type_name::<A>()
    }

    fn parts(&self) -> [Part; 3] {
        let name = type_name::<A>();
        [
            Part::new(format!("messages of {name}"), &Schema::of::<A::Message>()),
            Part::new(format!("the initial values of {name}"), &Schema::of::<A::Init>()),
            Part::new(format!("states of {name}"), &Schema::of::<A>()),
        ]
    }

    fn new_queue(&self) -> Box<dyn Queue> {
        Box::new(TypedQueue::<A>::default())
    }

    fn new_store(&self, kind: KindId) -> Box<dyn Store> {
        Box::new(TypedStore::<A>::new(kind))
    }

    fn deliver(&self, core: &mut Core, batch: Box<dyn Batch>) {
        let batch: Box<dyn Any> = batch;
        let Ok(batch) = batch.downcast::<EnvelopeBatch<A::Message>>() else {
            return core.fail_type_mismatch(type_name::<A>());
        };
        core.arrive_all::<A>(*batch);
    }

    fn deliver_encoded(&self, core: &mut Core, batch: &EncodedBatch) -> Result<(), DecodeError> {
        // All are decoded before any is delivered: a malformed batch changes nothing.
        core.arrive_all::<A>(EnvelopeBatch::decode(batch.kind, batch.messages, &batch.bytes)?);
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
            let (hops, is_broadcast) = (0, false);
            let header =
                Header { to, source, sequence, priority, epoch, hops, is_broadcast, origin, after };
            core.arrive::<A>(kind, Envelope { header, message: message.clone() });
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
            core.arrive::<A>(kind, Envelope { header, message: message.clone() });
        }
        if let Some(header) = last {
            core.arrive::<A>(kind, Envelope { header, message });
        }
        Ok(())
    }

    fn envelope_bytes(&self, envelope: &dyn AnyEnvelope) -> usize {
        let known = envelope.as_any().downcast_ref::<Envelope<A::Message>>();
        known.map_or(0, |known| size_of::<Envelope<A::Message>>() + A::heap_bytes(&known.message))
    }

    fn payload_bytes(&self, message: &Payload) -> usize {
        match message {
            Payload::Bytes(bytes) => bytes.len(),
            Payload::Value(value) => {
                value.as_any().downcast_ref::<A::Message>().map_or(0, message_bytes::<A>)
            }
        }
    }

    fn arrive(&self, core: &mut Core, kind: KindId, envelope: Box<dyn AnyEnvelope>) {
        if let Some(envelope) = open::<A>(core, envelope) {
            core.arrive::<A>(kind, envelope);
        }
    }

    fn ready(&self, core: &mut Core, kind: KindId, slot: u32, envelope: Box<dyn AnyEnvelope>) {
        if let Some(Envelope { header, message }) = open::<A>(core, envelope) {
            core.push_ready::<A>(kind, slot, header.priority, message);
        }
    }

    fn forward(&self, core: &mut Core, kind: KindId, to: PeId, envelope: Box<dyn AnyEnvelope>) {
        if let Some(envelope) = open::<A>(core, envelope) {
            core.put_out::<A>(to, kind, &envelope.header, envelope.message);
        }
    }

    fn envelope(
        &self,
        header: Header,
        message: Payload,
    ) -> Result<Box<dyn AnyEnvelope>, DecodeError> {
        Ok(Box::new(Envelope::<A::Message> { header, message: message.open()? }))
    }

    fn decode_envelope(&self, bytes: &[u8]) -> Result<Box<dyn AnyEnvelope>, DecodeError> {
        match Envelope::<A::Message>::take(bytes)? {
            (envelope, []) => Ok(Box::new(envelope)),
            _ => Err(DecodeError::new(type_name::<A::Message>(), TOO_LONG)),
        }
    }

    fn copy(&self, message: &Payload) -> Payload {
        match message {
            Payload::Bytes(bytes) => Payload::Bytes(bytes.clone()),
            Payload::Value(value) => match value.as_any().downcast_ref::<A::Message>() {
                Some(message) => Payload::new(message.clone()),
                None => {
                    let mut bytes = Vec::new();
                    value.append(&mut bytes);
                    Payload::Bytes(bytes.into())
                }
            },
        }
    }

    fn reduced(&self, reduction: Reduction) -> Option<Payload> {
        A::reduced(reduction).map(Payload::new)
    }
}
