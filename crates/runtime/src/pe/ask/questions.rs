//! A question on the PE where it was asked: it is opened, answered or timed out, stored in a
//! checkpoint, and restored.
//!
//! An answer is addressed to a slot on the PE that asked. States and messages may contain this
//! address, so it does not change when the job continues on other PEs: the *keeper* of the question
//! is then the PE with that number modulo the number of PEs. Slots of a later run are numbered
//! above those of earlier runs, so that the answer to a question that has timed out cannot reach
//! another question.

use super::delayed::RestoredMessage;
use super::waits::{AfterAnswer, Question, Unanswered};
use crate::address::id::{ActorId, COORDINATOR, KindId};
use crate::error::{AskError, Misuse};
use crate::message::payload::Payload;
use crate::message::{AwaitedImage, Control, MainRequest, QuestionImage};
use crate::pe::actor::answer::TaggedAnswer;
use crate::pe::core::Core;
use gridspan_topology::{PeId, Time};
use std::time::Duration;

impl Core {
    /// Keeps a question until it is answered, or until `timeout`. Returns its slot. `asked`: the PE
    /// and the slot to which the answer is addressed, if the question was restored.
    pub(super) fn open_question(
        &mut self,
        (question, asked): (Option<Question>, Option<(PeId, u64)>),
        timeout: Duration,
        after: AfterAnswer<Self>,
    ) -> u64 {
        let slot = self.waits.open();
        let timer = self.timers.set(
            self.now + timeout,
            Box::new(move |core| {
                if let Some(unanswered) = core.waits.take(slot) {
                    core.note_answered(slot, false);
                    core.close_question(unanswered, Err(AskError::Timeout));
                }
            }),
        );
        let asked = asked.unwrap_or((self.me, slot));
        self.waits.insert(slot, Unanswered { after, timer, question, asked });
        slot
    }

    /// Continues after the answer to a question, or after its time-out.
    pub(super) fn close_question(
        &mut self,
        unanswered: Unanswered<Self>,
        answer: Result<Payload, AskError>,
    ) {
        match unanswered.after {
            AfterAnswer::Run(resume) | AfterAnswer::Repeated(resume) => resume(self, answer),
            AfterAnswer::Tagged { by, kind, tag } => {
                self.processed += 1;
                self.send_answer(by, kind, TaggedAnswer { tag, answer });
            }
            AfterAnswer::Quiescent(message) => {
                if answer.is_ok() {
                    // The message of the answer counts as pending work from now on.
                    self.created += 1;
                    message.send(self);
                }
            }
        }
    }

    /// Sends an actor the message that its type makes of an answer.
    fn send_answer(&mut self, to: ActorId, kind: KindId, answer: TaggedAnswer) {
        let Some(known) = self.common.kind(kind) else { return };
        // The error after a panic names the type.
        self.running = Some(kind);
        let message = known.answered(answer);
        self.running = None;
        match message {
            Some(message) => self.send_encoded(kind, to, message),
            None => self.fail(Misuse::NotAnswered { actor: known.name().to_owned() }.into()),
        }
    }

    /// The unanswered questions of this PE that a checkpoint can contain.
    pub(in crate::pe) fn question_images(&self) -> Vec<QuestionImage> {
        let image = |unanswered: &Unanswered<Self>| {
            let (by, kind, awaited) = match &unanswered.after {
                AfterAnswer::Run(_) | AfterAnswer::Repeated(_) => return None,
                &AfterAnswer::Tagged { by, kind, tag } => {
                    let at = unanswered.timer.0;
                    let remaining = (at < Time::MAX).then(|| at.since(self.now));
                    (by, kind, AwaitedImage::Answer { tag, remaining })
                }
                AfterAnswer::Quiescent(message) => {
                    let (by, kind, message) = message.image();
                    (by, kind, AwaitedImage::Quiescence { message })
                }
            };
            let to = unanswered.question.and_then(|question| question.to);
            Some(QuestionImage { asked: unanswered.asked, by, kind, to, awaited })
        };
        self.waits.all().filter_map(image).collect()
    }

    /// Opens the questions of an image.
    pub(in crate::pe) fn restore_questions(&mut self, questions: Vec<QuestionImage>) {
        for QuestionImage { asked, by, kind, to, awaited } in questions {
            let question = (Some(Question { by, to, at: self.now }), Some(asked));
            match awaited {
                AwaitedImage::Answer { tag, remaining } => {
                    self.created += 1;
                    let after = AfterAnswer::Tagged { by, kind, tag };
                    self.open_question(question, remaining.unwrap_or(Duration::MAX), after);
                }
                AwaitedImage::Quiescence { message } => {
                    let message = RestoredMessage { timer: None, to: by, kind, message };
                    let after = AfterAnswer::Quiescent(Box::new(message));
                    let slot = self.open_question(question, Duration::MAX, after);
                    self.checkpointing.restoring.quiescence.push(slot);
                }
            }
        }
    }

    /// Requests quiescence again on behalf of the restored actors that wait for it. All members and
    /// messages of the image count by now.
    pub(in crate::pe) fn await_quiescence_again(&mut self) {
        for slot in std::mem::take(&mut self.checkpointing.restoring.quiescence) {
            let request = MainRequest::Quiescence;
            self.post(COORDINATOR, Control::MainRequest { slot, request });
        }
    }
}
