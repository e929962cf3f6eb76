//! Broadcasts to all members of a collection: handled by every member, once, in the same order.
//!
//! **Start.** A broadcast goes to the root, which numbers it, and from there to every PE.
//!
//! **Steady state.** Each PE takes broadcasts in the order of their numbers and gives them to the
//! members that live there. A member knows the number it expects next, so that it takes each once,
//! wherever it meets it.
//!
//! **Migration.** A member may leave a PE before a broadcast arrives there, and reach another one
//! after it has passed. The PE it left therefore owes it the broadcasts up to the number that the
//! new PE had reached when it accepted the member, and sends them after it; the new PE keeps later
//! ones for it from then on. What was supplied twice is dropped by number.
//!
//! There is no order between a broadcast and messages that the same sender sent to single members.

use crate::Actor;
use crate::envelope::Header;
use crate::error::JobError;
use crate::id::{ActorId, CollectionId, KindId, Sender};
use crate::index::Key;
use crate::parcel::Parcel;
use crate::pe::core::Core;
use crate::pe::state::{BROADCAST, BroadcastRequest};
use crate::wire::{Control, Multicast, MulticastMember};
use gridspan_topology::PeId;

/// The sender of numbered broadcasts.
fn source(collection: CollectionId) -> ActorId {
    ActorId { collection: BROADCAST, key: Key(u128::from(collection.0)) }
}

impl Core {
    /// Asks for a broadcast.
    pub(crate) fn broadcast<A: Actor>(
        &mut self,
        sender: Sender,
        collection: CollectionId,
        priority: i32,
        message: A::Message,
    ) {
        let Some(kind) = self.kind_in::<A>(collection) else { return };
        let sequence = self.take_sequence(sender, source(collection));
        if self.is_second(sender) {
            return;
        }
        let request = Control::BroadcastRequest {
            kind,
            collection,
            source: self.sender_id(sender),
            sequence,
            message: Parcel::new(message),
            priority,
        };
        self.post(Self::ROOT, request);
    }

    /// Brings requests into the order in which their sender made them.
    pub(in crate::pe) fn handle_broadcast_request(
        &mut self,
        collection: CollectionId,
        source: ActorId,
        sequence: u64,
        request: (KindId, Parcel, i32),
    ) {
        let (kind, message, priority) = request;
        if self.family(collection).is_none() {
            return self.fail_no_collection(collection);
        }
        let Some(root) = &mut self.root else { return };
        let order = root.requests.entry((collection, source)).or_default();
        order.early.insert(sequence, BroadcastRequest { kind, message, priority });
        let mut ready = Vec::new();
        while let Some(request) = order.early.remove(&order.expected) {
            order.expected += 1;
            ready.push(request);
        }
        for request in ready {
            self.accept_broadcast(collection, request);
        }
    }

    /// Gives a broadcast its number, once no insertion is under way.
    pub(super) fn accept_broadcast(&mut self, collection: CollectionId, request: BroadcastRequest) {
        let Some(family) = self.family(collection) else { return };
        if family.inserting > 0 {
            family.waiting.push_back(request);
        } else {
            self.number_broadcast(collection, request);
        }
    }

    pub(super) fn number_broadcast(&mut self, collection: CollectionId, request: BroadcastRequest) {
        let Some(family) = self.family(collection) else { return };
        let number = family.broadcasts;
        family.broadcasts += 1;
        let BroadcastRequest { kind, message, priority } = request;
        let Some(copies) = self.kind(kind) else { return };
        self.post_to_all(|| Control::Broadcast {
            kind,
            collection,
            number,
            message: copies.copy(&message),
            priority,
        });
    }

    /// Takes a broadcast, or keeps it until its turn.
    pub(in crate::pe) fn handle_broadcast(
        &mut self,
        kind_id: KindId,
        collection: CollectionId,
        number: u64,
        message: Parcel,
        priority: i32,
    ) {
        let Some(kind) = self.kind(kind_id) else { return };
        if self.collections.get(collection).is_some_and(|local| local.info.kind != kind_id) {
            return self.fail_type_mismatch(kind.name());
        }
        let Some(local) = self.collections.get_mut(collection) else { return };
        local.broadcasts.early.insert(number, (message, priority));
        while let Some(local) = self.collections.get_mut(collection)
            && let Some((message, priority)) = local.broadcasts.early.remove(&local.broadcasts.next)
        {
            let number = local.broadcasts.next;
            local.broadcasts.next += 1;
            self.take_broadcast(kind_id, collection, number, &message, priority);
        }
    }

    fn take_broadcast(
        &mut self,
        kind_id: KindId,
        collection: CollectionId,
        number: u64,
        message: &Parcel,
        priority: i32,
    ) {
        let Some(kind) = self.kind(kind_id) else { return };
        let members: Vec<_> = self.members[kind_id.index()]
            .iter()
            .flatten()
            .filter(|member| member.id.collection == collection && member.broadcasts <= number)
            .map(|member| MulticastMember { key: member.id.key, sequence: number, epoch: 0 })
            .collect();
        self.created += members.len() as u64;
        let multicast = Multicast {
            kind: kind_id,
            collection,
            source: source(collection),
            priority,
            origin: self.me,
            targets: Vec::new(),
            message: kind.copy(message),
        };
        if let Err(error) = kind.multicast(self, multicast, &members) {
            return self.fail(JobError::Protocol(error.to_string()));
        }
        // Members that are arriving, are leaving or have left: they get it wherever they are.
        let in_collection = |id: &&ActorId| id.collection == collection;
        let mut owed: Vec<_> = self.departing.keys().filter(in_collection).copied().collect();
        owed.extend(self.arriving.iter().filter(in_collection));
        for (&id, &(from, end)) in &self.debts {
            if id.collection == collection && (from..end).contains(&number) {
                owed.push(id);
            }
        }
        self.debts.retain(|id, (_, end)| id.collection != collection || *end > number + 1);
        for to in owed {
            let epoch = self.directory.place(to).map_or(0, |place| place.epoch);
            let origin = self.me;
            let header = Header {
                to,
                source: source(collection),
                sequence: number,
                priority,
                epoch,
                hops: 0,
                origin,
            };
            self.created += 1;
            match kind.envelope(header, kind.copy(message)) {
                Ok(envelope) if self.arriving.contains(&to) => {
                    self.hold_boxed(to, kind_id, envelope);
                }
                Ok(envelope) => kind.arrive(self, kind_id, envelope),
                Err(error) => {
                    return self.fail(JobError::Protocol(error.to_string()));
                }
            }
        }
    }

    /// Broadcasts that came before an earlier one.
    pub(in crate::pe) fn early_broadcasts(&self) -> u64 {
        self.collections.values().map(|local| local.broadcasts.early.len() as u64).sum()
    }

    /// The PEs below this one in the tree.
    pub(in crate::pe) fn tree_children(&self) -> Vec<PeId> {
        let layout = &self.common.layout;
        let node = layout.node_of(self.me);
        if layout.leader(node) != self.me {
            return Vec::new();
        }
        let below = self.common.tree.children(node).iter().map(|&child| layout.leader(child));
        let beside = layout.place(node).pes.clone().skip(1).map(PeId);
        below.chain(beside).collect()
    }

    /// The PE above this one in the tree of contributions, unless this is the root.
    pub(in crate::pe) fn tree_parent(&self) -> Option<PeId> {
        let layout = &self.common.layout;
        let node = layout.node_of(self.me);
        if layout.leader(node) != self.me {
            return Some(layout.leader(node));
        }
        self.up_tree.1.parent(node).map(|parent| layout.leader(parent))
    }
}
