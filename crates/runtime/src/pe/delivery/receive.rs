//! The receiving side: messages that arrive are delivered, held, dropped or forwarded.

use super::Place;
use super::state::{DETOUR_HOLD, Delivery, Early, UNKNOWN_MEMBER_HOLD};
use super::verdict::{Reason, Receiver, Until, Verdict, verdict};
use crate::Actor;
use crate::address::id::{ActorId, COORDINATOR, CollectionId, KindId};
use crate::message::Control;
use crate::message::envelope::{AnyEnvelope, Envelope, EnvelopeBatch, Header, Series};
use crate::pe::collective::is_stream;
use crate::pe::core::Core;
use crate::pe::fault::PlantedFault;
use std::collections::BTreeSet;

impl Core {
    /// Takes a message that has arrived on this PE.
    pub(crate) fn arrive<A: Actor>(&mut self, kind: KindId, envelope: Envelope<A::Message>) {
        let Envelope { header, .. } = &envelope;
        if let Some((kind, slot)) = self.resident(header.to)
            && self.pass_at_once(kind, slot, header, 1)
        {
            return self.push_ready::<A>(kind, slot, header.priority, envelope.message);
        }
        self.arrive_any(kind, Box::new(envelope));
    }

    /// Takes all messages of a batch that has arrived on this PE.
    pub(crate) fn arrive_all<A: Actor>(&mut self, batch: EnvelopeBatch<A::Message>) {
        if self.recording.is_some() {
            return self.arrive_each::<A>(batch);
        }
        let kind = batch.kind;
        let (all, mut messages) = batch.into_series();
        for series in &all {
            let Series { first, messages: count } = series;
            let of_series = messages.by_ref().take(*count as usize);
            if let Some((kind, slot)) = self.resident(first.to)
                && self.pass_at_once(kind, slot, first, *count)
            {
                self.push_all_ready::<A>(kind, slot, first.priority, of_series);
                continue;
            }
            for (header, message) in series.headers().zip(of_series) {
                self.arrive::<A>(kind, Envelope { header, message });
            }
        }
    }

    /// Takes the messages of a batch one by one, each with its trace, while the job is recorded.
    #[cold]
    fn arrive_each<A: Actor>(&mut self, mut batch: EnvelopeBatch<A::Message>) {
        let kind = batch.kind;
        let traces = batch.take_traces();
        let mut traces = traces.iter().flat_map(|traces| traces.each());
        let (all, messages) = batch.into_series();
        for (header, message) in all.iter().flat_map(Series::headers).zip(messages) {
            self.begin_passing(traces.next());
            self.arrive::<A>(kind, Envelope { header, message });
            self.end_passing(&header);
        }
    }

    /// Takes a message that this PE sends to a member here, or a copy of a message to several
    /// members.
    pub(crate) fn arrive_here<A: Actor>(&mut self, kind: KindId, envelope: Envelope<A::Message>) {
        if self.recording.is_none() {
            return self.arrive::<A>(kind, envelope);
        }
        let header = envelope.header;
        self.begin_passing(None);
        self.arrive::<A>(kind, envelope);
        self.end_passing(&header);
    }

    /// Takes a message that has arrived or waited here, without the fast path.
    pub(crate) fn arrive_any(&mut self, kind: KindId, mut envelope: Box<dyn AnyEnvelope>) {
        let header = *envelope.header();
        if self.is_lost(&header) {
            return self.forget_cause(&header);
        }
        let resident = self.resident(header.to);
        if resident.is_some() && !self.replicas.is_empty() {
            self.pass_on(kind, &*envelope);
        }
        let receiver = match resident {
            Some(slot) => self.here(slot, &header),
            None => self.absent(header.to),
        };
        match (verdict(self.me, &header, receiver), resident) {
            (Verdict::Deliver, Some((kind, slot))) => {
                self.count((kind, slot), &header);
                self.push_any(kind, slot, envelope);
                self.release_held(kind, slot, &header);
            }
            (Verdict::Hold(until), Some(resident)) => {
                if self.hold_at_member(resident, until, envelope) {
                    self.note_repeated(&header);
                }
            }
            (Verdict::Hold(until), None) => self.hold(kind, until, envelope),
            (Verdict::Drop(Reason::Destroyed), _) if self.revives(&header) => {
                self.hold(kind, Until::Arrived, envelope);
            }
            (Verdict::Drop(Reason::Destroyed), _) => self.drop_dead_letter(kind, envelope),
            (Verdict::Drop(Reason::Repeated) | Verdict::Deliver, _) => self.note_repeated(&header),
            (Verdict::Forward { to, epoch, news }, _) => {
                if let Some(place) = news {
                    self.tell_place(header.origin, header.to, place);
                }
                let header = envelope.header_mut();
                (header.hops, header.epoch) = (header.hops.saturating_add(1), epoch);
                self.statistics.forwarded += 1;
                match to == self.me {
                    // The receiver's new place has arrived before the receiver.
                    true => self.hold(kind, Until::Arrived, envelope),
                    false => self.forward(kind, to, envelope),
                }
            }
        }
    }

