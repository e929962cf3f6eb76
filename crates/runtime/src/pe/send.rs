//! The way of a message: from its sender to the PE where its receiver lives.

use super::channel::{BROADCAST, Channels, Turn, judge};
use super::core::{Core, Early};
use super::directory::Place;
use super::{HOPS_MAX, UNKNOWN_MEMBER_HOLD};
use crate::Actor;
use crate::context::{Seat, Sender};
use crate::envelope::{AnyEnvelope, Envelope};
use crate::error::JobError;
use crate::id::ActorId;
use crate::id::KindId;
use crate::parcel::Parcel;
use crate::reference::SectionRef;
use crate::wire::{Control, Header, Multicast, MulticastMember, MulticastTarget};
use gridspan_topology::{NodeId, PeId, SiteId};
use std::collections::BTreeMap;

impl Core {
    pub(super) fn channels(&mut self, sender: Sender) -> &mut Channels {
        let Sender::Actor(Seat { kind, slot }) = sender else { return &mut self.system };
        let members = &mut self.members[kind.index()];
        match members.get_mut(slot as usize) {
            Some(Some(member)) => member.channels.get_or_insert_default(),
            _ => &mut self.system,
        }
    }

    /// The name under which the sender's messages are numbered.
    pub(super) fn sender_id(&self, sender: Sender) -> ActorId {
        match sender {
            Sender::Pe => ActorId::system(self.me),
            Sender::Actor(seat) => self.seat_id(seat),
        }
    }

    #[inline]
    fn is_numbered(&mut self, sender: Sender, to: ActorId, priority: i32) -> bool {
        match sender {
            Sender::Actor(Seat { kind, slot }) => self
                .member(kind, slot)
                .and_then(|member| member.channels.as_ref())
                .is_some_and(|channels| channels.is_numbered(to, priority)),
            Sender::Pe => self.system.is_numbered(to, priority),
        }
    }

    /// Sends one message.
    #[inline]
    pub(crate) fn send<A: Actor>(
        &mut self,
        sender: Sender,
        to: ActorId,
        priority: i32,
        message: A::Message,
    ) {
        self.created += 1;
        if let Some((kind, slot)) = self.resident(to)
            && !self.is_numbered(sender, to, priority)
        {
            return self.push_ready::<A>(kind, slot, priority, message);
        }
        self.send_numbered::<A>(sender, to, priority, message);
    }

    fn send_numbered<A: Actor>(
        &mut self,
        sender: Sender,
        to: ActorId,
        priority: i32,
        message: A::Message,
    ) {
        let Some(local) = self.collections.get(to.collection) else {
            return self.fail(JobError::Protocol(format!(
                "a message was sent to collection {}, which does not exist",
                to.collection.0
            )));
        };
        let kind = local.info.kind;
        let sequence = self.channels(sender).take_next(to, priority);
        let (pe, epoch) = self.believed(to);
        let origin = self.me;
        let source = self.sender_id(sender);
        let header = Header { to, source, sequence, priority, epoch, hops: 0, origin };
        let envelope = Envelope::<A> { header, message };
        if pe == self.me {
            self.arrive(kind, envelope);
        } else {
            self.outbox.envelope(pe, kind, envelope);
        }
    }

    /// Where to send a message for `id`, and the epoch of that knowledge.
    pub(super) fn believed(&self, id: ActorId) -> (PeId, u32) {
        if self.resident(id).is_some() || self.departing.contains_key(&id) {
            return (self.me, 0);
        }
        match self.directory.place(id) {
            Some(place) => (place.pe, place.epoch),
            None => (self.home(id).unwrap_or(self.me), 0),
        }
    }

    /// Takes a message that came to this PE.
    pub(crate) fn arrive<A: Actor>(&mut self, kind: KindId, envelope: Envelope<A>) {
        let Header { to, source, sequence, priority, .. } = envelope.header;
        match self.resident(to) {
            Some((kind, slot)) => match self.judge(kind, slot, &envelope.header) {
                Turn::Now => {
                    self.push_ready::<A>(kind, slot, priority, envelope.message);
                    self.release_held(kind, slot, source, priority, sequence);
                }
                turn => self.not_now(kind, slot, turn, Box::new(envelope)),
            },
            None => self.astray(kind, Box::new(envelope)),
        }
    }

