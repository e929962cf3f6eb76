//! Broadcasts to all members of a collection: every member handles each once, in the same order.
//!
//! **Start.** A broadcast goes to the coordinator, which numbers it, and from there to every PE. Or
//! it goes from its sender to every PE, and the coordinator only sends the number (`direct`). A PE
//! that broadcasts alone numbers its own (`sequencer`).
//!
//! **Steady state.** Each PE takes broadcasts in the order of their numbers and gives them to its
//! resident members. A member keeps the number of the next broadcast that it expects, so that it
//! takes each once, on whichever PE.
//!
//! **Migration.** A member may leave a PE before a broadcast arrives there, and reach another PE
//! after the broadcast has passed there. So the old PE owes the member the broadcasts below the
//! number that the new PE had reached when it accepted the member, and forwards them. The new PE
//! gives the member the later ones. A member knows by the number whether it has taken a broadcast
//! already, and drops the second copy.
//!
//! `pe/delivery/order.rs` explains the order between broadcasts and messages to single members,
//! `unordered` the broadcasts without the total order.

use crate::Actor;
use crate::address::id::{ActorId, COORDINATOR, CollectionId, KindId, Sender};
use crate::error::JobError;
use crate::message::envelope::Header;
use crate::message::payload::Payload;
use crate::message::{Asked, Control, Wanted};
use crate::pe::collective::collections::{Broadcasts, Seen};
use crate::pe::core::Core;
use crate::pe::delivery::broadcasts_of;

/// Bytes for each sender that has broadcast to a collection, in a table that is at least half full.
///
/// The last number of a sender is needed as long as its messages may arrive. That time has no known
/// end: the sender may be destroyed, inserted again under its index, and continue with the numbers
/// that its tombstone keeps. So the table has one entry for each actor that has broadcast, and the
/// entries count in the memory budget.
const SEEN_BYTES: usize = 2 * size_of::<(ActorId, Seen)>();

impl Core {
    /// Starts a broadcast. This PE numbers it if it has the right to. Otherwise the coordinator
    /// numbers it. The coordinator gets the message, or only a request for a number if this PE
    /// sends the message to all PEs directly.
    pub(crate) fn broadcast<A: Actor>(
        &mut self,
        sender: Sender,
        collection: CollectionId,
        priority: i32,
        message: A::Message,
    ) {
        let Some(kind) = self.kind_in::<A>(collection) else { return };
        let has_moved = self.sending(sender).is_some_and(|member| member.epoch > 0);
        let (source, channels) = self.conversations(sender);
        let count = channels.take_next(broadcasts_of(collection), 0) + 1;
        let earlier = channels.begin_cast(collection, priority, count);
        if self.is_secondary(sender) {
            return;
        }
        let asked = Asked { source, count, earlier };
        let (of, message) = ((kind, collection), self.traced_cast(kind, Payload::new(message)));
        let numbered = self.broadcast_numbered(of, (&asked, has_moved), message, priority);
        let Some(message) = numbered else { return };
        let Some(message) = self.broadcast_directly(of, &asked, message, priority) else { return };
        let wanted = Wanted::Message(message);
        let is_alone = self.is_alone(collection, &asked);
        self.post(
            COORDINATOR,
            Control::BroadcastRequest { kind, collection, asked, wanted, priority, is_alone },
        );
    }

    /// Whether this PE has taken all earlier broadcasts of the sender.
    pub(super) fn is_alone(&self, collection: CollectionId, asked: &Asked) -> bool {
        let local = self.collections.get(collection);
        let seen = local.and_then(|local| local.broadcasts.seen.get(&asked.source));
        seen.map_or(0, |seen| seen.count) + 1 == asked.count
    }

    /// Takes a broadcast, or keeps it until its turn.
    pub(in crate::pe) fn handle_broadcast(
        &mut self,
        (kind_id, collection): (KindId, CollectionId),
        number: u64,
        broadcast: (Asked, Payload, i32),
    ) {
        let Some(kind) = self.common.kind(kind_id) else { return };
        if self.collections.get(collection).is_some_and(|local| local.info.kind != kind_id) {
            return self.fail_type_mismatch(kind.name());
        }
        let Some(local) = self.collections.get_mut(collection) else { return };
        if local.broadcasts.next != number {
            let is_repeated =
                number < local.broadcasts.next || local.broadcasts.early.contains_key(&number);
            if is_repeated {
                let reason =
                    format!("broadcast {number} of collection {} came twice", collection.0);
                return self.fail(JobError::Protocol(reason));
            }
            let broadcast = self.keep_broadcast(kind_id, broadcast);
            if let Some(local) = self.collections.get_mut(collection) {
                local.broadcasts.early.insert(number, broadcast);
            }
            return;
        }
        self.take_broadcast((kind_id, collection), broadcast);
        while let Some(local) = self.collections.get_mut(collection)
            && let Some(broadcast) = local.broadcasts.early.remove(&local.broadcasts.next)
        {
            self.take_broadcast((kind_id, collection), broadcast.into_inner());
        }
    }

