//! Questions and their answers, delayed messages and other deferred actions.

mod delayed;
mod questions;
pub(in crate::pe) mod waits;

use crate::Actor;
use crate::address::id::{ActorId, COORDINATOR, KindId, MAIN_PE, Timer};
use crate::error::{AskError, JobError};
use crate::message::payload::Payload;
use crate::message::{Control, MainRequest, MembershipMessage};
use crate::pe::actor::reference::Reply;
use crate::pe::ask::delayed::DelayedMessage;
use crate::pe::ask::waits::{AfterAnswer, Question, Resume};
use crate::pe::core::{Common, Core};
use crate::pe::timers::TimerId;
use gridspan_record::MainWait;
use gridspan_topology::{NodeId, PeId, Time};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

impl Core {
    /// Opens a slot for an answer. `resume` is called once: with the answer, or with an error after
    /// `timeout`.
    fn expect_reply<T: DeserializeOwned + 'static>(
        &mut self,
        question: Option<Question>,
        timeout: Duration,
        after: fn(Resume<Self>) -> AfterAnswer<Self>,
        resume: impl FnOnce(&mut Self, Result<T, AskError>) + Send + 'static,
    ) -> Reply<T> {
        let resume: Resume<Self> = Box::new(move |core, answer| {
            let answer = answer.and_then(|payload| payload.open().map_err(AskError::from));
            resume(core, answer);
        });
        let slot = self.open_question((question, None), timeout, after(resume));
        Reply::new(self.me, slot)
    }

    /// Opens a slot for an answer to main, which asks an actor. `is_repeated`: main asks again if
    /// it begins again from a checkpoint.
    pub(crate) fn expect_reply_for_main<T: DeserializeOwned + 'static>(
        &mut self,
        (to, is_repeated): (ActorId, bool),
        timeout: Duration,
        resume: impl FnOnce(&mut Self, Result<T, AskError>) + Send + 'static,
    ) -> Reply<T> {
        let question = Question { by: ActorId::system(MAIN_PE), to: Some(to), at: self.now };
        let after: fn(Resume<Self>) -> AfterAnswer<Self> = match is_repeated {
            true => AfterAnswer::Repeated,
            false => AfterAnswer::Run,
        };
        let reply = self.expect_reply(Some(question), timeout, after, resume);
        self.note_asked(reply.slot, MainWait::Actor);
        if !self.membership.gone.is_empty()
            && let Some(node) = self.home_node(to)
            && self.membership.gone.contains(&node)
        {
            // No answer would come, so the job cannot go on.
            self.post(COORDINATOR, Control::Membership(MembershipMessage::Needs { node }));
        }
        reply
    }

    /// The node of an actor's home.
    pub(in crate::pe) fn home_node(&self, id: ActorId) -> Option<NodeId> {
        let Common { layout, maps, .. } = &self.common;
        let info = &self.collections.get(id.collection)?.info;
        Some(layout.node_of(info.home(id.key, layout, maps)))
    }

    /// Opens a slot for an answer to an actor, which asks another. Until the answer arrives or
    /// times out, the job is not quiescent, since both lead to a message.
    pub(crate) fn expect_reply_for_actor<T: DeserializeOwned + 'static>(
        &mut self,
        (by, to): (ActorId, ActorId),
        timeout: Duration,
        resume: impl FnOnce(&mut Self, Result<T, AskError>) + Send + 'static,
    ) -> Reply<T> {
        self.created += 1;
        let question = Question { by, to: Some(to), at: self.now };
        self.expect_reply(Some(question), timeout, AfterAnswer::Run, move |core, answer| {
            core.processed += 1;
            resume(core, answer);
        })
    }

    /// Opens a slot for an answer to an actor, given with its type, which asks another. The type
    /// turns the answer and the tag into a message, so a checkpoint can contain the question.
    pub(crate) fn expect_tagged_reply<T>(
        &mut self,
        (by, kind): (ActorId, KindId),
        (to, tag): (ActorId, u64),
        timeout: Duration,
    ) -> Reply<T> {
        self.created += 1;
        let question = Question { by, to: Some(to), at: self.now };
        let after = AfterAnswer::Tagged { by, kind, tag };
        let slot = self.open_question((Some(question), None), timeout, after);
        Reply::new(self.me, slot)
    }

    /// Sends the answer to a question, or drops it if the layout does not know the PE that asked.
    pub(crate) fn answer<T: Serialize + Send + 'static>(&mut self, reply: Reply<T>, answer: T) {
        let Reply { pe, slot, .. } = reply;
        let is_of_this_run = self.waits.is_of_this_run(slot);
        let to = if is_of_this_run { pe } else { self.keeper_of(pe) };
        if !self.common.layout.knows(to) {
            return;
        }
        let answer = self.traced(Payload::new(answer));
        let answer = match is_of_this_run {
            true => Control::Reply { slot, answer },
            false => Control::RestoredReply { asked: (pe, slot), answer },
        };
        self.post(to, answer);
    }

    /// Passes an answer to the question that waits for it. Late answers are dropped.
    pub(in crate::pe) fn handle_reply(&mut self, slot: u64, answer: Payload) {
        match self.waits.take(slot) {
            Some(unanswered) => {
                self.timers.cancel(unanswered.timer);
                let answer = self.begin_origin(answer);
                self.note_answered(slot, true);
                self.close_question(unanswered, Ok(answer));
                self.end_origin();
            }
            None => self.statistics.late_answers += 1,
        }
    }

    /// Passes an answer to a question from before a restoration.
    pub(in crate::pe) fn handle_restored_reply(&mut self, asked: (PeId, u64), answer: Payload) {
        match self.waits.restored(asked) {
            Some(slot) => self.handle_reply(slot, answer),
            None => self.statistics.late_answers += 1,
        }
    }

    /// Sends a message after a delay.
    pub(crate) fn send_after<A: Actor>(
        &mut self,
        delay: Duration,
        to: ActorId,
        message: A::Message,
    ) -> Timer {
        // An armed timer is pending work: the job is not quiescent.
        self.created += 1;
        let Some(kind) = self.kind_in::<A>(to.collection) else {
            return Timer { pe: self.me, at: Time::MAX, number: u64::MAX };
        };
        let set_by = self.timer_setter(delay);
        let message = Box::new(DelayedMessage::<A> { to, kind, message, set_by });
        let TimerId(at, number) = self.timers.delay(self.now + delay, message);
        Timer { pe: self.me, at, number }
    }

    /// Cancels a timer that [`send_after`](Self::send_after) has armed, here or on another PE.
    pub(crate) fn cancel_timer(&mut self, timer: Timer) {
        let pe = self.keeper_of(timer.pe);
        let id = TimerId(timer.at, timer.number);
        if pe != self.me {
            self.post(pe, Control::CancelTimer(timer));
        } else if self.timers.cancel(self.timers.restored(timer).unwrap_or(id)) {
            self.processed += 1;
        }
    }

    /// The PE that keeps the timers and questions of `pe`. After a restoration on fewer PEs, a PE
    /// keeps those of several.
    pub(crate) fn keeper_of(&self, pe: PeId) -> PeId {
        PeId(pe.0 % self.common.layout.pe_count())
    }

    /// Sends `to` a message once the job is quiescent.
    pub(crate) fn when_quiescent<A: Actor>(&mut self, to: ActorId, message: A::Message) {
        let Some(kind) = self.kind_in::<A>(to.collection) else { return };
        let question = Question { by: to, to: None, at: self.now };
        let message = DelayedMessage::<A> { to, kind, message, set_by: None };
        let after = AfterAnswer::Quiescent(Box::new(message));
        let slot = self.open_question((Some(question), None), Duration::MAX, after);
        let request = MainRequest::Quiescence;
        self.post(COORDINATOR, Control::MainRequest { slot, request });
    }

    /// Sends the coordinator a request on behalf of main. `resume` is called with the answer.
    pub(crate) fn ask_coordinator<T: DeserializeOwned + 'static>(
        &mut self,
        request: MainRequest,
        resume: impl FnOnce(&mut Self, T) + Send + 'static,
    ) {
        let slot = self.expect_coordinator(wait_of(&request), resume);
        self.post(COORDINATOR, Control::MainRequest { slot, request });
    }

    /// Opens a slot for an answer from the coordinator to main. `wait`: what main waits for.
    pub(crate) fn expect_coordinator<T: DeserializeOwned + 'static>(
        &mut self,
        wait: MainWait,
        resume: impl FnOnce(&mut Self, T) + Send + 'static,
    ) -> u64 {
        let answered = |core: &mut Self, answer: Result<T, AskError>| match answer {
            Ok(answer) => resume(core, answer),
            Err(error) => core.fail(JobError::Protocol(format!("from the coordinator: {error}"))),
        };
        let reply = self.expect_reply(None, Duration::MAX, AfterAnswer::Run, answered);
        self.waits.note_for_main(reply.slot);
        self.note_asked(reply.slot, wait);
        reply.slot
    }

    /// Calls `awake` after a delay for which main sleeps. `awake` returns whether main still
    /// sleeps. If main no longer waits for it, the end of the sleep has no effect.
    pub(crate) fn sleep(&mut self, delay: Duration, awake: impl FnOnce() -> bool + Send + 'static) {
        let number = self.looks.begin_sleep(self.now + delay);
        let asked_ns = self.main_asks();
        self.run_after(delay, move |core| {
            core.looks.end_sleep(number);
            // Main's next request comes to this PE in a later turn.
            if awake() {
                core.note_slept(asked_ns);
            }
        });
    }

    /// Runs `action` after a delay.
    pub(crate) fn run_after(
        &mut self,
        delay: Duration,
        action: impl FnOnce(&mut Self) + Send + 'static,
    ) {
        self.timers.set(self.now + delay, Box::new(action));
    }
}

/// Returns what main waits for after a request to the coordinator, for the recording of the job.
fn wait_of(request: &MainRequest) -> MainWait {
    match request {
        // The answer is the identifier; main waits for the members of a collection separately.
        MainRequest::Create { .. } | MainRequest::KnownLinks => MainWait::Coordinator,
        MainRequest::Publish { .. } => MainWait::EachPe,
        MainRequest::Reduction { .. } => MainWait::Contributions,
        MainRequest::Quiescence | MainRequest::Completion { .. } => MainWait::Quiescence,
        MainRequest::Places | MainRequest::Links => MainWait::Links,
        MainRequest::Rebalance
        | MainRequest::RebalanceIfDue
        | MainRequest::LinkChange
        | MainRequest::MoveCoordinator { .. }
        | MainRequest::Checkpoint { .. } => MainWait::Other,
    }
}
