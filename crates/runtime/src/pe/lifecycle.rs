//! Members that end or may not move; budgets; the end of the job.

use super::core::Core;
use super::replicas::{ReplicaState, Then};
use super::state::Member;
use crate::collection::PlanEntry;
use crate::definition::Definition;
use crate::error::JobError;
use crate::id::{ActorId, CollectionId, KindId};
use crate::pending_work::counted;
use crate::wire::Control;
use bytes::Bytes;
use gridspan_topology::PeId;

impl Core {
    /// Whether a member that never moves has ended here: its collection is known, and it is not
    /// there.
    pub(crate) fn is_closed(&self, id: ActorId) -> bool {
        self.collections.get(id.collection).is_some() && self.resident(id).is_none()
    }

    /// Whether the actor may move to `to` now. During a rebalance, it will be moved afterwards.
    pub(super) fn may_leave(&mut self, (kind, slot): (KindId, u32), to: PeId) -> bool {
        let Some(id) = self.member(kind, slot).map(|member| member.id) else { return false };
        let migratable =
            self.collections.get(id.collection).is_some_and(|local| local.info.migratable());
        if !migratable || !self.common.layout.contains(to) {
            self.fail(JobError::Failed(format!(
                "member {:?} of collection {} cannot move to {to}: {}",
                id.key,
                id.collection.0,
                if migratable {
                    "there is no such PE"
                } else {
                    "members of groups stay where they are"
                },
            )));
            return false;
        }
        if self.rebalance.is_some() {
            self.deferred.push((id, to));
            return false;
        }
        match self.replicas.get(id).map(ReplicaState::is_secondary) {
            None => true,
            // The primary has the same wish.
            Some(true) => false,
            Some(false) => {
                self.end_replica(id, Then::Wish(to));
                false
            }
        }
    }

    /// Migrations that were asked for during a rebalance, once it is over.
    pub(super) fn take_deferred(&mut self) -> Vec<(ActorId, PeId)> {
        match self.rebalance {
            None => std::mem::take(&mut self.deferred),
            Some(_) => Vec::new(),
        }
    }

    /// Forgets a member that was destroyed, and the messages in its mailbox.
    pub(super) fn remove_member(&mut self, id: ActorId, kind: KindId, slot: u32) {
        let Some((member, mailbox)) = self.take_out(kind, slot) else { return };
        self.free[kind.index()].push(slot);
        for _ in mailbox {
            self.dead_letter(id, "it was destroyed");
        }
        self.announce_death(kind, member);
    }

    /// Takes a member from its slot, which is not free yet, and its messages from the queue: rank
    /// and encoded message.
    pub(super) fn take_out(
        &mut self,
        kind: KindId,
        slot: u32,
    ) -> Option<(Member, Vec<(i32, Bytes)>)> {
        let mut member = self.members[kind.index()][slot as usize].take()?;
        self.keep_edges(&mut member);
        if let Some(local) = self.collections.get_mut(member.id.collection) {
            local.slots.remove(member.id.key);
        }
        let (queue, lanes) = self.split_queue(kind);
        let (mailbox, bytes) = queue.extract(kind, slot, lanes);
        self.ready_bytes -= bytes;
        Some((member, mailbox))
    }

    /// A plan moves an actor that ended before: the PE where others believe it now learns better,
    /// unless it is the home, which waits for the tombstone.
    pub(super) fn correct_plan(&mut self, entry: &PlanEntry) {
        if let Some(place) = self.directory.place(entry.id)
            && self.home(entry.id) != Some(entry.to)
        {
            self.tell_place(entry.to, entry.id, place);
        }
    }

    /// Whether a member may leave the `syncs`-th sync point that it has reached. Where nothing is
    /// ever balanced, nobody waits.
    pub(super) fn may_leave_sync(&self, collection: CollectionId, syncs: u64) -> bool {
        !self.common.balancing.is_active()
            || self.collections.get(collection).is_some_and(|local| local.may_leave_sync(syncs))
    }

    /// Whether the member waits at its sync point and may leave it, which it does then.
    pub(super) fn leave_sync(&mut self, kind: KindId, slot: u32) -> bool {
        let Some(member) = self.member(kind, slot) else { return false };
        let (collection, syncs, synced) = (member.id.collection, member.syncs, member.synced);
        let leaves = synced && self.may_leave_sync(collection, syncs);
        if leaves && let Some(member) = self.member(kind, slot) {
            member.synced = false;
        }
        leaves
    }

    /// The root has settled that many sync points of the collection. Returns the members that may
    /// leave theirs for it.
    pub(super) fn take_settled(
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

    /// The bytes that this PE has waiting: what is ready, what waits for something before it
    /// (`keep`), what waits outside, and what handlers have sent in this turn.
    #[inline]
    fn queued_bytes(&self) -> usize {
        self.ready_bytes + self.budget.bytes() + self.waiting_bytes + self.outbox.bytes()
    }

    /// Whether what waits has outgrown the budget.
    #[inline]
    pub(super) fn is_over_budget(&self) -> bool {
        self.queued_bytes() > self.common.limits.hard_bytes
    }

    /// Whether so much more fits the budget.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.queued_bytes().saturating_add(bytes) <= self.common.limits.hard_bytes
    }

