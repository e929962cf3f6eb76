//! Broadcasts whose message goes from the sender to all PEs while the coordinator numbers them.
//!
//! **Start.** If a message has at least `DIRECT_BYTES_MIN` and its sender is not on the
//! coordinator's node, the sender's PE hands it to the relay of its node, with a plan that starts
//! at that node, and requests a number from the coordinator. So the message takes no detour through
//! the coordinator, and travels while its number is fetched.
//!
//! **Steady state.** The coordinator orders these requests together with those that carry a
//! message, and sends the number to all PEs. A PE matches message and number by the sender and the
//! sender's count, in whichever order they arrive, and takes the broadcast in its turn.
//!
//! **Failure.** Message and number are both counted, so that the job is not quiescent while one is
//! missing; neither is lost unless a node is lost.

use crate::address::id::{ActorId, COORDINATOR, CollectionId, KindId};
use crate::error::JobError;
use crate::message::payload::Payload;
use crate::message::{
    Asked, BroadcastOrder, Control, FlowId, OutgoingControl, Packet, Spread, Travel, Wanted,
};
use crate::pe::core::Core;
use crate::pe::delivery::Accounted;
use crate::pe::fault::PlantedFault;
use gridspan_topology::PeId;

/// Minimum size of a direct broadcast. A smaller message goes to the coordinator and gets its
/// number there, which costs less than sending the number separately. At 50 Mbit/s this many bytes
/// take 0.7 ms.
const DIRECT_BYTES_MIN: usize = 4 << 10;
/// Bytes of memory for a number that waits for its message, in a B-tree of which each node is at
/// least half full.
const NUMBER_BYTES: usize = 2 * size_of::<((ActorId, u64), Accounted<u64>)>();

impl Core {
    /// Sends a message to all PEs and requests its number from the coordinator. Returns the message
    /// instead if it is small, or if this is the coordinator's node or a guest.
    pub(super) fn broadcast_directly(
        &mut self,
        (kind, collection): (KindId, CollectionId),
        asked: &Asked,
        message: Payload,
        priority: i32,
    ) -> Option<Payload> {
        let layout = self.common.layout.clone();
        let node = layout.node_of(self.me);
        if node == self.common.coordinator || layout.is_guest(node) {
            return Some(message);
        }
        // The message is encoded for other nodes in any case.
        let encoded = message.to_bytes();
        if encoded.len() < DIRECT_BYTES_MIN {
            return Some(Payload::Bytes(encoded));
        }
        let broadcast = |message| {
            let (order, asked) = (BroadcastOrder::TotalApart, asked.clone());
            Control::Broadcast { kind, collection, order, asked, message, priority }
        };
        let travel = self.cast_to_others(&broadcast(Payload::Bytes(encoded)));
        let is_alone = self.is_alone(collection, asked);
        let (wanted, asked) = (Wanted::Number(travel), asked.without_earlier());
        self.post(
            COORDINATOR,
            Control::BroadcastRequest { kind, collection, asked, wanted, priority, is_alone },
        );
        let (last, control) = self.post_copies(kind, message, broadcast)?;
        self.post(last, control);
        None
    }

    /// Sends a numbered broadcast to all PEs directly from this node.
    pub(super) fn send_to_all(
        &mut self,
        kind: KindId,
        message: Payload,
        broadcast: impl Fn(Payload) -> Control,
    ) {
        let Some((last, control)) = self.post_copies(kind, message, broadcast) else { return };
        if self.has_others() {
            let travel = self.cast_to_others(&control);
            self.post(COORDINATOR, Control::CastBegun(travel));
        }
        self.post(last, control);
    }

    /// Hands a broadcast to the relay of this node, which forwards it to all other nodes by a plan
    /// from this node. Returns its flow, plan and size.
    pub(super) fn cast_to_others(&mut self, broadcast: &Control) -> Travel {
        let control = OutgoingControl::new(broadcast);
        let bytes = control.bytes() as u64;
        let sub_plan = self.own_sub_plan(bytes);
        let flow = FlowId::Direct(self.me, self.own_plans.begin());
        let travel = Travel { flow, plan: sub_plan.plan().id(), bytes };
        let pes = self.common.layout.pe_count();
        self.created += u64::from(pes) - self.pes_here().len() as u64;
        let multicast =
            Spread::SegmentedMulticast { multicast: control, sub_plan, report: Some(flow) };
        self.outbox.packet(self.me, Packet::spread(multicast));
        travel
    }

