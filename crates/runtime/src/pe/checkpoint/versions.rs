//! States and messages of a checkpoint that may be of an earlier version of their type.

use crate::address::id::KindId;
use crate::error::{JobError, StartError};
use crate::pe::Pe;
use crate::pe::actor::upgrade::OldState;
use crate::pe::core::Core;
use bytes::Bytes;
use std::any::Any;

impl Pe {
    /// Decodes a state, which may be of an earlier version of its type.
    pub(super) fn decode_state(
        &self,
        kind: KindId,
        state: &[u8],
    ) -> Result<Box<dyn Any + Send>, JobError> {
        let store = &self.stores[kind.index()];
        let restoration = self.core.checkpointing.restoring.restoration.as_ref();
        let earlier = restoration.and_then(|it| it.earlier.get(&kind));
        let (Some(earlier), Some(known)) = (earlier, self.core.common.kind(kind)) else {
            return store.decode(state).map_err(|error| JobError::Protocol(error.to_string()));
        };
        let (actor, versions) = (known.name(), (earlier.version, known.version()));
        let old = OldState { actor, versions, states: &earlier.states, bytes: state };
        store.upgrade(old).map_err(|error| {
            let (was, is) = versions;
            let (actor, reason) = (actor.to_owned(), error.to_string());
            StartError::CheckpointState { actor, was, is, reason }.into()
        })
    }
}

impl Core {
    /// Checks that messages decode, if they are from an earlier version of their type.
    pub(super) fn check_messages<'a>(
        &self,
        kind: KindId,
        messages: impl IntoIterator<Item = &'a Bytes>,
    ) -> Result<(), JobError> {
        let restoration = self.checkpointing.restoring.restoration.as_ref();
        let earlier = restoration.and_then(|it| it.earlier.get(&kind));
        let (Some(earlier), Some(known)) = (earlier, self.common.kind(kind)) else { return Ok(()) };
        messages.into_iter().try_for_each(|message| {
            known.check_message(message).map_err(|error| {
                let (was, is) = (earlier.version, known.version());
                let (actor, reason) = (known.name().to_owned(), error.to_string());
                StartError::CheckpointMessage { actor, was, is, reason }.into()
            })
        })
    }
}