    /// Takes the broadcast whose turn has come: gives it to the resident members, and forwards it
    /// to members to which this PE owes it.
    fn take_broadcast(
        &mut self,
        (kind_id, collection): (KindId, CollectionId),
        (asked, message, priority): (Asked, Payload, i32),
    ) {
        let Some(local) = self.collections.get_mut(collection) else { return };
        let number = local.broadcasts.next;
        local.broadcasts.next += 1;
        if asked.count > 0 {
            let seen = Seen { count: asked.count, number };
            if local.broadcasts.seen.insert(asked.source, seen).is_none() {
                self.delivery.budget.keep_forever(SEEN_BYTES);
            }
        }
        let origin = self.me;
        let header = |to: ActorId, epoch| Header {
            to,
            source: asked.source,
            sequence: number,
            priority,
            epoch,
            hops: 0,
            is_broadcast: true,
            origin,
            after: asked.earlier.messages(to.key),
        };
        let takes = |id: ActorId| id.collection == collection;
        let members = self.members[kind_id.index()].iter().flatten();
        let headers: Vec<Header> = members
            .filter(|member| takes(member.id) && member.broadcasts <= number)
            .map(|member| header(member.id, 0))
            .collect();
        let owed = self.owed(collection, number);
        let owed = owed.into_iter().map(|to| header(to, self.believed_epoch(to))).collect();
        self.give_broadcast(kind_id, (headers, owed), message);
        self.note_taken(collection);
    }

    /// Adds a trace to a broadcast and counts the broadcast, if the job is recorded.
    pub(super) fn traced_cast(&mut self, kind: KindId, message: Payload) -> Payload {
        if self.recording.is_none() {
            return message;
        }
        let layout = self.common.layout.clone();
        let bytes = self.cast_bytes(kind, &message, layout.node_count() > 1);
        self.note_cast(layout.sites(), bytes);
        self.traced(message)
    }

    /// Gives a broadcast to resident members, and forwards it to members to which this PE owes it.
    pub(super) fn give_broadcast(
        &mut self,
        kind_id: KindId,
        receivers: (Vec<Header>, Vec<Header>),
        message: Payload,
    ) {
        let message = self.begin_origin(message);
        self.give_to_members(kind_id, receivers, message);
        self.end_origin();
    }

    fn give_to_members(
        &mut self,
        kind_id: KindId,
        (here, owed): (Vec<Header>, Vec<Header>),
        message: Payload,
    ) {
        let Some(kind) = self.common.kind(kind_id) else { return };
        self.created += (here.len() + owed.len()) as u64;
        for header in owed {
            let to = header.to;
            match kind.envelope(header, kind.copy(&message)) {
                Ok(envelope) if self.arriving.contains(&to) => {
                    self.hold_for_arrival(kind_id, envelope);
                }
                Ok(envelope) => self.arrive_any(kind_id, envelope),
                Err(error) => return self.fail(JobError::Protocol(error.to_string())),
            }
        }
        if let Err(error) = kind.broadcast(self, kind_id, here, message) {
            self.fail(JobError::Protocol(error.to_string()));
        }
    }

    /// The epoch of the place that this PE knows for a member, or zero if it knows none.
    pub(super) fn believed_epoch(&self, id: ActorId) -> u32 {
        self.delivery.directory.place(id).map_or(0, |place| place.epoch)
    }

    /// Members that are arriving or leaving.
    pub(super) fn in_transit(&self, collection: CollectionId) -> Vec<ActorId> {
        let in_collection = |id: &&ActorId| id.collection == collection;
        let both = self.departing.keys().chain(&self.arriving);
        both.filter(in_collection).copied().collect()
    }

    /// Members that are arriving, are leaving or have left, and receive the broadcast through this
    /// PE. Removes the debts of the collection that end with this broadcast.
    fn owed(&mut self, collection: CollectionId, number: u64) -> Vec<ActorId> {
        let mut owed = self.in_transit(collection);
        for (&id, &(from, end)) in &self.debts {
            if id.collection == collection && (from..end).contains(&number) {
                owed.push(id);
            }
        }
        self.debts.retain(|id, (_, end)| id.collection != collection || *end > number + 1);
        owed
    }

    /// Notes that this PE has taken a broadcast, and releases messages that may wait for it at
    /// members here.
    fn note_taken(&mut self, collection: CollectionId) {
        let Some(local) = self.collections.get_mut(collection) else { return };
        for key in std::mem::take(&mut local.broadcasts.waiting) {
            if let Some((kind, slot)) = self.resident(ActorId { collection, key }) {
                self.release_blocked(kind, slot);
            }
        }
    }

    /// Number of broadcasts that arrived before an earlier one, or of which only the message or the
    /// number has arrived.
    pub(in crate::pe) fn early_broadcasts(&self) -> u64 {
        let waiting =
            |known: &Broadcasts| known.early.len() + known.unnumbered.len() + known.numbered.len();
        let all = self.collections.values();
        all.map(|local| waiting(&local.broadcasts) as u64 + local.streams.early()).sum()
    }
}
