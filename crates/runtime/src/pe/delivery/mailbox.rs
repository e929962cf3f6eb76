//! The mailbox: messages whose turn has come, by priority.

use super::queue::{Ready, TypedQueue};
use crate::Actor;
use crate::address::id::KindId;
use crate::error::JobError;
use crate::message::envelope::AnyEnvelope;
use crate::pe::core::Core;
use crate::pe::rank::Rank;
use bytes::Bytes;
use std::any::{Any, type_name};

/// Bytes that a message counts for in the memory budget.
#[inline]
pub(crate) fn message_bytes<A: Actor>(message: &A::Message) -> usize {
    size_of::<A::Message>() + A::heap_bytes(message)
}

impl Core {
    #[inline]
    pub(crate) fn queue<A: Actor>(
        &mut self,
        kind: KindId,
    ) -> Option<&mut TypedQueue<A, A::Message>> {
        let queue: &mut dyn Any = &mut **self.queues.get_mut(kind.index())?;
        queue.downcast_mut()
    }

    /// Whether the ready messages alone exceed the budget, so that the job is about to end. A
    /// handler that keeps sending must not take more memory.
    #[inline]
    fn has_too_much_ready(&self) -> bool {
        self.ready_bytes > self.common.limits.hard_bytes
    }

    /// Puts a message into a mailbox. The path of nearly all messages is kept short.
    #[inline]
    pub(super) fn push_ready<A: Actor>(
        &mut self,
        kind: KindId,
        slot: u32,
        priority: i32,
        message: A::Message,
    ) {
        if priority != Rank::NORMAL.priority {
            return self.push_ranked::<A>(kind, slot, priority, message);
        }
        if self.has_too_much_ready() {
            return self.check_budget();
        }
        let bytes = message_bytes::<A>(&message);
        match self.queue::<A>(kind) {
            Some(queue) => queue.normal.push_back(Ready { slot, message }),
            None => return self.fail_type_mismatch(type_name::<A>()),
        }
        self.ready_bytes += bytes;
        self.lanes.normal.push(kind, 1);
        if let Some(causes) = &mut self.lanes.causes {
            causes.push(kind, Rank::NORMAL, 1);
            self.note_ready(kind, Rank::NORMAL, None);
        }
    }

    /// Puts messages that have arrived into a mailbox, in order. Single messages and messages with
    /// a priority are checked against the budget at once. The others are in memory already, so the
    /// check at the end of the turn is enough. Recorded jobs do not call this, since each of their
    /// messages has a cause.
    pub(super) fn push_all_ready<A: Actor>(
        &mut self,
        kind: KindId,
        slot: u32,
        priority: i32,
        mut messages: impl ExactSizeIterator<Item = A::Message>,
    ) {
        if messages.len() == 1
            && let Some(message) = messages.next()
        {
            return self.push_ready::<A>(kind, slot, priority, message);
        }
        if priority != Rank::NORMAL.priority {
            return messages
                .for_each(|message| self.push_ranked::<A>(kind, slot, priority, message));
        }
        let mut bytes = 0;
        let ready = messages.map(|message| {
            bytes += message_bytes::<A>(&message);
            Ready { slot, message }
        });
        let Some(queue) = self.queue::<A>(kind) else {
            return self.fail_type_mismatch(type_name::<A>());
        };
        let before = queue.normal.len();
        queue.normal.extend(ready);
        let added = queue.normal.len() - before;
        self.ready_bytes += bytes;
        if added > 0 {
            self.lanes.normal.push(kind, added as u32);
        }
    }

    #[inline(never)]
    fn push_ranked<A: Actor>(
        &mut self,
        kind: KindId,
        slot: u32,
        priority: i32,
        message: A::Message,
    ) {
        if self.has_too_much_ready() {
            return self.check_budget();
        }
        let bytes = message_bytes::<A>(&message);
        let rank = self.rank(kind, slot, priority);
        match self.queue::<A>(kind) {
            Some(queue) => queue.push(slot, rank, message),
            None => return self.fail_type_mismatch(type_name::<A>()),
        }
        self.ready_bytes += bytes;
        self.lanes.push(kind, rank);
        if self.recording.is_some() {
            self.note_ready(kind, rank, None);
        }
    }

    /// Puts a message of a type that is not known here into a mailbox.
    pub(super) fn push_any(&mut self, kind: KindId, slot: u32, envelope: Box<dyn AnyEnvelope>) {
        if self.has_too_much_ready() {
            return self.check_budget();
        }
        let rank = self.rank(kind, slot, envelope.header().priority);
        let header = self.recording.is_some().then(|| *envelope.header());
        match self.queues[kind.index()].push_envelope(slot, rank, envelope) {
            Some(bytes) => {
                self.ready_bytes += bytes;
                self.lanes.push(kind, rank);
                if header.is_some() {
                    self.note_ready(kind, rank, header.as_ref());
                }
            }
            None => {
                self.fail_type_mismatch(self.common.kind(kind).map_or("member", |kind| kind.name()))
            }
        }
    }

    /// Puts the mailbox of a member that has arrived into the queue.
    pub(crate) fn refill(&mut self, kind: KindId, slot: u32, mailbox: &[(i32, Bytes)]) {
        for (priority, message) in mailbox {
            let rank = self.rank(kind, slot, *priority);
            match self.queues[kind.index()].push_encoded(slot, rank, message) {
                Ok(bytes) => {
                    self.ready_bytes += bytes;
                    self.lanes.push(kind, rank);
                }
                Err(error) => return self.fail(JobError::Protocol(error.to_string())),
            }
        }
    }
}