    /// Whether a planted bug loses this message.
    fn is_lost(&self, header: &Header) -> bool {
        self.common.fault == PlantedFault::MessageLost
            && header.sequence == 1
            && !header.is_broadcast
            && header.source.collection != CollectionId::SYSTEM
            && !is_stream(header.source)
    }

    /// The state of a receiver that does not live here.
    fn absent(&self, id: ActorId) -> Receiver {
        match self.departing.contains_key(&id) {
            true => Receiver::Departing,
            false => Receiver::Elsewhere {
                home: self.home(id),
                place: self.delivery.directory.place(id),
            },
        }
    }

    /// The verdict on a packet for an actor that does not live here. `epoch` is the epoch of the
    /// place of the actor to which the packet was sent.
    pub(crate) fn way_to(&self, id: ActorId, epoch: u32) -> Verdict {
        let header = Header { epoch, ..Header::new(id, ActorId::system(self.me), 0, self.me) };
        verdict(self.me, &header, self.absent(id))
    }

    /// Keeps a message whose receiver does not live here.
    fn hold(&mut self, kind: KindId, until: Until, envelope: Box<dyn AnyEnvelope>) {
        let header = *envelope.header();
        let id = header.to;
        let envelope = self.keep(kind, envelope);
        match until {
            Until::Settled => {
                if let Some(departing) = self.departing.get_mut(&id) {
                    departing.arrivals.push(envelope);
                }
            }
            Until::Described => self.hold_early(id.collection, Early::Message(kind, envelope)),
            _ => {
                let is_home = self.home(id) == Some(self.me);
                let time = if is_home { UNKNOWN_MEMBER_HOLD } else { DETOUR_HOLD };
                self.delivery.hold(id, kind, self.now + time, envelope);
                if let Some(at) = self.creates(&header) {
                    self.delivery.demand(id, at);
                }
            }
        }
    }

    /// Holds a message for an actor that was accepted here and has not arrived yet.
    pub(crate) fn hold_for_arrival(&mut self, kind: KindId, envelope: Box<dyn AnyEnvelope>) {
        self.hold(kind, Until::Arrived, envelope);
    }

    /// Holds a message or control that arrived before the description of its collection. The
    /// coordinator, which knows all collections, ends the job if this one does not exist.
    pub(crate) fn hold_early(&mut self, collection: CollectionId, early: Early) {
        if self.delivery.hold_early(collection, early) {
            self.post(COORDINATOR, Control::CollectionAwaited { collection });
        }
    }

    /// Counts a repeated message, which is dropped.
    fn note_repeated(&mut self, header: &Header) {
        self.forget_cause(header);
        self.processed += 1;
        self.statistics.repeated += 1;
    }

    /// Drops a message for a member that does not exist, when its turn has come. Runs on the
    /// member's home.
    fn drop_dead_letter(&mut self, kind: KindId, envelope: Box<dyn AnyEnvelope>) {
        let header = *envelope.header();
        if header.is_broadcast || is_stream(header.source) {
            self.forget_cause(&header);
            return self.note_dropped(header.to, 1, "it was destroyed");
        }
        let envelope = self.keep(kind, envelope);
        let Delivery { tombstones, budget, .. } = &mut self.delivery;
        match tombstones.handle(self.me, envelope, budget) {
            Some(dropped) => {
                self.forget_cause(&header);
                self.note_dropped(header.to, dropped, "there is no such member");
            }
            None => self.note_repeated(&header),
        }
    }

