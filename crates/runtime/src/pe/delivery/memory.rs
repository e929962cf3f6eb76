//! The memory budget of a PE. The job ends when waiting messages exceed it.
//!
//! A message may wait for earlier messages or for broadcasts, and a broadcast for messages or for
//! earlier broadcasts. Both may wait for a receiver or a collection that is not known here yet.
//! Such messages are not ready, and only further messages can end the wait. So they count towards
//! the hard limit, at which the job ends with an error, but not towards the soft limit: above it a
//! PE takes no more from its inbox and holds senders back, and the awaited messages would never
//! arrive. The same holds for initial values that wait for the rest of their collection.

use super::budget::{Accounted, AccountedBroadcast, AccountedEnvelope};
use crate::address::id::{ActorId, CollectionId, KindId};
use crate::error::JobError;
use crate::message::Asked;
use crate::message::envelope::AnyEnvelope;
use crate::message::payload::Payload;
use crate::message::pending_work::counted;
use crate::pe::collective::collections::Incomplete;
use crate::pe::core::Core;
use gridspan_topology::PeId;

impl Core {
    /// Counts a message in the budget while it waits.
    pub(crate) fn keep(&self, kind: KindId, envelope: Box<dyn AnyEnvelope>) -> AccountedEnvelope {
        let bytes = self.common.kind(kind).map_or(0, |kind| kind.envelope_bytes(&*envelope));
        self.delivery.budget.keep(envelope, bytes)
    }

    /// Counts a broadcast in the budget while it waits for its turn.
    pub(crate) fn keep_broadcast(
        &self,
        kind: KindId,
        broadcast: (Asked, Payload, i32),
    ) -> AccountedBroadcast {
        let bytes = self.payload_bytes(kind, &broadcast.1) + broadcast.0.earlier.bytes();
        let bytes = size_of_val(&broadcast) + bytes;
        self.delivery.budget.keep(broadcast, bytes)
    }

    /// Counts initial values in the budget while the rest of their collection is missing.
    pub(crate) fn keep_inits(&self, inits: Payload) -> Accounted<Payload> {
        let bytes = size_of::<(CollectionId, Incomplete)>() + inits.wire_len();
        self.delivery.budget.keep(inits, bytes)
    }

    /// Returns the number of bytes counted for a message that has no single receiver.
    fn payload_bytes(&self, kind: KindId, message: &Payload) -> usize {
        self.common.kind(kind).map_or(0, |kind| kind.payload_bytes(message))
    }

    /// Number of bytes that wait on this PE: ready messages, messages that wait for earlier ones,
    /// messages outside the PE, and messages that handlers have sent in this turn.
    #[inline]
    fn queued_bytes(&self) -> usize {
        self.ready_bytes + self.delivery.budget.bytes() + self.waiting_bytes + self.outbox.bytes()
    }

    /// Whether waiting messages exceed the budget.
    #[inline]
    pub(in crate::pe) fn is_over_budget(&self) -> bool {
        self.queued_bytes() > self.common.limits.hard_bytes
    }

    /// Whether `bytes` more fit into the budget.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.queued_bytes().saturating_add(bytes) <= self.common.limits.hard_bytes
    }

    /// Ends the job if waiting messages exceed the budget. Out of line: callers first call
    /// [`is_over_budget`](Self::is_over_budget).
    #[cold]
    pub(crate) fn check_budget(&mut self) {
        let limit = self.common.limits.hard_bytes;
        let (held, queued) = (self.delivery.budget.bytes(), self.queued_bytes());
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

    /// Names the members with the most waiting messages, then the receivers of the most bytes sent
    /// in this turn.
    fn fullest_mailboxes(&mut self) -> String {
        const SHOWN: usize = 3;
        let mut all = Vec::new();
        for (kind, known) in self.common.clone().kinds() {
            let ready = self.queues[kind.index()].waiting();
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
            let early = if held > 0 {
                format!(", {held} of them wait for earlier ones")
            } else {
                String::new()
            };
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
        self.common.kind(kind).map_or("actors of an unknown type", |kind| kind.name())
    }

    /// Ends the job because another PE of this node does not take its messages. That PE may be
    /// inside a handler, and then cannot notice that its inbox is full.
    pub(crate) fn fail_full(&mut self, pe: PeId, bytes: usize, fullest: &[(KindId, usize)]) {
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
}
