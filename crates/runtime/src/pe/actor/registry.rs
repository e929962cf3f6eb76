//! The actor types of a job, each with a small number that is the same on all nodes.

use crate::address::collection::CreateAt;
use crate::address::id::{KindId, Slot};
use crate::address::index::{ActorIndex, Ix1};
use crate::message::codec::{self, DecodeError};
use crate::message::envelope::{AnyEnvelope, Envelope, Header, TOO_LONG};
use crate::message::payload::Payload;
use crate::pe::actor::answer::TaggedAnswer;
use crate::pe::{
    Core, Kind, Merge, OnDemand, Outbox, Queue, Resizing, Store, TypedQueue, TypedStore,
    message_bytes,
};
use crate::reduce::Reduction;
use crate::schema::Schema;
use crate::schema::definition::Part;
use crate::{Actor, Context};
use gridspan_topology::PeId;
use std::any::{TypeId, type_name};
use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::sync::Arc;

/// All actor types of a job.
#[derive(Clone, Default)]
pub(crate) struct Registry {
    kinds: Vec<&'static dyn Kind>,
    deterministic: BTreeSet<KindId>,
    on_demand: BTreeMap<KindId, OnDemand>,
    resizing: BTreeMap<KindId, Resizing<Core>>,
    /// For workers of pools, the type of their tasks.
    task_names: BTreeMap<KindId, &'static str>,
}

impl Registry {
    pub(crate) fn add<A: Actor>(&mut self) {
        if self.find::<A>().is_none() {
            assert!(self.kinds.len() < usize::from(u16::MAX), "at most 65,535 actor types");
            self.kinds.push(&Typed::<A>(PhantomData));
        }
    }

    /// Adds a type of deterministic actors, which may have replicas.
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

    /// Adds a type whose members are created on demand, from the value of `init`.
    pub(crate) fn add_on_demand<A: Actor>(&mut self, at: CreateAt, init: fn(A::Index) -> A::Init) {
        self.add::<A>();
        let init = move |key| Payload::new(vec![(key, init(A::Index::from_key(key)))]);
        let rule = OnDemand { at, init: Arc::new(init) };
        self.on_demand.extend(self.find::<A>().map(|kind| (kind, rule)));
    }

    pub(crate) fn on_demand(&self) -> &BTreeMap<KindId, OnDemand> {
        &self.on_demand
    }

    pub(crate) fn on_demand_names(&self) -> impl Iterator<Item = (&'static str, CreateAt)> {
        self.on_demand.iter().map(|(kind, rule)| (self.kinds[kind.index()].name(), rule.at))
    }

    /// Adds a type whose groups can change their size: a missing member starts from the value of
    /// `init`, and several members that come to one place are merged.
    pub(crate) fn add_resizable<A: Actor<Index = Ix1>>(
        &mut self,
        init: fn(Ix1) -> A::Init,
        merge: fn(&mut A, A, &mut Context<'_, A>),
    ) {
        self.add::<A>();
        let init = move |key| Payload::new(vec![(key, init(Ix1::from_key(key)))]);
        let merge: Merge<Core> = Arc::new(move |actor, other, core, Slot { kind, index }| {
            if let (Some(actor), Ok(other)) = (actor.downcast_mut::<A>(), other.downcast::<A>()) {
                merge(actor, *other, &mut Context::new(core, kind, index));
            }
        });
        let rule = Resizing::Merge { init: Arc::new(init), merge };
        self.resizing.extend(self.find::<A>().map(|kind| (kind, rule)));
    }

    /// Adds a type whose groups keep their members if the job goes on with another number of PEs.
    pub(crate) fn add_kept<A: Actor<Index = Ix1>>(&mut self) {
        self.add::<A>();
        self.resizing.extend(self.find::<A>().map(|kind| (kind, Resizing::Keep)));
    }

    pub(crate) fn kept_names(&self) -> impl Iterator<Item = &'static str> {
        let keeps = |(_, rule): &(&KindId, &Resizing<Core>)| matches!(rule, Resizing::Keep);
        self.resizing.iter().filter(keeps).map(|(kind, _)| self.kinds[kind.index()].name())
    }

    /// Adds the type of workers for tasks of this name. Checkpoints leave out workers.
    pub(crate) fn add_workers<A: Actor>(&mut self, tasks: &'static str) {
        self.add::<A>();
        self.resizing.extend(self.find::<A>().map(|kind| (kind, Resizing::End)));
        self.task_names.extend(self.find::<A>().map(|kind| (kind, tasks)));
    }

    /// Adds a type whose members checkpoints leave out.
    pub(crate) fn add_transient<A: Actor>(&mut self) {
        self.add::<A>();
        self.resizing.extend(self.find::<A>().map(|kind| (kind, Resizing::End)));
    }

