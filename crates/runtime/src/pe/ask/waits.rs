//! Unanswered questions of a PE.

use crate::address::id::ActorId;
use crate::error::AskError;
use crate::message::payload::Payload;
use crate::pe::callback::CallbackWith;
use crate::pe::timers::TimerId;
use gridspan_topology::Time;
use std::collections::{BTreeMap, BTreeSet};

/// The action to run with an answer, or with the reason why there is none.
pub(crate) type Resume<C> = CallbackWith<C, Result<Payload, AskError>>;

/// A question of an actor or of main, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) by: ActorId,
    /// The actor that was asked; `None` if the coordinator answers once the job is quiescent.
    pub(crate) to: Option<ActorId>,
    pub(crate) at: Time,
}

/// An unanswered question.
struct Unanswered<C> {
    resume: Resume<C>,
    /// The timer of the time-out.
    timer: TimerId,
    /// `None` for requests of main to the coordinator, which knows what these wait for.
    question: Option<Question>,
}

/// Unanswered questions, and the slots for new ones.
pub(crate) struct Waits<C> {
    pending: BTreeMap<u64, Unanswered<C>>,
    /// Slots of main's requests to the coordinator. The coordinator knows what these wait for.
    for_main: BTreeSet<u64>,
    /// Number of slots that were opened.
    slots: u64,
}

impl<C> Default for Waits<C> {
    fn default() -> Self {
        Self { pending: BTreeMap::new(), for_main: BTreeSet::new(), slots: 0 }
    }
}

impl<C> Waits<C> {
    /// Returns a slot that has not been used before.
    pub(crate) fn open(&mut self) -> u64 {
        self.slots += 1;
        self.slots - 1
    }

    /// Keeps what to do with the answer in this slot, and the timer of the time-out.
    pub(crate) fn insert(
        &mut self,
        slot: u64,
        (resume, timer): (Resume<C>, TimerId),
        question: Option<Question>,
    ) {
        self.pending.insert(slot, Unanswered { resume, timer, question });
    }

    /// The questions of actors and of main to actors and about quiescence, the oldest first.
    pub(crate) fn questions(&self) -> impl Iterator<Item = Question> {
        self.pending.values().filter_map(|unanswered| unanswered.question)
    }

    /// Marks the question in this slot as a request of main to the coordinator.
    pub(crate) fn note_for_main(&mut self, slot: u64) {
        self.for_main.insert(slot);
    }

    /// Removes a question and returns its action and its timer.
    pub(crate) fn take(&mut self, slot: u64) -> Option<(Resume<C>, TimerId)> {
        self.for_main.remove(&slot);
        self.pending.remove(&slot).map(|unanswered| (unanswered.resume, unanswered.timer))
    }

    /// Whether main waits for the coordinator.
    pub(crate) fn is_for_main(&self) -> bool {
        !self.for_main.is_empty()
    }

    /// Number of unanswered questions that are not requests of main to the coordinator.
    pub(crate) fn len(&self) -> usize {
        self.pending.len() - self.for_main.len()
    }

    /// Whether any question is unanswered.
    pub(crate) fn is_any(&self) -> bool {
        !self.pending.is_empty()
    }
}
