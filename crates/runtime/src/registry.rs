//! The actor types of a job, each known by a small number on all nodes.

use crate::Actor;
use crate::codec::DecodeError;
use crate::envelope::{AnyEnvelope, Envelope, EnvelopeBatch};
use crate::id::KindId;
use crate::parcel::Parcel;
use crate::pe::{Core, Queue, Store, TypedQueue, TypedStore};
use crate::reduce::Reduction;
use crate::route::Route;
use crate::wire::{EncodedBatch, Header, Multicast, MulticastMember};

use std::any::{TypeId, type_name};
use std::marker::PhantomData;
use std::sync::Arc;

/// All actor types of a job.
#[derive(Clone, Default)]
pub(crate) struct Registry {
    kinds: Vec<(TypeId, Arc<dyn Kind>)>,
}

impl Registry {
    pub(crate) fn add<A: Actor>(&mut self) {
        if self.find::<A>().is_none() {
            let id =
                KindId(u16::try_from(self.kinds.len()).expect("fewer than 65,536 actor types"));
            self.kinds.push((TypeId::of::<A>(), Arc::new(Typed::<A>(id, PhantomData))));
        }
    }

    pub(crate) fn find<A: Actor>(&self) -> Option<KindId> {
        let position = self.kinds.iter().position(|(id, _)| *id == TypeId::of::<A>())?;
        Some(KindId(position as u16))
    }

    pub(crate) fn kinds(&self) -> impl Iterator<Item = &Arc<dyn Kind>> {
        self.kinds.iter().map(|(_, kind)| kind)
    }
}

/// What the PE machine needs to do with actors whose type it does not know.
pub(crate) trait Kind: Send + Sync {
    fn id(&self) -> KindId;
    fn name(&self) -> &'static str;
    fn new_queue(&self) -> Box<dyn Queue>;
    fn new_store(&self) -> Box<dyn Store>;
    /// Hands each message of a batch from the network to its receiver.
    fn deliver(&self, core: &mut Core, batch: &EncodedBatch) -> Result<(), DecodeError>;
    /// Hands one message to several members that should live here.
    fn multicast(
        &self,
        core: &mut Core,
        multicast: Multicast,
        members: &[MulticastMember],
    ) -> Result<(), DecodeError>;
    /// One envelope for one receiver, from a parcel.
    fn envelope(
        &self,
        header: Header,
        message: Parcel,
    ) -> Result<Box<dyn AnyEnvelope>, DecodeError>;
    /// One envelope as it was encoded on its own.
    fn decode_envelope(&self, bytes: &[u8]) -> Result<Box<dyn AnyEnvelope>, DecodeError>;
    /// Another copy of a message.
    fn copy(&self, message: &Parcel) -> Parcel;
    /// Makes a message of a reduction's result.
    fn reduced(&self, reduction: Reduction) -> Option<Parcel>;
}

/// Why bytes are refused that hold more than they should.
const TOO_LONG: &str = "bytes after the last message";

struct Typed<A>(KindId, PhantomData<fn() -> A>);

impl<A: Actor> Kind for Typed<A> {
    fn id(&self) -> KindId {
        self.0
    }

    fn name(&self) -> &'static str {
        type_name::<A>()
    }

    fn new_queue(&self) -> Box<dyn Queue> {
        Box::new(TypedQueue::<A>::default())
    }

    fn new_store(&self) -> Box<dyn Store> {
        Box::new(TypedStore::<A>::new(self.0))
    }

    fn deliver(&self, core: &mut Core, batch: &EncodedBatch) -> Result<(), DecodeError> {
        let mut rest: &[u8] = &batch.bytes;
        let mut route = Route::begin();
        // Decode all before delivering any: a malformed batch changes nothing.
        let mut envelopes = Vec::with_capacity((batch.messages as usize).min(rest.len()));
        for _ in 0..batch.messages {
            let (envelope, tail) = Envelope::take(&mut route, rest)?;
            envelopes.push(envelope);
            rest = tail;
        }
        if !rest.is_empty() {
            return Err(DecodeError::new(type_name::<A::Message>(), TOO_LONG));
        }
        Box::new(EnvelopeBatch::<A> { kind: self.0, envelopes }).deliver_all(core);
        Ok(())
    }

    fn multicast(
        &self,
        core: &mut Core,
        multicast: Multicast,
        members: &[MulticastMember],
    ) -> Result<(), DecodeError> {
        let Multicast { collection, source, priority, origin, message, .. } = multicast;
        let message: A::Message = message.open()?;
        for member in members {
            let to = crate::id::ActorId { collection, key: member.key };
            let MulticastMember { sequence, epoch, .. } = *member;
            let header = Header { to, source, sequence, priority, epoch, hops: 0, origin };
            core.arrive(self.0, Envelope::<A> { header, message: message.clone() });
        }
        Ok(())
    }

    fn envelope(
        &self,
        header: Header,
        message: Parcel,
    ) -> Result<Box<dyn AnyEnvelope>, DecodeError> {
        Ok(Box::new(Envelope::<A> { header, message: message.open()? }))
    }

    fn decode_envelope(&self, bytes: &[u8]) -> Result<Box<dyn AnyEnvelope>, DecodeError> {
        match Envelope::<A>::take(&mut Route::begin(), bytes)? {
            (envelope, []) => Ok(Box::new(envelope)),
            _ => Err(DecodeError::new(type_name::<A::Message>(), TOO_LONG)),
        }
    }

    fn copy(&self, message: &Parcel) -> Parcel {
        match message {
            Parcel::Bytes(bytes) => Parcel::Bytes(bytes.clone()),
            Parcel::Value(value) => match value.as_any().downcast_ref::<A::Message>() {
                Some(message) => Parcel::new(message.clone()),
                None => {
                    let mut bytes = Vec::new();
                    value.append(&mut bytes);
                    Parcel::Bytes(bytes.into())
                }
            },
        }
    }

    fn reduced(&self, reduction: Reduction) -> Option<Parcel> {
        A::reduced(reduction).map(Parcel::new)
    }
}