    pub(crate) fn transient_names(&self) -> impl Iterator<Item = &'static str> {
        let is_transient = |(kind, rule): &(&KindId, &Resizing<Core>)| {
            matches!(rule, Resizing::End) && !self.task_names.contains_key(kind)
        };
        self.resizing.iter().filter(is_transient).map(|(kind, _)| self.kinds[kind.index()].name())
    }

    pub(crate) fn task_names(&self) -> &BTreeMap<KindId, &'static str> {
        &self.task_names
    }

    pub(crate) fn resizing(&self) -> &BTreeMap<KindId, Resizing<Core>> {
        &self.resizing
    }

    pub(crate) fn resizable_names(&self) -> impl Iterator<Item = &'static str> {
        let merges =
            |(_, rule): &(&KindId, &Resizing<Core>)| matches!(rule, Resizing::Merge { .. });
        self.resizing.iter().filter(merges).map(|(kind, _)| self.kinds[kind.index()].name())
    }

    pub(crate) fn find<A: Actor>(&self) -> Option<KindId> {
        let position = self.kinds.iter().position(|kind| kind.actor() == TypeId::of::<A>())?;
        Some(KindId(position as u16))
    }

    pub(crate) fn kinds(&self) -> impl Iterator<Item = &'static dyn Kind> {
        self.kinds.iter().copied()
    }
}

/// An actor type behind [`Kind`], for code that does not know the type.
pub(crate) struct Typed<A>(PhantomData<fn() -> A>);

impl<A: Actor> Kind for Typed<A> {
    fn actor(&self) -> TypeId {
        TypeId::of::<A>()
    }

    fn name(&self) -> &'static str {
        type_name::<A>()
    }

    fn version(&self) -> u32 {
        A::VERSION
    }

    fn counts_work(&self) -> bool {
        A::COUNTS_WORK
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
        Box::new(TypedQueue::<A, _>::new(message_bytes::<A>))
    }

    fn new_store(&self, kind: KindId) -> Box<dyn Store> {
        Box::new(TypedStore::<A>::new(kind))
    }

    fn envelope_bytes(&self, envelope: &dyn AnyEnvelope) -> usize {
        let known = envelope.as_any().downcast_ref::<Envelope<A::Message>>();
        known.map_or(0, |known| size_of::<Envelope<A::Message>>() + A::heap_bytes(&known.message))
    }

    fn payload_bytes(&self, message: &Payload) -> usize {
        match message {
            Payload::Bytes(bytes) => bytes.len(),
            Payload::Value(value) | Payload::Traced(value, _) => {
                value.as_any().downcast_ref::<A::Message>().map_or(0, message_bytes::<A>)
            }
        }
    }

    fn put_out(
        &self,
        outbox: &mut Outbox,
        kind: KindId,
        to: PeId,
        envelope: Box<dyn AnyEnvelope>,
    ) -> Result<(), &'static str> {
        // The downcast fails only if the sender used a reference to a collection of another actor
        // type.
        let envelope = envelope.into_any().downcast::<Envelope<A::Message>>();
        let Envelope { header, message } = *envelope.map_err(|_| type_name::<A>())?;
        let heap_bytes = A::heap_bytes(&message);
        outbox.message(to, kind, &header, message, heap_bytes);
        Ok(())
    }

    fn envelope(
        &self,
        header: Header,
        message: Payload,
    ) -> Result<Box<dyn AnyEnvelope>, DecodeError> {
        Ok(Box::new(Envelope::<A::Message> { header, message: message.open()? }))
    }

    fn check_message(&self, bytes: &[u8]) -> Result<(), DecodeError> {
        codec::decode::<A::Message>(type_name::<A::Message>(), bytes).map(drop)
    }

    fn decode_envelope(&self, bytes: &[u8]) -> Result<Box<dyn AnyEnvelope>, DecodeError> {
        match Envelope::<A::Message>::take(bytes)? {
            (envelope, []) => Ok(Box::new(envelope)),
            _ => Err(DecodeError::new(type_name::<A::Message>(), TOO_LONG)),
        }
    }

    fn copy(&self, message: &Payload) -> Payload {
        let (value, trace) = match message {
            Payload::Bytes(bytes) => return Payload::Bytes(bytes.clone()),
            Payload::Value(value) => (value, None),
            Payload::Traced(value, trace) => (value, Some(*trace)),
        };
        match (value.as_any().downcast_ref::<A::Message>(), trace) {
            (Some(message), None) => Payload::new(message.clone()),
            (Some(message), Some(trace)) => Payload::new(message.clone()).with_trace(trace),
            (None, _) => Payload::Bytes(message.to_bytes()),
        }
    }

    fn reduced(&self, reduction: Reduction) -> Option<Payload> {
        A::reduced(reduction).map(Payload::new)
    }

    fn answered(&self, answer: TaggedAnswer) -> Option<Payload> {
        A::answered(answer).map(Payload::new)
    }
}
