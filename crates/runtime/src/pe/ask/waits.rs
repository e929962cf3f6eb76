//! Questions that were asked from a PE and have no answer yet.

use crate::error::AskError;
use crate::message::payload::Payload;
use crate::pe::callback::CallbackWith;
use crate::pe::timers::TimerId;
use std::collections::{BTreeMap, BTreeSet};

/// What to do with an answer, or without one.
pub(crate) type Resume<C> = CallbackWith<C, Result<Payload, AskError>>;

/// Questions by slot.
pub(crate) struct Waits<C> {
    pub(crate) pending: BTreeMap<u64, (Resume<C>, TimerId)>,
    /// Those of them that main has asked the coordinator, which knows what they wait for.
    for_main: BTreeSet<u64>,
    slots: u64,
}

impl<C> Default for Waits<C> {
    fn default() -> Self {
        Self { pending: BTreeMap::new(), for_main: BTreeSet::new(), slots: 0 }
    }
}

impl<C> Waits<C> {
    /// A slot that was not used before.
    pub(crate) fn open(&mut self) -> u64 {
        self.slots += 1;
        self.slots - 1
    }

    /// The question in this slot is one of main to the coordinator.
    pub(crate) fn note_for_main(&mut self, slot: u64) {
        self.for_main.insert(slot);
    }

    /// Takes out what to do with the answer.
    pub(crate) fn take(&mut self, slot: u64) -> Option<(Resume<C>, TimerId)> {
        self.for_main.remove(&slot);
        self.pending.remove(&slot)
    }

    /// How many questions of actors, or of main to actors, have no answer yet.
    pub(crate) fn len(&self) -> usize {
        self.pending.len() - self.for_main.len()
    }

    /// Whether any question has none.
    pub(crate) fn is_any(&self) -> bool {
        !self.pending.is_empty()
    }
}