    /// Ends the job when what waits outgrows its budget. Out of line: senders ask first whether it
    /// does.
    #[cold]
    pub(super) fn check_budget(&mut self) {
        let limit = self.common.limits.hard_bytes;
        let (held, queued) = (self.budget.bytes(), self.queued_bytes());
        if queued <= limit || self.failure.is_some() {
            return;
        }
        let error = JobError::OverBudget {
            pe: self.me,
            place: self.place_name(),
            queued_bytes: queued as u64,
            held_bytes: held as u64,
            limit_bytes: limit as u64,
            fullest: self.fullest_mailboxes(),
        };
        self.fail(error);
    }

    /// The members with most messages waiting, for people.
    fn fullest_mailboxes(&mut self) -> String {
        const SHOWN: usize = 3;
        let mut all = Vec::new();
        for (kind, known) in self.common.clone().kinds() {
            let ready = self.split_queue(kind).0.waiting();
            for (slot, member) in (0u32..).zip(&self.members[kind.index()]) {
                let Some(member) = member else { continue };
                let held = member.channels.as_ref().map_or(0, |known| known.held.len() as u64);
                let messages = ready.get(&slot).copied().unwrap_or(0) + held;
                if messages > 0 {
                    all.push((messages, held, known.name(), member.id));
                }
            }
        }
        all.sort_by_key(|&(messages, _, _, id)| (std::cmp::Reverse(messages), id));
        let line = |&(messages, held, name, id): &(u64, u64, &str, ActorId)| {
            let early =
                if held > 0 { format!(", {held} of them too early") } else { String::new() };
            let messages = counted(messages, "message", "messages");
            format!("{name} {:?} with {messages}{early}", id.key)
        };
        let mut lines: Vec<String> = all.iter().take(SHOWN).map(line).collect();
        for (kind, pe, bytes) in self.outbox.fullest(SHOWN - lines.len()) {
            lines.push(format!("{bytes} bytes just sent to {} on {pe}", self.kind_name(kind)));
        }
        lines.join(", ")
    }

    fn kind_name(&self, kind: KindId) -> &'static str {
        self.kind(kind).map_or("actors of an unknown type", |kind| kind.name())
    }

    /// Ends the job since another PE of this node does not take what waits for it. It may be inside
    /// of a handler, and cannot see that itself.
    pub(super) fn fail_full(&mut self, pe: PeId, bytes: usize, fullest: &[(KindId, usize)]) {
        let layout = &self.common.layout;
        let (node, site) = (layout.node_of(pe), layout.site_name(layout.site_of(pe)));
        let line = |&(kind, bytes): &(KindId, usize)| {
            format!("{} on {pe} with {bytes} bytes", self.kind_name(kind))
        };
        let error = JobError::OverBudget {
            pe,
            place: format!("{node} at site {site}"),
            queued_bytes: bytes as u64,
            held_bytes: 0,
            limit_bytes: self.common.limits.hard_bytes as u64,
            fullest: fullest.iter().map(line).collect::<Vec<_>>().join(", "),
        };
        self.fail(error);
    }

    /// Ends the job on all PEs. Runs on the root.
    pub(crate) fn stop(&mut self, outcome: Result<(), JobError>) {
        if self.outcome.is_none() {
            self.handle_stop(outcome);
        }
    }

    /// Stops. The root tells the first PE of every node, and that one the others of its node, so
    /// that no node which was lost stands between.
    pub(crate) fn handle_stop(&mut self, outcome: Result<(), JobError>) {
        if self.outcome.is_some() {
            return;
        }
        self.conclude_balances();
        let layout = self.common.layout.clone();
        let node = layout.node_of(self.me);
        if layout.leader(node) == self.me {
            for pe in layout.place(node).pes.clone().skip(1).map(PeId) {
                self.post(pe, Control::Stop { outcome: outcome.clone() });
            }
        }
        if self.me == Self::ROOT {
            let founders = layout.nodes().skip(1).map(|other| layout.leader(other));
            for leader in founders.chain(self.guest_leaders()) {
                self.post(leader, Control::Stop { outcome: outcome.clone() });
            }
        }
        self.outcome = Some(outcome);
    }

    /// Another node runs this program. The root compares it with its own: nothing else would notice
    /// that the node takes values for others.
    pub(super) fn handle_greet(&mut self, from: PeId, definition: &Definition) {
        let layout = &self.common.layout;
        let node = layout.node_of(from);
        let site = layout.site_name(layout.site_of(from)).to_owned();
        let (own, host) = (&self.common.definition, definition.origin.host.clone());
        if let Some(difference) = own.difference(definition) {
            return self.fail(JobError::OtherProgram { node, site, host, difference });
        }
        if own.is_of_other_build(definition) {
            let text = format!(
                "{node} at site {site}, on host {host}, runs another build of the program; what travels has the same \
                 structure"
            );
            self.common.watch.on_warning.iter().for_each(|tell| tell(&text));
        }
        self.note_greeting(node);
    }
}
