//! What came too early: before the description of its collection, or before its receiver.

use super::{DETOUR_HOLD, Early, Held, UNKNOWN_MEMBER_HOLD};
use crate::envelope::AnyEnvelope;
use crate::error::JobError;
use crate::id::{ActorId, CollectionId, KindId};
use crate::pe::core::Core;

impl Core {
    /// Keeps what came before the description of its collection. The root knows all collections.
    pub(in crate::pe) fn keep_early(&mut self, collection: CollectionId, early: Early) {
        match &self.root {
            Some(root) if !root.collections.contains_key(&collection) => {
                self.fail_no_collection(collection);
            }
            _ => self.early.entry(collection).or_default().push(early),
        }
    }

    pub(in crate::pe) fn fail_no_collection(&mut self, collection: CollectionId) {
        self.fail(JobError::Protocol(format!(
            "something was sent to collection {}, which does not exist",
            collection.0
        )));
    }

    /// Keeps a message for an actor that should arrive here.
    pub(in crate::pe) fn hold_boxed(
        &mut self,
        id: ActorId,
        kind: KindId,
        envelope: Box<dyn AnyEnvelope>,
    ) {
        let is_home = self.home(id) == Some(self.me);
        let deadline = self.now + if is_home { UNKNOWN_MEMBER_HOLD } else { DETOUR_HOLD };
        let envelope = self.keep(kind, envelope);
        self.awaiting.entry(id).or_insert_with(|| Held::new(kind, deadline)).push(envelope);
    }

    /// Whether messages for this member wait here, at home, for an insertion that nobody may ever
    /// ask for.
    pub(in crate::pe) fn is_stranded(&self, id: ActorId) -> bool {
        self.home(id) == Some(self.me) && self.directory.place(id).is_none()
    }

    /// Counts the stranded messages, and remembers which they are for
    /// [`drop_stranded`](Self::drop_stranded).
    pub(in crate::pe) fn report_stranded(&mut self) -> u64 {
        let mut count = 0;
        for id in self.awaiting.keys().copied().collect::<Vec<_>>() {
            let is_stranded = self.is_stranded(id);
            if let Some(held) = self.awaiting.get_mut(&id) {
                held.reported = if is_stranded { held.envelopes.len() } else { 0 };
                count += held.reported as u64;
            }
        }
        count
    }

    /// Drops the stranded messages that were reported last: the root knows that no insertion was on
    /// its way by then.
    pub(in crate::pe) fn drop_stranded(&mut self) {
        let reported = self.awaiting.iter().filter(|(_, held)| held.reported > 0);
        for id in reported.map(|(&id, _)| id).collect::<Vec<_>>() {
            if !self.is_stranded(id) {
                continue;
            }
            let Some(mut held) = self.awaiting.remove(&id) else { continue };
            let late = held.envelopes.split_off(held.reported);
            held.envelopes
                .into_iter()
                .for_each(|envelope| self.drop_dead_letter(envelope.into_inner()));
            if !late.is_empty() {
                self.awaiting.insert(id, Held { envelopes: late, reported: 0, ..held });
            }
        }
    }

    /// Deals with messages whose receiver has not turned up for long: home gives up on members that
    /// it does not know, other PEs leave the messages to home.
    pub(in crate::pe) fn expire_awaiting(&mut self) {
        let now = self.now;
        let expired = self.awaiting.iter().filter(|(_, held)| held.deadline <= now);
        let late: Vec<_> = expired.map(|(&id, _)| id).collect();
        for id in late {
            let Some(mut held) = self.awaiting.remove(&id) else { continue };
            match self.home(id) {
                Some(home) if home != self.me => {
                    for envelope in held.envelopes {
                        let mut envelope = envelope.into_inner();
                        envelope.header_mut().epoch = 0;
                        self.forward(held.kind, home, envelope);
                    }
                }
                _ if self.directory.place(id).is_some() => {
                    held.deadline = now + UNKNOWN_MEMBER_HOLD;
                    self.awaiting.insert(id, held);
                }
                _ => {
                    held.envelopes
                        .into_iter()
                        .for_each(|envelope| self.drop_dead_letter(envelope.into_inner()));
                }
            }
        }
    }
}
