//! The actors of one type on a PE.

use super::core::{Core, Store};
use super::delivery::message_bytes;
use crate::address::id::{ActorId, KindId, Slot};
use crate::address::index::Key;
use crate::error::JobError;
use crate::message::codec::{self, DecodeError};
use crate::message::payload::Payload;
use crate::pe::actor::upgrade::{OldState, UpgradeError};
use crate::pe::checkpoint::captured_part::CapturedPart;
use crate::pe::checkpoint::resizing::Merge;
use crate::pe::checkpoint::slice::Slice;
use crate::pe::checkpoint::unencoded_members::UnencodedMembers;
use crate::pe::members::member::{Member, NewMembers};
use crate::pe::rank::Rank;
use crate::{Actor, Context};
use bytes::Bytes;
use std::any::{Any, type_name};
use std::time::Duration;

/// The actors of type `A` on one PE, by slot.
pub(crate) struct TypedStore<A> {
    kind: KindId,
    actors: Vec<Option<A>>,
    /// The actors whose present states a checkpoint needs.
    unencoded: UnencodedMembers,
}

impl<A: Actor> TypedStore<A> {
    pub(crate) fn new(kind: KindId) -> Self {
        Self { kind, actors: Vec::new(), unencoded: UnencodedMembers::default() }
    }

    /// The actor of a slot, to be changed: if a checkpoint needs its present state, encodes it
    /// first.
    #[inline]
    fn actor_mut(&mut self, core: &mut Core, slot: u32) -> Option<&mut A> {
        if self.unencoded.must_precede_change(slot) {
            self.encode_early(core, slot);
        }
        self.actors.get_mut(slot as usize)?.as_mut()
    }

    /// Encodes the actor of a slot for a checkpoint that needs its present state.
    #[cold]
    fn encode_early(&mut self, core: &mut Core, slot: u32) {
        let begin = core.clock.as_ref().map(|clock| clock());
        // An error after a panic names the type.
        let before = core.encoding.replace(self.kind);
        let member = core.members[self.kind.index()].get(slot as usize).and_then(Option::as_ref);
        debug_assert!(member.is_some(), "a member leaves its slot before it is encoded");
        if let Some(member) = member {
            let actor = self.actors.get(slot as usize).and_then(Option::as_ref);
            self.unencoded.add_encoded(slot, member, encoded(actor));
        }
        core.encoding = before;
        if let (Some(clock), Some(begin)) = (&core.clock, begin) {
            let took = Duration::from_nanos(clock().saturating_sub(begin));
            core.checkpointing.note_early_encoding(took);
        }
    }

    fn put(&mut self, slot: u32, actor: A) {
        let slot = slot as usize;
        if self.actors.len() <= slot {
            self.actors.resize_with(slot + 1, || None);
        }
        self.actors[slot] = Some(actor);
    }

    /// Builds the actor of a slot, without putting it there.
    fn build(&self, core: &mut Core, slot: u32, init: A::Init) -> A {
        let at = Slot { kind: self.kind, index: slot };
        call(core, at, |core| A::create(init, &mut Context::new(core, at.kind, slot)))
    }
}

/// The encoded state of an actor; empty if there is none.
fn encoded<A: Actor>(actor: Option<&A>) -> Bytes {
    actor.map_or_else(Bytes::new, |actor| codec::encode(actor).into())
}

/// Calls a method of an actor other than `handle`. The error after a panic names the actor's type.
fn call<R>(core: &mut Core, slot: Slot, method: impl FnOnce(&mut Core) -> R) -> R {
    let before = core.running.replace(slot.kind);
    core.begin_actor_span(slot);
    let result = method(core);
    core.end_actor_span(slot.kind);
    core.running = before;
    result
}

impl<A: Actor> TypedStore<A> {
    /// Handles ready messages; see [`Store::dispatch`]. `RECORDED`: whether the job is recorded.
    #[inline]
    fn dispatch_all<const RECORDED: bool>(
        &mut self,
        core: &mut Core,
        rank: Rank,
        budget: u32,
    ) -> u32 {
        let mut handled = 0;
        let mut bytes = 0;
        let mut begin = core.stopwatch.as_ref().map(|stopwatch| stopwatch());
        let mut ended_ns = None;
        core.running = Some(self.kind);
        while handled < budget && core.lanes.take(rank, self.kind) {
            let Some(ready) = core.queue::<A>(self.kind).and_then(|queue| queue.pop(rank)) else {
                break;
            };
            bytes += message_bytes::<A>(&ready.message);
            handled += 1;
            if self.unencoded.must_precede_change(ready.slot) {
                // This is no time of the handler.
                self.encode_early(core, ready.slot);
                begin = core.stopwatch.as_ref().map(|stopwatch| stopwatch());
                ended_ns = None;
            }
            if RECORDED {
                core.begin_span(Slot { kind: self.kind, index: ready.slot }, rank, ended_ns);
            }
            if let Some(Some(actor)) = self.actors.get_mut(ready.slot as usize) {
                let slot = Slot { kind: self.kind, index: ready.slot };
                core.looks.current.begin(self.kind, core.id_in(slot));
                actor.handle(ready.message, &mut Context::new(core, self.kind, ready.slot));
            }
            if RECORDED {
                ended_ns = core.end_span(self.kind);
            }
            if let Some(begun) = begin {
                begin = core.note_handled(self.kind, ready.slot, begun);
            }
            // A handler's requests for its actor, such as a migration, precede the actor's next
            // message.
            if !core.requests.is_empty() || core.turn_is_over || core.outbox.is_full() {
                break;
            }
        }
        core.running = None;
        core.looks.current.end();
        core.ready_bytes -= bytes;
        core.processed += u64::from(handled);
        handled
    }
}

