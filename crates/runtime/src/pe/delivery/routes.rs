//! Routes: the PE to which a message goes, as far as this PE knows the receiver's place.

use super::directory::{Place, Route};
use crate::Actor;
use crate::address::id::{ActorId, KindId, MAIN_PE};
use crate::message::Control;
use crate::message::envelope::{AnyEnvelope, Header};
use crate::pe::core::Core;
use gridspan_topology::PeId;

impl Core {
    /// The route to an actor. While the collection is not known here, the route leads to main's PE,
    /// which knows the homes of its members.
    pub(crate) fn route(&self, id: ActorId) -> Route {
        self.route_of(id, self.resident(id).is_some())
    }

    /// Like [`route`](Self::route), if the caller knows whether the actor lives here. Always
    /// inlined, since every message that leaves needs a route and most need no search for it.
    #[inline(always)]
    pub(super) fn route_of(&self, id: ActorId, is_here: bool) -> Route {
        let is_settled = self.delivery.directory.is_empty()
            && self.departing.is_empty()
            && self.replicas.is_empty();
        // As far as this PE knows, no actor has moved; in many jobs none does.
        if is_settled && let Some(local) = self.collections.get(id.collection) {
            return Route::to(if is_here { self.me } else { self.home_in(local, id.key) }, 0);
        }
        self.known_route(id, is_here)
    }

    #[inline(never)]
    fn known_route(&self, id: ActorId, is_here: bool) -> Route {
        if is_here || self.departing.contains_key(&id) {
            return self.replicas.route(id, self.me).unwrap_or(Route::to(self.me, 0));
        }
        let place = self.delivery.directory.place(id);
        place.map_or_else(|| Route::to(self.home(id).unwrap_or(MAIN_PE), 0), Place::route)
    }

    /// Puts a message into the outbox.
    #[inline]
    pub(crate) fn put_out<A: Actor>(
        &mut self,
        to: PeId,
        kind: KindId,
        header: &Header,
        message: A::Message,
    ) {
        if self.is_over_budget() {
            // The job is about to end; a handler that keeps sending must not take more memory.
            return self.check_budget();
        }
        let heap_bytes = A::heap_bytes(&message);
        let before = self.outbox.bytes();
        self.outbox.message(to, kind, header, message, heap_bytes);
        if self.recording.is_some() {
            self.note_put_out(to, (header, true), self.outbox.bytes() - before);
        }
    }

    /// Puts a message whose type is not known here into the outbox.
    pub(crate) fn forward(&mut self, kind: KindId, to: PeId, envelope: Box<dyn AnyEnvelope>) {
        if self.is_over_budget() {
            return self.check_budget();
        }
        let header = self.recording.is_some().then(|| *envelope.header());
        let before = self.outbox.bytes();
        if let Some(known) = self.common.kind(kind)
            && let Err(name) = known.put_out(&mut self.outbox, kind, to, envelope)
        {
            return self.fail_type_mismatch(name);
        }
        if let Some(header) = header {
            self.note_put_out(to, (&header, false), self.outbox.bytes() - before);
        }
    }

    /// Sends an actor's place to a PE.
    pub(crate) fn tell_place(&mut self, to: PeId, id: ActorId, place: Place) {
        let Place { pe, epoch, gone, replica } = place;
        self.post(to, Control::Location { id, pe, epoch, gone, replica });
    }
}