    fn judge(&mut self, kind: KindId, slot: u32, header: &Header) -> Turn {
        let fault = self.common.fault;
        let Some(member) = self.member(kind, slot) else { return Turn::Repeated };
        if header.source.collection == BROADCAST {
            judge(&mut member.broadcasts, header.sequence, fault)
        } else {
            member.channels.get_or_insert_default().judge(
                header.source,
                header.priority,
                header.sequence,
                fault,
            )
        }
    }

    fn not_now(&mut self, kind: KindId, slot: u32, turn: Turn, envelope: Box<dyn AnyEnvelope>) {
        let key = Channels::held_key(envelope.header());
        if turn == Turn::Later
            && let Some(member) = self.member(kind, slot)
        {
            let held = &mut member.channels.get_or_insert_default().held;
            if held.insert(key, envelope).is_none() {
                return;
            }
        }
        self.note_repeated();
    }

    /// A message came again and was dropped.
    pub(super) fn note_repeated(&mut self) {
        self.processed += 1;
        self.statistics.repeated += 1;
    }

    /// Lets the messages pass that waited for the one with number `passed`.
    fn release_held(
        &mut self,
        kind: KindId,
        slot: u32,
        source: ActorId,
        priority: i32,
        mut passed: u64,
    ) {
        let priority = if source.collection == BROADCAST { 0 } else { priority };
        loop {
            passed += 1;
            let Some(envelope) = self
                .member(kind, slot)
                .and_then(|member| member.channels.as_mut())
                .and_then(|channels| channels.take_held(source, priority, passed))
            else {
                return;
            };
            self.judge(kind, slot, &envelope.header().clone());
            envelope.ready(kind, slot, self);
        }
    }

    /// Deals with a message whose receiver does not live here.
    pub(super) fn astray(&mut self, kind: KindId, mut envelope: Box<dyn AnyEnvelope>) {
        let Header { to, epoch, hops, origin, .. } = *envelope.header();
        if let Some(departing) = self.departing.get_mut(&to) {
            return departing.arrivals.push(envelope);
        }
        let Some(home) = self.home(to) else {
            let early = self.early.entry(to.collection).or_default();
            return early.push(Early::Message(kind, envelope));
        };
        let next = match self.directory.place(to) {
            // Whoever sent it here knows of a later move than this PE: the actor is on its way here.
            Some(place) if place.epoch < epoch => {
                return self.hold_boxed(to, kind, envelope);
            }
            Some(Place { gone: true, .. }) if home == self.me => return self.bury(envelope),
            Some(Place { gone: true, epoch, .. }) => (home, epoch),
            Some(place) if hops < HOPS_MAX || home == self.me => {
                if origin != self.me {
                    let Place { pe, epoch, .. } = place;
                    self.post(origin, Control::Location { id: to, pe, epoch, gone: false });
                }
                (place.pe, place.epoch)
            }
            Some(_) => (home, 0),
            None if home == self.me || epoch > 0 => {
                return self.hold_boxed(to, kind, envelope);
            }
            None => (home, 0),
        };
        let header = envelope.header_mut();
        header.hops = hops.saturating_add(1);
        header.epoch = next.1;
        self.statistics.forwarded += 1;
        if next.0 == self.me {
            return self.hold_boxed(to, kind, envelope);
        }
        envelope.forward(kind, next.0, self);
    }

    /// Drops a message that nobody will ever handle.
    pub(super) fn dead_letter(&mut self, to: ActorId, reason: &str) {
        self.processed += 1;
        self.statistics.dead_letters += 1;
        tracing::warn!(collection = to.collection.0, index = ?to.key, reason, "message dropped");
    }

    /// Learns where an actor lives, and sends on what waited for it.
    pub(super) fn learn(&mut self, id: ActorId, place: Place) {
        if self.resident(id).is_some() || self.departing.contains_key(&id) {
            return;
        }
        if self.directory.learn(id, place, self.common.fault) {
            self.release_awaiting(id);
        }
    }

    pub(super) fn release_awaiting(&mut self, id: ActorId) {
        if let Some(held) = self.awaiting.remove(&id) {
            for envelope in held.envelopes {
                envelope.arrive(held.kind, self);
            }
        }
    }