impl<A: Actor> Store for TypedStore<A> {
    fn dispatch(&mut self, core: &mut Core, rank: Rank, budget: u32) -> u32 {
        match core.recording {
            None => self.dispatch_all::<false>(core, rank, budget),
            Some(_) => self.dispatch_all::<true>(core, rank, budget),
        }
    }

    fn create(
        &mut self,
        core: &mut Core,
        mut new: NewMembers,
        inits: Payload,
    ) -> Result<(), JobError> {
        let inits: Vec<(Key, A::Init)> =
            inits.open().map_err(|error| JobError::Protocol(error.to_string()))?;
        for (key, init) in inits {
            let id = ActorId { collection: new.collection, key };
            let slot = core.add_member(self.kind, new.member(id));
            let actor = self.build(core, slot, init);
            self.put(slot, actor);
            core.release_awaiting(id);
        }
        Ok(())
    }

    fn divide(
        &self,
        inits: Payload,
        is_here: &dyn Fn(Key) -> bool,
    ) -> Result<(Payload, Vec<(Key, Payload)>), DecodeError> {
        let inits: Vec<(Key, A::Init)> = inits.open()?;
        let (here, elsewhere): (Vec<_>, Vec<_>) =
            inits.into_iter().partition(|(key, _)| is_here(*key));
        let alone = |(key, init)| (key, Payload::new(vec![(key, init)]));
        Ok((Payload::new(here), elsewhere.into_iter().map(alone).collect()))
    }

    fn encode(&self, slot: u32) -> Bytes {
        encoded(self.actors.get(slot as usize).and_then(Option::as_ref))
    }

    fn set_unencoded(&mut self, members: UnencodedMembers) {
        self.unencoded = members;
    }

    fn encode_members(
        &mut self,
        members: &[Option<Member>],
        part: &mut CapturedPart,
        slice: &mut Slice<'_>,
    ) -> bool {
        self.unencoded.take_encoded().iter().for_each(|member| part.add(member));
        slice.begin_type();
        while !slice.is_over(part.written())
            && let Some(slot) = self.unencoded.take_next()
        {
            let Some(member) = members.get(slot as usize).and_then(Option::as_ref) else {
                // It was on its way to another PE at the capture, which is repeated later.
                continue;
            };
            let actor = self.actors.get(slot as usize).and_then(Option::as_ref);
            let append = |state: &mut Vec<u8>| {
                if let Some(actor) = actor {
                    codec::append(actor, state);
                }
            };
            part.encode(self.unencoded.image(slot, member), append);
        }
        self.unencoded.is_any()
    }

    fn prepare_change(&mut self, core: &mut Core, slot: u32) {
        if self.unencoded.must_precede_change(slot) {
            self.encode_early(core, slot);
        }
    }

    fn is_movable(&self, slot: u32) -> bool {
        self.actors.get(slot as usize).and_then(Option::as_ref).is_none_or(A::is_movable)
    }

    fn unmovable(&self) -> u64 {
        self.actors.iter().flatten().filter(|actor| !actor.is_movable()).count() as u64
    }

    fn install(&mut self, core: &mut Core, slot: u32, state: Box<dyn Any + Send>) {
        self.put_aside(slot, state);
        self.arrived(core, slot);
    }

    fn put_aside(&mut self, slot: u32, state: Box<dyn Any + Send>) {
        if let Ok(actor) = state.downcast::<A>() {
            self.put(slot, *actor);
        }
    }

    fn decode(&self, state: &[u8]) -> Result<Box<dyn Any + Send>, DecodeError> {
        Ok(Box::new(codec::decode::<A>(type_name::<A>(), state)?))
    }

    fn upgrade(&self, old: OldState<'_>) -> Result<Box<dyn Any + Send>, UpgradeError> {
        Ok(Box::new(A::upgrade(old)?))
    }

    fn fill(&mut self, core: &mut Core, slot: u32, init: Payload) -> Result<(), JobError> {
        let inits: Vec<(Key, A::Init)> =
            init.open().map_err(|error| JobError::Protocol(error.to_string()))?;
        for (_, init) in inits {
            let actor = self.build(core, slot, init);
            self.put(slot, actor);
        }
        Ok(())
    }

    fn merge(
        &mut self,
        core: &mut Core,
        slot: u32,
        state: Box<dyn Any + Send>,
        merge: &Merge<Core>,
    ) {
        let at = Slot { kind: self.kind, index: slot };
        if let Some(actor) = self.actor_mut(core, slot) {
            call(core, at, |core| merge(actor, state, core, at));
        }
    }

    fn arrived(&mut self, core: &mut Core, slot: u32) {
        let at = Slot { kind: self.kind, index: slot };
        if let Some(actor) = self.actor_mut(core, slot) {
            call(core, at, |core| actor.arrived(&mut Context::new(core, at.kind, slot)));
        }
    }

    fn remove(&mut self, slot: u32) {
        if let Some(actor) = self.actors.get_mut(slot as usize) {
            *actor = None;
        }
    }

    fn resume_if_settled(&mut self, core: &mut Core, slot: u32) {
        let at = Slot { kind: self.kind, index: slot };
        if !core.may_resume(at) {
            return;
        }
        self.prepare_change(core, slot);
        core.leave_sync(at);
        if let Some(actor) = self.actor_mut(core, slot) {
            call(core, at, |core| actor.resume(&mut Context::new(core, at.kind, slot)));
        }
    }
}
