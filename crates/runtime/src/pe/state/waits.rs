//! Questions that were asked from a PE and have no answer yet.

use super::callback::CallbackWith;
use super::timers::TimerId;
use crate::error::AskError;
use crate::payload::Payload;
use std::collections::BTreeMap;

/// What to do with an answer, or without one.
pub(crate) type Resume<C> = CallbackWith<C, Result<Payload, AskError>>;

/// Questions by slot.
pub(crate) struct Waits<C> {
    pub(crate) pending: BTreeMap<u64, (Resume<C>, TimerId)>,
    slots: u64,
}

impl<C> Default for Waits<C> {
    fn default() -> Self {
        Self { pending: BTreeMap::new(), slots: 0 }
    }
}

impl<C> Waits<C> {
    /// A slot that was not used before.
    pub(crate) fn open(&mut self) -> u64 {
        self.slots += 1;
        self.slots - 1
    }

    /// How many questions have no answer yet.
    pub(crate) fn len(&self) -> usize {
        self.pending.len()
    }
}