    /// Counts dropped messages, which will never be handled, and logs them.
    pub(super) fn note_dropped(&mut self, to: ActorId, messages: u64, reason: &str) {
        self.processed += messages;
        self.statistics.dead_letters += messages;
        for _ in 0..messages {
            self.looks.note_absent(to);
            tracing::warn!(collection = to.collection.0, index = ?to.key, reason, "message dropped");
        }
    }

    /// Learns an actor's place, if it is newer, and forwards the messages that waited for it.
    pub(crate) fn learn(&mut self, id: ActorId, place: Place) {
        if self.resident(id).is_some() || self.departing.contains_key(&id) {
            return;
        }
        if self.delivery.learn(id, place) {
            self.release_awaiting(id);
        }
    }

    /// Handles again the messages that waited for an actor, and the new members that are bound to
    /// it.
    pub(crate) fn release_awaiting(&mut self, id: ActorId) {
        self.release_followers(id);
        if let Some(held) = self.delivery.take(id) {
            for envelope in held.envelopes {
                self.arrive_any(held.kind, envelope.into_inner());
            }
        }
    }

    /// Whether messages for this member wait here, on its home, for an insertion that may never be
    /// requested.
    pub(crate) fn is_stranded(&self, id: ActorId) -> bool {
        self.is_unknown(id) && !self.is_on_demand(id.collection)
    }

    /// Whether this is the home of a member that never existed, as far as this PE knows.
    pub(crate) fn is_unknown(&self, id: ActorId) -> bool {
        self.home(id) == Some(self.me) && self.delivery.directory.place(id).is_none()
    }

    /// The receivers of the messages that are stranded here.
    fn stranded(&self) -> BTreeSet<ActorId> {
        self.delivery.awaited().filter(|&id| self.is_stranded(id)).collect()
    }

    /// Counts the stranded messages, and marks them for [`drop_stranded`](Self::drop_stranded).
    pub(crate) fn report_stranded(&mut self) -> u64 {
        if !self.delivery.is_awaiting() {
            return 0;
        }
        let stranded = self.stranded();
        self.delivery.report(&stranded)
    }

    /// Drops the stranded messages that were reported last: the coordinator knows that no insertion
    /// was under way when they were reported.
    pub(crate) fn drop_stranded(&mut self) {
        let stranded = self.stranded();
        for (kind, envelope) in self.delivery.take_reported(&stranded) {
            self.drop_dead_letter(kind, envelope.into_inner());
        }
    }

    /// Handles messages whose receiver has not arrived by their deadline. PEs other than the home
    /// forward them to the home. The home drops them, but extends the deadline if it knows a place
    /// of the receiver or if messages create it.
    pub(crate) fn expire_awaiting(&mut self) {
        for id in self.delivery.expired(self.now) {
            let Some(held) = self.delivery.take(id) else { continue };
            match self.home(id) {
                Some(home) if home != self.me => {
                    for envelope in held.envelopes {
                        let mut envelope = envelope.into_inner();
                        envelope.header_mut().epoch = 0;
                        self.forward(held.kind, home, envelope);
                    }
                }
                _ if self.delivery.directory.place(id).is_some()
                    || self.is_on_demand(id.collection) =>
                {
                    let deadline = self.now + UNKNOWN_MEMBER_HOLD;
                    self.delivery.put_back(id, deadline, held);
                }
                _ => {
                    for envelope in held.envelopes {
                        self.drop_dead_letter(held.kind, envelope.into_inner());
                    }
                }
            }
        }
    }

    /// Forwards a message to the known place of its receiver, or handles it like one that arrives.
    pub(crate) fn dispatch_envelope(&mut self, kind: KindId, mut envelope: Box<dyn AnyEnvelope>) {
        let header = envelope.header_mut();
        match self.delivery.directory.place(header.to) {
            Some(place) if !place.gone && place.pe != self.me && place.epoch >= header.epoch => {
                header.epoch = place.route().epoch_for_one();
                self.forward(kind, place.pe, envelope);
            }
            _ => self.arrive_any(kind, envelope),
        }
    }
}
