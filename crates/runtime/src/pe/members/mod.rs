//! Resident members: how they leave their slots and their sync points; and the count of finished
//! moves.

pub(in crate::pe) mod member;

use crate::address::id::{ActorId, COORDINATOR, CollectionId, KindId, RebalanceId, Slot};
use crate::message::{Control, Moves};
use crate::pe::core::Core;
use crate::pe::members::member::Member;
use bytes::Bytes;

impl Core {
    /// Whether a member that never moves has ended here: its collection is known, and the member is
    /// not here.
    pub(crate) fn is_closed(&self, id: ActorId) -> bool {
        self.collections.get(id.collection).is_some() && self.resident(id).is_none()
    }

    /// Removes a member from its slot, without freeing the slot, and its messages from the queue.
    /// Returns the member, and its messages as priority and encoded message.
    pub(in crate::pe) fn take_out(
        &mut self,
        kind: KindId,
        slot: u32,
    ) -> Option<(Member, Vec<(i32, Bytes)>)> {
        let mut member = self.members[kind.index()][slot as usize].take()?;
        self.keep_edges(&mut member);
        if let Some(local) = self.collections.get_mut(member.id.collection) {
            local.slots.remove(member.id.key);
        }
        let queue = &mut self.queues[kind.index()];
        let (mailbox, bytes) = queue.extract(kind, slot, &mut self.lanes);
        self.ready_bytes -= bytes;
        Some((member, mailbox))
    }

    /// Whether a member may leave its `syncs`-th sync point, counted from one. Without balancing no
    /// member waits.
    pub(in crate::pe) fn may_leave_sync(&self, collection: CollectionId, syncs: u64) -> bool {
        !self.common.balancing.is_active()
            || self.collections.get(collection).is_some_and(|local| local.may_leave_sync(syncs))
    }

    /// Whether a member waits at a sync point that it may leave.
    pub(in crate::pe) fn may_resume(&mut self, slot: Slot) -> bool {
        let Some(member) = self.member(slot.kind, slot.index) else { return false };
        let (collection, syncs, synced) = (member.id.collection, member.syncs, member.synced);
        synced && self.may_leave_sync(collection, syncs)
    }

    /// Notes that a member leaves its sync point.
    pub(in crate::pe) fn leave_sync(&mut self, slot: Slot) {
        if let Some(member) = self.member(slot.kind, slot.index) {
            member.synced = false;
        }
    }

    /// Notes that the coordinator has settled `syncs` sync points of the collection. Returns the
    /// type and the slots of the members that wait at a sync point.
    pub(in crate::pe) fn take_settled(
        &mut self,
        collection: CollectionId,
        syncs: u64,
    ) -> Option<(KindId, Vec<u32>)> {
        let local = self.collections.get_mut(collection)?;
        local.settled_syncs = local.settled_syncs.max(syncs);
        let kind = local.info.kind;
        let waits = |(slot, member): (u32, &Option<Member>)| {
            let member = member.as_ref().filter(|member| member.synced)?;
            (member.id.collection == collection).then_some(slot)
        };
        let slots = (0..).zip(&self.members[kind.index()]).filter_map(waits).collect();
        Some((kind, slots))
    }

    /// Notes a finished move of a plan: the actor lives here now, or could not leave. This PE
    /// reports its finished moves once per turn.
    pub(crate) fn note_moved(&mut self, plan: Option<RebalanceId>, has_arrived: bool) {
        let Some(plan) = plan else { return };
        let Moves { arrived, stayed } = self.moved.entry(plan).or_default();
        *(if has_arrived { arrived } else { stayed }) += 1;
    }

    pub(crate) fn report_moved(&mut self) {
        while let Some((rebalance, moves)) = self.moved.pop_first() {
            self.post(COORDINATOR, Control::PlanDone { rebalance, moves });
        }
    }
}