    /// Posts a broadcast to all PEs of this node but the last. Returns the last PE, with the
    /// broadcast for it, which contains the original of the message.
    pub(super) fn post_copies(
        &mut self,
        kind: KindId,
        message: Payload,
        broadcast: impl Fn(Payload) -> Control,
    ) -> Option<(PeId, Control)> {
        let copies = self.common.kind(kind)?;
        let mut here = self.pes_here();
        let last = here.next_back()?;
        for pe in here {
            self.post(pe, broadcast(copies.copy(&message)));
        }
        Some((last, broadcast(message)))
    }

    /// Handles the message of a direct broadcast.
    pub(in crate::pe) fn handle_direct(
        &mut self,
        (kind_id, collection): (KindId, CollectionId),
        broadcast: (Asked, Payload, i32),
    ) {
        let Some(kind) = self.common.kind(kind_id) else { return };
        let Some(local) = self.collections.get_mut(collection) else { return };
        if local.info.kind != kind_id {
            return self.fail_type_mismatch(kind.name());
        }
        let Asked { source, count, .. } = broadcast.0;
        if let Some(number) = local.broadcasts.numbered.remove(&(source, count)) {
            return self.handle_broadcast((kind_id, collection), number.into_inner(), broadcast);
        }
        let broadcast = self.keep_broadcast(kind_id, broadcast);
        if let Some(local) = self.collections.get_mut(collection) {
            let before = local.broadcasts.unnumbered.insert((source, count), broadcast);
            if before.is_some() {
                let reason = format!("broadcast {count} of {source:?} came twice");
                self.fail(JobError::Protocol(reason));
            }
        }
    }

    /// Handles the number of a direct broadcast.
    pub(in crate::pe) fn handle_number(
        &mut self,
        collection: CollectionId,
        number: u64,
        name: (ActorId, u64),
    ) {
        let Some(local) = self.collections.get_mut(collection) else { return };
        let kind = local.info.kind;
        let first = local.broadcasts.unnumbered.keys().next().copied();
        let name = match self.common.fault {
            PlantedFault::NumbersMixed => first.unwrap_or(name),
            _ => name,
        };
        match local.broadcasts.unnumbered.remove(&name) {
            Some(broadcast) => {
                self.handle_broadcast((kind, collection), number, broadcast.into_inner());
            }
            None => {
                let number = self.delivery.budget.keep(number, NUMBER_BYTES);
                local.broadcasts.numbered.insert(name, number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::collection::{CollectionInfo, Map};
    use crate::address::index::Key;
    use crate::job::program::Program;
    use crate::message::Earlier;
    use crate::{Actor, Context, Ix1, Job};
    use gridspan_topology::Layout;
    use serde::{Deserialize, Serialize};
    use std::any::TypeId;

    #[derive(Serialize, Deserialize)]
    struct Idle;

    impl Actor for Idle {
        type Index = Ix1;
        type Init = ();
        type Message = u8;

        fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
            Self
        }

        fn handle(&mut self, _message: u8, _cx: &mut Context<'_, Self>) {}
    }

    #[test]
    fn a_number_counts_in_the_budget_until_its_message_arrives() {
        let layout = Layout::new(vec![("a".to_owned(), vec![2])]);
        let job = Job::new("numbers").actor::<Idle>().main(async |_| Ok::<(), JobError>(()));
        let mut pe = Program::new(job, layout).unwrap().pe(PeId(1));
        let core = &mut pe.core;
        let kind = core.common.kind_of(TypeId::of::<Idle>()).unwrap();
        let id = CollectionId(0);
        let info = CollectionInfo { id, kind, map: Map::Block, shape: None, members: 0 };
        assert!(core.enter_collection(info));
        let source = ActorId { collection: id, key: Key(0) };

        core.handle_number(id, 0, (source, 1));
        assert_eq!(core.delivery.budget.bytes(), NUMBER_BYTES);

        let asked = Asked { source, count: 1, earlier: Earlier::default() };
        core.handle_direct((kind, id), (asked, Payload::new(0_u8), 0));
        assert_eq!(core.early_broadcasts(), 0);
        // The sender is remembered.
        assert!(core.delivery.budget.bytes() < NUMBER_BYTES);
    }
}
