//! Multicasts: one message for many members. The part for other nodes goes to the relay of this
//! node. A large message with a short list of members travels in segments on a sub-plan; any other
//! leaves whole, and relays on its way split it up. From the coordinator's node, a large multicast
//! takes the plan for its size, unless the path by sites is predicted to be faster. Members of
//! different collections get separate multicasts.

use super::core::Core;
use crate::Actor;
use crate::address::id::{ActorId, COORDINATOR, KindId, Sender};
use crate::error::JobError;
use crate::message::envelope::{Envelope, Header};
use crate::message::payload::Payload;
use crate::message::{
    Control, Multicast, MulticastMember, MulticastTarget, Packet, REPORTED_BYTES_MIN, Spread,
};
use crate::pe::actor::reference::{SectionPart, SectionRef};
use gridspan_topology::PeId;
use std::collections::BTreeMap;

/// Approximate maximum size of a member's key and number, in bytes.
const MEMBER_BYTES: usize = 32;

/// Whether the members' keys and numbers take more than an eighth of the message's size. Such a
/// multicast is better split up on its way than sent whole to all nodes.
fn is_wide(multicast: &Multicast) -> bool {
    let members: usize = multicast.targets.iter().map(|target| target.members.len()).sum();
    members * MEMBER_BYTES > multicast.message.wire_len() / 8
}

impl Core {
    /// Sends one message to all members of a section.
    pub(crate) fn multicast<A: Actor>(
        &mut self,
        sender: Sender,
        section: &SectionRef<A>,
        priority: i32,
        message: A::Message,
    ) {
        let Some((last, others)) = section.parts.split_last() else { return };
        for part in others {
            self.multicast_to::<A>(sender, part, priority, message.clone());
        }
        self.multicast_to::<A>(sender, last, priority, message);
    }

    /// Sends one message to the members of a section in one collection.
    fn multicast_to<A: Actor>(
        &mut self,
        sender: Sender,
        part: &SectionPart,
        priority: i32,
        message: A::Message,
    ) {
        let collection = part.collection;
        let Some(kind) = self.kind_in::<A>(collection) else { return };
        let source = self.sender_id(sender);
        let mut remote: BTreeMap<PeId, Vec<MulticastMember>> = BTreeMap::new();
        for &key in part.members.iter() {
            let to = ActorId { collection, key };
            let route = self.route(to);
            if route.pe == self.me && route.second.is_none() {
                self.send::<A>(sender, to, priority, message.clone());
                continue;
            }
            let sequence = self.channels(sender).take_next(to, priority);
            if self.is_sent_elsewhere(sender, to) {
                continue;
            }
            self.note_edge::<A>(sender, to.apart(), &message);
            let epoch = route.epoch;
            let after = self.channels(sender).after(collection, priority);
            for pe in route.all() {
                self.created += 1;
                if pe == self.me {
                    let header = Header::new(to, source, sequence, self.me);
                    let header = Header { priority, epoch, after, ..header };
                    self.arrive_here::<A>(kind, Envelope { header, message: message.clone() });
                } else {
                    remote.entry(pe).or_default().push(MulticastMember { key, sequence, epoch });
                }
            }
        }
        if remote.is_empty() {
            return;
        }
        let target = |(pe, members)| MulticastTarget { pe, members };
        let targets: Vec<_> = remote.into_iter().map(target).collect();
        let message = self.traced_multicast(kind, &targets, Payload::new(message));
        let origin = self.me;
        let after = self.channels(sender).after(collection, priority);
        self.spread(Multicast {
            kind,
            collection,
            source,
            priority,
            after,
            origin,
            targets,
            message,
        });
    }

    /// Adds a trace to the message of a multicast and counts the multicast, if the job is recorded.
    fn traced_multicast(
        &mut self,
        kind: KindId,
        targets: &[MulticastTarget],
        message: Payload,
    ) -> Payload {
        if self.recording.is_some() {
            let layout = self.common.layout.clone();
            let here = layout.node_of(self.me);
            let leaves = targets.iter().any(|target| layout.node_of(target.pe) != here);
            let bytes = self.cast_bytes(kind, &message, leaves);
            let sites = targets.iter().map(|target| layout.site_of(target.pe));
            self.note_cast(sites, bytes);
        }
        self.traced(message)
    }

    /// Sends a multicast to the PEs of its targets.
    fn spread(&mut self, multicast: Multicast) {
        let layout = self.common.layout.clone();
        let my_node = layout.node_of(self.me);
        let Some(kind) = self.common.kind(multicast.kind) else { return };
        let (here, elsewhere): (Vec<_>, Vec<_>) =
            multicast.targets.into_iter().partition(|target| layout.node_of(target.pe) == my_node);
        for target in here {
            let (to, message) = (target.pe, kind.copy(&multicast.message));
            let targets = vec![target];
            self.post(to, Control::Multicast(Multicast { targets, message, ..multicast }));
        }
        if !elsewhere.is_empty() {
            // Each target PE gets one packet.
            self.created += elsewhere.len() as u64;
            // Encoded here, so that only this PE waits for the encoding.
            let message = multicast.message.to_bytes();
            let is_large = message.len() as u64 >= REPORTED_BYTES_MIN;
            let message = Payload::Bytes(message);
            let others = Multicast { targets: elsewhere, message, ..multicast };
            if is_large && !is_wide(&others) {
                return self.send_over_relays(others);
            }
            self.outbox.packet(self.me, Packet::spread(Spread::Multicast(others)));
        }
    }

    /// Sends a large multicast in segments. On the coordinator's node, the coordinator chooses the
    /// path.
    fn send_over_relays(&mut self, multicast: Multicast) {
        let layout = &self.common.layout;
        let here = layout.node_of(self.me);
        if here == self.common.coordinator {
            return self.post(COORDINATOR, Control::LargeMulticast(Box::new(multicast)));
        }
        let spread = Spread::by_sites(layout, here, multicast);
        self.outbox.packet(self.me, Packet::spread(spread));
    }

    /// Delivers a multicast that has arrived to the members on this PE.
    pub(super) fn handle_multicast(&mut self, mut multicast: Multicast) {
        let Some(kind) = self.common.kind(multicast.kind) else {
            return self.fail(JobError::Protocol("a multicast for an unknown type".to_owned()));
        };
        let targets = std::mem::take(&mut multicast.targets);
        let mine: Vec<_> = targets.into_iter().flat_map(|target| target.members).collect();
        multicast.message = self.begin_origin(multicast.message);
        if let Err(error) = kind.multicast(self, multicast, &mine) {
            self.fail(JobError::Protocol(error.to_string()));
        }
        self.end_origin();
    }
}
