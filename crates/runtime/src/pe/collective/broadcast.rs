//! Broadcasts to all members of a collection: handled by every member, once, in the same order.
//!
//! **Start.** A broadcast goes to the root, which numbers it, and from there to every PE; or from
//! its sender to every PE, and the root only sends the number (`direct`).
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
//! How broadcasts are in order with messages to single members is told in `pe/order.rs`.

use crate::Actor;
use crate::envelope::Header;
use crate::error::JobError;
use crate::id::{ActorId, CollectionId, KindId, Sender};
use crate::parcel::Parcel;
use crate::pe::core::Core;
use crate::pe::state::{BroadcastRequest, Broadcasts, RequestOrder, Seen, broadcasts_of};
use crate::wire::{Asked, Control, Earlier, Wanted};
use gridspan_topology::PeId;

/// What a PE keeps of each sender that has broadcast to a collection, in a table that is at least
/// half full.
///
/// The last number of a sender is needed as long as messages of it may come, and nobody knows until
/// when: it may be destroyed and inserted again under its index, and goes on with the numbers that
/// its grave keeps. So there are as many entries as actors that have ever broadcast, and they count
/// in the memory budget.
const SEEN_BYTES: usize = 2 * size_of::<(ActorId, Seen)>();
/// The same on the root, which brings the requests of each sender into their order.
const REQUESTS_BYTES: usize = 2 * size_of::<((CollectionId, ActorId), RequestOrder)>();