    /// Deals with messages whose receiver has not turned up for long: home gives up on members that
    /// it does not know, other PEs leave the messages to home.
    pub(super) fn expire_awaiting(&mut self) {
        let now = self.now;
        let expired = self.awaiting.iter().filter(|(_, held)| held.deadline <= now);
        let late: Vec<_> = expired.map(|(&id, _)| id).collect();
        for id in late {
            let Some(mut held) = self.awaiting.remove(&id) else { continue };
            match self.home(id) {
                Some(home) if home != self.me => {
                    for mut envelope in held.envelopes {
                        envelope.header_mut().epoch = 0;
                        envelope.forward(held.kind, home, self);
                    }
                }
                _ if self.directory.place(id).is_some() => {
                    held.deadline = now + UNKNOWN_MEMBER_HOLD;
                    self.awaiting.insert(id, held);
                }
                _ => held.envelopes.into_iter().for_each(|envelope| self.bury(envelope)),
            }
        }
    }

    /// Sends one message to all members of a section: one copy to each other site, one to each node
    /// there, one to each PE.
    pub(crate) fn multicast<A: Actor>(
        &mut self,
        sender: Sender,
        section: &SectionRef<A>,
        priority: i32,
        message: A::Message,
    ) {
        let collection = section.id.collection;
        let mut remote: BTreeMap<PeId, Vec<MulticastMember>> = BTreeMap::new();
        for &key in section.members.iter() {
            let to = ActorId { collection, key };
            let (pe, epoch) = self.believed(to);
            if pe == self.me {
                self.send::<A>(sender, to, priority, message.clone());
            } else {
                self.created += 1;
                let sequence = self.channels(sender).take_next(to, priority);
                remote.entry(pe).or_default().push(MulticastMember { key, sequence, epoch });
            }
        }
        let Some(kind) = self.collections.get(collection).map(|local| local.info.kind) else {
            return;
        };
        if remote.is_empty() {
            return;
        }
        let targets =
            remote.into_iter().map(|(pe, members)| MulticastTarget { pe, members }).collect();
        let origin = self.me;
        let message = Parcel::new(message);
        self.spread(Multicast {
            kind,
            collection,
            source: self.sender_id(sender),
            priority,
            origin,
            targets,
            message,
        });
    }

    /// Sends a multicast towards its targets.
    pub(super) fn spread(&mut self, multicast: Multicast) {
        let layout = self.common.layout.clone();
        let (my_node, my_site) = (layout.node_of(self.me), layout.site_of(self.me));
        let Some(kind) = self.kind(multicast.kind) else { return };
        let mut sites: BTreeMap<SiteId, Vec<MulticastTarget>> = BTreeMap::new();
        let mut nodes: BTreeMap<NodeId, Vec<MulticastTarget>> = BTreeMap::new();
        let mut pes = Vec::new();
        for target in multicast.targets {
            if !layout.contains(target.pe) {
                return self.fail(JobError::Protocol(format!("there is no {}", target.pe)));
            }
            let node = layout.node_of(target.pe);
            if layout.site_of_node(node) != my_site {
                sites.entry(layout.site_of_node(node)).or_default().push(target);
            } else if node != my_node {
                nodes.entry(node).or_default().push(target);
            } else {
                pes.push(target);
            }
        }
        let message = match sites.len() + nodes.len() {
            0 => multicast.message,
            // Encoded once, however many nodes it goes to.
            _ => Parcel::Bytes(multicast.message.into_bytes()),
        };
        let groups = sites
            .into_values()
            .chain(nodes.into_values())
            .map(|targets| (targets[0].pe, targets))
            .chain(pes.into_iter().map(|target| (target.pe, vec![target])));
        for (to, targets) in groups {
            let message = kind.copy(&message);
            self.post(to, Control::Multicast(Multicast { targets, message, ..multicast }));
        }
    }

    /// Takes a multicast that came to this PE, for its own members and for others to pass on.
    pub(super) fn handle_multicast(&mut self, mut multicast: Multicast) {
        let Some(kind) = self.kind(multicast.kind) else {
            return self.fail(JobError::Protocol("a multicast for an unknown type".to_owned()));
        };
        let mut mine = Vec::new();
        multicast.targets.retain_mut(|target| {
            let here = target.pe == self.me;
            if here {
                mine.append(&mut target.members);
            }
            !here
        });
        if !mine.is_empty() {
            let message = kind.copy(&multicast.message);
            let own = Multicast { targets: Vec::new(), message, ..multicast };
            if let Err(error) = kind.multicast(self, own, &mine) {
                return self.fail(JobError::Protocol(error.to_string()));
            }
        }
        if !multicast.targets.is_empty() {
            self.spread(multicast);
        }
    }
}
