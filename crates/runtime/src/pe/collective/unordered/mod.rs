//! Broadcasts without the total order: every member handles each once. Only broadcasts of one PE in
//! one channel keep their order.
//!
//! **Start.** The sender's PE numbers its unordered broadcasts to a collection, channel by channel:
//! a *stream*. It hands each to the relay of its node, with a plan from that node, and asks no
//! other node. It reports the flow to the coordinator, which plans for it as for a direct
//! broadcast.
//!
//! **Steady state.** A PE takes the broadcasts of a stream in the order of their numbers and gives
//! them to its resident members as messages from the stream. A member counts them like messages
//! from any sender: it holds early ones and drops repeated ones.
//!
//! **Migration.** The counters and the held broadcasts move with the member. As with the total
//! order, the old PE forwards the broadcasts that had passed on the new PE when it accepted the
//! member, and that reach the old PE later.
//!
//! **Insertion.** A new member begins with the next numbers of its PE. It handles broadcasts that
//! were sent after its creation, and may handle those that were in flight then.

mod streams;

pub(in crate::pe) use streams::{Streams, is_stream};

use crate::Actor;
use crate::address::id::{ActorId, CollectionId, KindId, Sender};
use crate::error::JobError;
use crate::message::envelope::Header;
use crate::message::payload::Payload;
use crate::message::{Asked, BroadcastOrder, Control, Earlier};
use crate::pe::core::Core;
use crate::pe::delivery::channel;
use crate::pe::members::member::Member;
use streams::{stream_of, streams_to};

impl Core {
    /// Starts a broadcast without the total order.
    pub(crate) fn broadcast_unordered<A: Actor>(
        &mut self,
        sender: Sender,
        collection: CollectionId,
        priority: i32,
        message: A::Message,
    ) {
        let layout = &self.common.layout;
        if layout.is_guest(layout.node_of(self.me)) {
            // A guest is in no tree, so it has no plan to all nodes. This requests a number from
            // the coordinator, which drops the request of a guest.
            return self.broadcast::<A>(sender, collection, priority, message);
        }
        let Some(kind) = self.kind_in::<A>(collection) else { return };
        if self.is_secondary(sender) {
            return;
        }
        let number = self.delivery.system.take_next(streams_to(collection), priority);
        let asked = Asked { source: stream_of(self.me), count: 0, earlier: Earlier::default() };
        let message = self.traced_cast(kind, Payload::new(message));
        self.send_to_all(kind, message, |message| {
            let (order, asked) = (BroadcastOrder::Fifo(number), asked.clone());
            Control::Broadcast { kind, collection, order, asked, message, priority }
        });
    }

    /// Takes an unordered broadcast, or keeps it until the earlier ones of its stream have arrived.
    pub(in crate::pe) fn handle_unordered(
        &mut self,
        (kind_id, collection): (KindId, CollectionId),
        number: u64,
        broadcast: (Asked, Payload, i32),
    ) {
        let Some(kind) = self.common.kind(kind_id) else { return };
        let Some(local) = self.collections.get(collection) else { return };
        if local.info.kind != kind_id {
            return self.fail_type_mismatch(kind.name());
        }
        let (source, priority) = (broadcast.0.source, broadcast.2);
        let way = (source, channel(priority));
        if !local.streams.contains(way) {
            self.delivery.budget.keep_forever(Streams::STREAM_BYTES);
        }
        if local.streams.next(way) != number {
            let broadcast = self.keep_broadcast(kind_id, broadcast);
            let Some(local) = self.collections.get_mut(collection) else { return };
            if !local.streams.keep(way, number, broadcast) {
                let reason = format!("unordered broadcast {number} of {source:?} came twice");
                self.fail(JobError::Protocol(reason));
            }
            return;
        }
        self.take_unordered((kind_id, collection), broadcast);
        while let Some(local) = self.collections.get_mut(collection)
            && let Some(broadcast) = local.streams.take_early(way)
        {
            self.take_unordered((kind_id, collection), broadcast.into_inner());
        }
    }

    /// Takes the broadcast whose turn has come in its stream: gives it to the resident members, and
    /// forwards it to members to which this PE owes it.
    fn take_unordered(
        &mut self,
        (kind_id, collection): (KindId, CollectionId),
        (asked, message, priority): (Asked, Payload, i32),
    ) {
        let source = asked.source;
        let Some(local) = self.collections.get_mut(collection) else { return };
        let (number, debts) = local.streams.pass((source, channel(priority)));
        let origin = self.me;
        let header = |to: ActorId, epoch| Header {
            priority,
            epoch,
            ..Header::new(to, source, number, origin)
        };
        let members = self.members[kind_id.index()].iter().flatten();
        let expects = |member: &Member| {
            let channels = member.channels.as_deref();
            channels.map_or(0, |known| known.passed(source, priority)) <= number
        };
        let headers: Vec<Header> = members
            .filter(|member| member.id.collection == collection && expects(member))
            .map(|member| header(member.id, 0))
            .collect();
        let mut owed = self.in_transit(collection);
        owed.extend(debts.into_iter().map(|key| ActorId { collection, key }));
        let owed = owed.into_iter().map(|to| header(to, self.believed_epoch(to))).collect();
        self.give_broadcast(kind_id, (headers, owed), message);
    }
}
