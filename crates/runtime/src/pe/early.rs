//! What came too early: before the description of its collection, or before its receiver.

use super::core::Core;
use super::state::{Early, Held, UNKNOWN_MEMBER_HOLD};
use crate::envelope::AnyEnvelope;
use crate::error::JobError;
use crate::id::{ActorId, CollectionId, KindId};

impl Core {
    /// Keeps what came before the description of its collection. The root knows all collections.
    pub(super) fn keep_early(&mut self, collection: CollectionId, early: Early) {
        match &self.root {
            Some(root) if !root.collections.contains_key(&collection) => {
                self.fail_no_collection(collection);
            }
            _ => self.early.entry(collection).or_default().push(early),
        }
    }

    pub(super) fn fail_no_collection(&mut self, collection: CollectionId) {
        self.fail(JobError::Protocol(format!(
            "something was sent to collection {}, which does not exist",
            collection.0
        )));
    }

    /// Keeps a message for an actor that should arrive here.
    pub(super) fn hold_boxed(&mut self, id: ActorId, kind: KindId, envelope: Box<dyn AnyEnvelope>) {
        let now = self.now;
        let envelope = self.keep(kind, envelope);
        self.awaiting.entry(id).or_insert_with(|| Held::new(kind, now)).push(envelope);
    }

    /// Deals with messages whose receiver has not turned up for long: home gives up on members that
    /// it does not know, other PEs leave the messages to home.
    pub(super) fn expire_awaiting(&mut self) {
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
                        .for_each(|envelope| self.bury(envelope.into_inner()));
                }
            }
        }
    }
}
