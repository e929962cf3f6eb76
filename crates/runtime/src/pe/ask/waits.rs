//! Unanswered questions of a PE.

use crate::address::id::{ActorId, KindId, MAIN_PE};
use crate::error::AskError;
use crate::message::payload::Payload;
use crate::pe::callback::CallbackWith;
use crate::pe::timers::{Delayed, TimerId};
use gridspan_topology::{PeId, Time};
use std::collections::{BTreeMap, BTreeSet};

/// The action to run with an answer, or with the reason why there is none.
pub(crate) type Resume<C> = CallbackWith<C, Result<Payload, AskError>>;

/// The action when a question is answered, or has timed out.
pub(crate) enum AfterAnswer<C> {
    /// The action runs. Checkpoints cannot contain it.
    Run(Resume<C>),
    /// The action runs. Checkpoints leave it out: a main that begins again asks again.
    Repeated(Resume<C>),
    /// The actor that asked, which is of this type, gets a message made of the answer and the tag.
    Tagged { by: ActorId, kind: KindId, tag: u64 },
    /// This message is sent, once the coordinator answers that the job is quiescent.
    Quiescent(Box<dyn Delayed<C>>),
}

/// A question of an actor or of main, as a diagnosis shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) by: ActorId,
    /// The actor that was asked; `None` if the coordinator answers once the job is quiescent.
    pub(crate) to: Option<ActorId>,
    pub(crate) at: Time,
}

/// An unanswered question.
pub(crate) struct Unanswered<C> {
    pub(crate) after: AfterAnswer<C>,
    /// The timer of the time-out.
    pub(crate) timer: TimerId,
    /// `None` for requests of main to the coordinator, which knows what these wait for.
    pub(crate) question: Option<Question>,
    /// The PE and the slot to which the answer is addressed. They are of an earlier run if the
    /// question was restored.
    pub(crate) asked: (PeId, u64),
}

/// Unanswered questions, and the slots for new ones.
pub(crate) struct Waits<C> {
    pending: BTreeMap<u64, Unanswered<C>>,
    /// Slots of restored questions, by the PE and the slot to which the answer is addressed.
    restored: BTreeMap<(PeId, u64), u64>,
    /// Slots of main's requests to the coordinator. The coordinator knows what these wait for.
    for_main: BTreeSet<u64>,
    /// The first slot of this run.
    first: u64,
    next: u64,
}

impl<C> Default for Waits<C> {
    fn default() -> Self {
        Self {
            pending: BTreeMap::new(),
            restored: BTreeMap::new(),
            for_main: BTreeSet::new(),
            first: 0,
            next: 0,
        }
    }
}

impl<C> Waits<C> {
    /// Begins the slots of this run with `number`, which is above all slots before a restoration.
    pub(crate) fn number_from(&mut self, number: u64) {
        (self.first, self.next) = (number, number);
    }

    /// Whether a slot was opened on any PE since the last restoration.
    pub(crate) fn is_of_this_run(&self, slot: u64) -> bool {
        slot >= self.first
    }

    /// Returns a slot that has not been used before.
    pub(crate) fn open(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Keeps a question in this slot.
    pub(crate) fn insert(&mut self, slot: u64, unanswered: Unanswered<C>) {
        if !self.is_of_this_run(unanswered.asked.1) {
            self.restored.insert(unanswered.asked, slot);
        }
        self.pending.insert(slot, unanswered);
    }

    /// The slot of a restored question, if it has no answer yet.
    pub(crate) fn restored(&self, asked: (PeId, u64)) -> Option<u64> {
        self.restored.get(&asked).copied()
    }

    /// All unanswered questions, the oldest first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Unanswered<C>> {
        self.pending.values()
    }

    /// The questions of actors and of main, the oldest first: those to actors, and those that ask
    /// the coordinator whether the job is quiescent.
    pub(crate) fn questions(&self) -> impl Iterator<Item = Question> {
        self.all().filter_map(|unanswered| unanswered.question)
    }

    /// Marks the question in this slot, which is kept there, as a request of main to the
    /// coordinator.
    pub(crate) fn note_for_main(&mut self, slot: u64) {
        debug_assert!(
            self.pending.get(&slot).is_some_and(|it| matches!(it.after, AfterAnswer::Run(_))),
            "`len` and `not_storable` subtract these slots from those that they count"
        );
        self.for_main.insert(slot);
    }

    /// Removes a question.
    pub(crate) fn take(&mut self, slot: u64) -> Option<Unanswered<C>> {
        self.for_main.remove(&slot);
        let unanswered = self.pending.remove(&slot)?;
        self.restored.remove(&unanswered.asked);
        Some(unanswered)
    }

    /// Whether main waits for the coordinator.
    pub(crate) fn is_for_main(&self) -> bool {
        !self.for_main.is_empty()
    }

    /// Number of unanswered questions that are not requests of main to the coordinator.
    pub(crate) fn len(&self) -> usize {
        self.pending.len() - self.for_main.len()
    }

    /// Number of the questions counted by [`len`](Self::len) that checkpoints cannot contain.
    pub(crate) fn not_storable(&self) -> usize {
        let runs = |it: &&Unanswered<C>| matches!(it.after, AfterAnswer::Run(_));
        self.all().filter(runs).count() - self.for_main.len()
    }

    /// Number of the questions counted by [`not_storable`](Self::not_storable) that main has asked.
    pub(crate) fn not_storable_of_main(&self) -> usize {
        let main = ActorId::system(MAIN_PE);
        let is_of_main = |it: &&Unanswered<C>| {
            let runs = matches!(it.after, AfterAnswer::Run(_));
            runs && it.question.is_some_and(|question| question.by == main)
        };
        self.all().filter(is_of_main).count()
    }

    /// Number of questions whose answers become messages by their tags.
    pub(crate) fn tagged(&self) -> usize {
        self.all().filter(|it| matches!(it.after, AfterAnswer::Tagged { .. })).count()
    }

    /// Whether any question is unanswered.
    pub(crate) fn is_any(&self) -> bool {
        !self.pending.is_empty()
    }
}