/// As what the runtime asks for its own broadcasts, such as the results of reductions.
pub(super) fn nobody(collection: CollectionId) -> Asked {
    Asked { source: broadcasts_of(collection), count: 0, earlier: Earlier::default() }
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
        let source = self.sender_id(sender);
        let channels = self.channels(sender);
        let count = channels.take_next(broadcasts_of(collection), 0) + 1;
        let earlier = channels.begin_cast(collection, priority, count);
        if self.is_second(sender) {
            return;
        }
        let asked = Asked { source, count, earlier };
        let Some(message) =
            self.broadcast_directly((kind, collection), &asked, Parcel::new(message), priority)
        else {
            return;
        };
        let wanted = Wanted::Message(message);
        // The root need not ask itself, unless something that it has asked itself before is still
        // to be done, such as an insertion.
        let is_next = self.me == Self::ROOT && self.own_controls == 0;
        if is_next && self.collections.get(collection).is_some() {
            let request = BroadcastRequest { kind, asked, wanted, priority };
            return self.handle_broadcast_request(collection, request);
        }
        self.post(
            Self::ROOT,
            Control::BroadcastRequest { kind, collection, asked, wanted, priority },
        );
    }

    /// Brings requests into the order in which their sender made them.
    pub(in crate::pe) fn handle_broadcast_request(
        &mut self,
        collection: CollectionId,
        request: BroadcastRequest,
    ) {
        if self.family(collection).is_none() {
            return self.fail_no_collection(collection);
        }
        let Asked { source, count, .. } = request.asked;
        if let Wanted::Number(travel) = &request.wanted {
            self.note_travel(*travel);
        }
        let (gauge, request) = (self.gauge.clone(), self.keep_request(request));
        let Some(root) = &mut self.root else { return };
        let order = root.requests.entry((collection, source)).or_insert_with(|| {
            gauge.keep_forever(REQUESTS_BYTES);
            RequestOrder::default()
        });
        order.early.insert(count, request);
        let mut ready = Vec::new();
        while let Some(request) = order.early.remove(&(order.come + 1)) {
            order.come += 1;
            ready.push(request);
        }
        for request in ready {
            self.accept_broadcast(collection, request.into_inner());
        }
    }

    /// Gives a broadcast its number, once no insertion is under way.
    pub(super) fn accept_broadcast(&mut self, collection: CollectionId, request: BroadcastRequest) {
        if self.family(collection).is_none_or(|family| family.inserting == 0) {
            return self.number_broadcast(collection, request);
        }
        let request = self.keep_request(request);
        if let Some(family) = self.family(collection) {
            family.waiting.push_back(request);
        }
    }

    pub(super) fn number_broadcast(&mut self, collection: CollectionId, request: BroadcastRequest) {
        let Some(family) = self.family(collection) else { return };
        let number = family.broadcasts;
        family.broadcasts += 1;
        let BroadcastRequest { kind, asked, wanted, priority } = request;
        let message = match wanted {
            Wanted::Message(message) => message,
            Wanted::Number(_) => {
                let Asked { source, count, .. } = asked;
                return self.post_to_all(|| Control::BroadcastNumber {
                    collection,
                    number,
                    source,
                    count,
                });
            }
        };
        let number = Some(number);
        let broadcast = |message| {
            let asked = asked.clone();
            Control::Broadcast { kind, collection, number, asked, message, priority }
        };
        let Some(control) = self.post_copies(kind, message, broadcast) else { return };
        self.post_to_others(&control.1);
        self.post(control.0, control.1);
    }

    /// Takes a broadcast, or keeps it until its turn.
    pub(in crate::pe) fn handle_broadcast(
        &mut self,
        (kind_id, collection): (KindId, CollectionId),
        number: u64,
        broadcast: (Asked, Parcel, i32),
    ) {
        let Some(kind) = self.kind(kind_id) else { return };
        if self.collections.get(collection).is_some_and(|local| local.info.kind != kind_id) {
            return self.fail_type_mismatch(kind.name());
        }
        let Some(local) = self.collections.get_mut(collection) else { return };
        if local.broadcasts.next != number {
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

    /// Takes the broadcast whose turn it is: gives it to the members that live here, and sends it
    /// after those that should have it and do not.
    fn take_broadcast(
        &mut self,
        (kind_id, collection): (KindId, CollectionId),
        (asked, message, priority): (Asked, Parcel, i32),
    ) {
        let Some(kind) = self.kind(kind_id) else { return };
        let Some(local) = self.collections.get_mut(collection) else { return };
        let number = local.broadcasts.next;
        local.broadcasts.next += 1;
        if asked.count > 0 {
            let seen = Seen { count: asked.count, number };
            if local.broadcasts.seen.insert(asked.source, seen).is_none() {
                self.gauge.keep_forever(SEEN_BYTES);
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
        self.created += headers.len() as u64;
        for to in self.owed(collection, number) {
            let epoch = self.directory.place(to).map_or(0, |place| place.epoch);
            self.created += 1;
            match kind.envelope(header(to, epoch), kind.copy(&message)) {
                Ok(envelope) if self.arriving.contains(&to) => {
                    self.hold_boxed(to, kind_id, envelope);
                }
                Ok(envelope) => kind.arrive(self, kind_id, envelope),
                Err(error) => {
                    return self.fail(JobError::Protocol(error.to_string()));
                }
            }
        }
        if let Err(error) = kind.broadcast(self, kind_id, headers, message) {
            return self.fail(JobError::Protocol(error.to_string()));
        }
        self.note_taken(collection);
    }

    /// Members that are arriving, are leaving or have left, and get a broadcast wherever they are.
    fn owed(&mut self, collection: CollectionId, number: u64) -> Vec<ActorId> {
        let in_collection = |id: &&ActorId| id.collection == collection;
        let mut owed: Vec<_> = self.departing.keys().filter(in_collection).copied().collect();
        owed.extend(self.arriving.iter().filter(in_collection));
        for (&id, &(from, end)) in &self.debts {
            if id.collection == collection && (from..end).contains(&number) {
                owed.push(id);
            }
        }
        self.debts.retain(|id, (_, end)| id.collection != collection || *end > number + 1);
        owed
    }

    /// A broadcast has come to this PE. Messages may have waited for that whose receivers did not
    /// take it.
    fn note_taken(&mut self, collection: CollectionId) {
        let Some(local) = self.collections.get_mut(collection) else { return };
        for key in std::mem::take(&mut local.broadcasts.waiting) {
            if let Some((kind, slot)) = self.resident(ActorId { collection, key }) {
                self.release_blocked(kind, slot);
            }
        }
    }

    /// Broadcasts that came before an earlier one, or of which only the message or the number has
    /// come.
    pub(in crate::pe) fn early_broadcasts(&self) -> u64 {
        let waiting =
            |known: &Broadcasts| known.early.len() + known.unnumbered.len() + known.numbered.len();
        self.collections.values().map(|local| waiting(&local.broadcasts) as u64).sum()
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
