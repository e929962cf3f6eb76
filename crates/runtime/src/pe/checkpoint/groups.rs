//! Members of resized groups: groups whose size has changed since the checkpoint.
//!
//! **Start.** Before a PE reads any part, it registers the members that resized groups get on this
//! PE, without their actors. Their mailboxes keep messages for them.
//!
//! **Steady state.** When a former member arrives, the PE keeps it for its successor. It merges
//! former members later in a fixed order, so the result does not depend on the order of arrival.
//!
//! **End.** When all PEs continue, each PE builds the actors: from the first former member, into
//! which it merges the others, or from the job's initial value if there is none. The messages of
//! former members come before those that have arrived since.

use super::resizing::Resizing;
use super::restoration::ResizedGroup;
use super::state::restoring::Forming;
use crate::address::collection::Map;
use crate::address::id::{ActorId, CollectionId, Slot};
use crate::address::index::{ActorIndex, Ix1};
use crate::error::JobError;
use crate::message::MemberImage;
use crate::pe::core::Core;
use crate::pe::members::member::Member;
use crate::pe::migrate;
use crate::pe::{Pe, PlantedFault};
use bytes::Bytes;
use std::collections::BTreeMap;

impl Core {
    /// Registers the members that resized groups get on this PE.
    pub(super) fn enter_forming(&mut self) {
        let Some(restoration) = self.checkpointing.restoring.restoration.clone() else { return };
        for (&collection, group) in &restoration.groups {
            let Some(id) = self.group_member(collection, group) else { continue };
            let entered = migrate::channels(self, group.kind, &group.record(), &[]);
            let channels = match entered {
                Ok(channels) => channels,
                Err(error) => return self.fail(JobError::Protocol(error.to_string())),
            };
            let member = migrate::member(id, 0, &group.record(), channels, 0);
            let slot = Slot { kind: group.kind, index: self.add_member(group.kind, member) };
            let former = BTreeMap::new();
            self.checkpointing.restoring.forming.insert(id, Forming { slot, former });
        }
    }

    /// The member that a resized group gets on this PE.
    fn group_member(&self, collection: CollectionId, group: &ResizedGroup) -> Option<ActorId> {
        let layout = &self.common.layout;
        let number = match self.collections.get(collection)?.info.map {
            Map::PerNode => layout.node_of(self.me).0,
            _ => self.me.0,
        };
        let id = ActorId { collection, key: Ix1(number as i32).key() };
        (number < group.members && self.home(id) == Some(self.me)).then_some(id)
    }

    /// Keeps a former member of a resized group until its successor is built. Returns any other
    /// member.
    pub(super) fn keep_former(&mut self, member: MemberImage) -> Option<MemberImage> {
        let restoration = self.checkpointing.restoring.restoration.clone();
        let Some(group) = restoration.as_ref().and_then(|it| it.groups.get(&member.id.collection))
        else {
            return Some(member);
        };
        let (order, key) = group.successor(member.id.key)?;
        let id = ActorId { key, ..member.id };
        if let Some(forming) = self.checkpointing.restoring.forming.get_mut(&id) {
            self.created += member.mailbox.len() as u64;
            forming.former.insert(order, member);
        }
        None
    }

    /// Puts the messages of former members into the mailbox of their successor, before those that
    /// it has.
    fn put_before(&mut self, Slot { kind, index }: Slot, mailbox: &[(i32, Bytes)]) {
        let (later, bytes) = self.queues[kind.index()].extract(kind, index, &mut self.lanes);
        self.ready_bytes -= bytes;
        self.refill(kind, index, mailbox);
        self.refill(kind, index, &later);
    }
}

impl Pe {
    /// Builds the actors of resized groups.
    pub(super) fn form_groups(&mut self) {
        for (id, forming) in std::mem::take(&mut self.core.checkpointing.restoring.forming) {
            self.core.running = Some(forming.slot.kind);
            if let Err(error) = self.form(id, forming) {
                return self.core.fail(error);
            }
        }
        self.core.running = None;
    }

    fn form(&mut self, id: ActorId, Forming { slot, former }: Forming) -> Result<(), JobError> {
        let Some(rule) = self.core.common.resizing.get(&slot.kind).cloned() else { return Ok(()) };
        let Resizing::Merge { init, merge } = rule else { return Ok(()) };
        let mut mailbox = Vec::new();
        let is_new = former.is_empty();
        for (position, image) in former.into_values().enumerate() {
            let state = self.decode_state(slot.kind, &image.state)?;
            self.core
                .check_messages(slot.kind, image.mailbox.iter().map(|(_, message)| message))?;
            let Self { core, stores, .. } = self;
            let store = &mut stores[slot.kind.index()];
            if let Some(member) = core.member(slot.kind, slot.index) {
                take_over(member, &image, position == 0);
            }
            if position == 0 || core.common.fault != PlantedFault::MergedMailboxesLeftOut {
                mailbox.extend(image.mailbox);
            }
            if position > 0 {
                store.merge(core, slot.index, state, &merge);
                continue;
            }
            store.put_aside(slot.index, state);
            core.checkpointing.restoring.restored.push((slot.kind, slot.index));
        }
        let Self { core, stores, .. } = self;
        if is_new {
            stores[slot.kind.index()].fill(core, slot.index, init(id.key))?;
        }
        core.put_before(slot, &mailbox);
        Ok(())
    }
}

/// Copies the numbers of the next section reductions from a former member and, if it is the first
/// one, its sync point.
fn take_over(member: &mut Member, former: &MemberImage, is_first: bool) {
    if is_first {
        (member.syncs, member.synced) = (former.syncs, former.synced);
    }
    for &(section, next) in &former.section_reductions {
        let sections = &mut member.channels.get_or_insert_default().section_reductions;
        let known = sections.entry(section).or_default();
        *known = next.max(*known);
    }
}
