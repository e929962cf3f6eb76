//! A diagnosis: why a job is slow or makes no progress.
//!
//! **Start.** The coordinator asks all PEs what waits there (`coordinator/diagnosis.rs`).
//!
//! **Steady state.** Each PE answers with [`Findings`], whose size is bounded, and the coordinator
//! adds them up. It asks twice, with a pause in between: a wait that is the same in both rounds
//! lasts, and if no PE handled anything meanwhile, the job stands still. A [`Diagnosis`] holds the
//! second sum.
//!
//! **Failure.** A diagnosis also lists PEs that do not answer: as inside a handler if their node's
//! watchdog reports one, and as not answering otherwise.

mod findings;
mod wait;

pub(crate) use findings::Findings;
pub use wait::{Wait, WaitKind, Waits};

use crate::message::MainStatus;
use crate::message::pending_work::counted;
use gridspan_topology::PeId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Seconds after which a handler is a cause even if all PEs have work: a computation of half a
/// minute without a message is rare.
const LONG_S: u64 = 30;

/// What a job waits for, in a form whose size does not depend on the size of the job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Diagnosis {
    /// Number of PEs; 0 if the coordinator did not answer.
    pub pes: u64,
    /// Number of PEs that did not answer. They are inside handlers, or their nodes do not run.
    pub unanswered: u64,
    /// Number of PEs with messages that are ready to be handled.
    pub busy: u64,
    /// Number of such messages on all PEs.
    pub ready: u64,
    /// Number of such messages on the PE that has most of them, and that PE.
    pub fullest: Option<(u64, PeId)>,
    /// Number of messages and operations created or handled between the two rounds; 0 after a
    /// single round of a job without events, and `None` if different PEs have answered the two
    /// rounds.
    pub handled: Option<u64>,
    /// What waits.
    pub waits: Waits,
}

/// The two rounds of a diagnosis.
pub(crate) struct Rounds {
    /// The first, if there was one.
    pub(crate) before: Option<Findings>,
    /// The second.
    pub(crate) now: Findings,
    /// Whether the same PEs have answered in both.
    pub(crate) are_alike: bool,
}

impl Diagnosis {
    /// Combines two rounds over `pes` PEs, of which `unanswered` did not answer in the second.
    pub(crate) fn new(rounds: Rounds, pes: u64, unanswered: u64) -> Self {
        let Rounds { before, now, are_alike } = rounds;
        let handled = match &before {
            None => Some(0),
            Some(before) if are_alike => Some(now.activity().wrapping_sub(before.activity())),
            Some(_) => None,
        };
        // A PE that has not answered may have handled messages that others have created.
        let in_flight = match unanswered {
            0 => now.created.saturating_sub(now.processed),
            _ => 0,
        };
        let Findings { mut waits, busy, ready, fullest, main, .. } = now;
        for wait in waits.iter_mut() {
            if wait.kind == WaitKind::Quiescence {
                wait.count = in_flight;
            }
            // After a single round, all waits count as lasting.
            wait.is_lasting = before.as_ref().is_none_or(|before| {
                wait.kind == WaitKind::Quiescence || before.waits.has_same(wait)
            });
        }
        if main == Some(MainStatus::WaitsOutside) {
            let is_lasting = before.is_none_or(|before| before.main == main);
            waits.add(Wait { is_lasting, ..Wait::new(WaitKind::Outside, 1) });
        }
        Self { pes, unanswered, busy, ready, fullest, handled, waits }
    }

    /// Returns the wait that most likely causes the others; `None` if the job goes on, or if it
    /// waits for nothing that the runtime knows of.
    pub fn cause(&self) -> Option<&Wait> {
        self.waits.iter().find(|wait| match wait.kind {
            WaitKind::SilentNode => true,
            WaitKind::NoAnswer => true,
            // Where all PEs compute, long handlers are usual.
            WaitKind::Handler => self.pes == 0 || self.idle() > 0 || wait.seconds >= LONG_S,
            WaitKind::HeldMessage
            | WaitKind::SyncPoint
            | WaitKind::Reduction
            | WaitKind::Checkpoint => wait.is_lasting,
            // A job that goes on may ask questions, and send to members that have ended.
            WaitKind::AbsentMember
            | WaitKind::EarlyPacket
            | WaitKind::Question
            | WaitKind::Task
            | WaitKind::Rebalance
            | WaitKind::Move
            | WaitKind::Quiescence
            | WaitKind::Timer
            | WaitKind::Sleep
            | WaitKind::Outside
            | WaitKind::Main => wait.is_lasting && self.stands_still(),
        })
    }

    /// Names the cause in one sentence without a full stop.
    pub fn summary(&self) -> String {
        let Some(cause) = self.cause() else {
            return match self.stands_still() {
                true => "nothing waits that the runtime knows of, and no PE has anything to do: \
                         main computes, or the job is about to end"
                    .to_owned(),
                false => self.progress(),
            };
        };
        let text = cause.sentence();
        match cause.kind {
            WaitKind::Handler | WaitKind::NoAnswer if self.idle() > 0 => {
                let idle = counted(self.idle(), "PE has", "PEs have");
                format!("{text}; {idle} nothing to do, of {}", self.pes)
            }
            WaitKind::Quiescence => {
                match self.waits.iter().find(|wait| wait.kind == WaitKind::Timer) {
                    Some(timer) => format!("{text}: {}", timer.sentence()),
                    None => text,
                }
            }
            _ => text,
        }
    }

    /// Number of PEs that have answered and have nothing to do.
    fn idle(&self) -> u64 {
        self.pes.saturating_sub(self.unanswered).saturating_sub(self.busy)
    }

    /// Whether nothing is handled, and nothing is ready to be handled.
    fn stands_still(&self) -> bool {
        self.unanswered == 0 && self.busy == 0 && self.handled == Some(0)
    }

    fn progress(&self) -> String {
        let Self { pes, unanswered, busy, fullest, handled, .. } = *self;
        let mut text = format!(
            "nothing waits for long: {unanswered} of {} inside handlers, and {} messages to handle",
            counted(pes, "PE is", "PEs are"),
            counted(busy, "has", "have")
        );
        if let Some((messages, pe)) = fullest {
            let messages = counted(messages, "message", "messages");
            text += &format!("; the fullest queue, of {pe}, has {messages}");
        }
        if let Some(handled) = handled.filter(|handled| *handled > 0) {
            let steps = counted(handled, "message or operation", "messages and operations");
            text += &format!("; {steps} created or handled between two looks");
        }
        text
    }
}

/// One line: the cause, and all other waits.
impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary())?;
        let cause = self.cause();
        let others = self.waits.iter().filter(|&wait| Some(wait) != cause);
        others.map(Wait::sentence).try_for_each(|wait| write!(f, "; {wait}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(waits: &[Wait], processed: u64) -> Findings {
        let mut findings = Findings { created: processed, processed, ..Findings::default() };
        waits.iter().cloned().for_each(|wait| findings.waits.add(wait));
        findings
    }

    /// The diagnosis of a job on four PEs that stands still.
    fn still(waits: &[Wait]) -> Diagnosis {
        let [before, now] = [findings(waits, 9), findings(waits, 9)];
        Diagnosis::new(Rounds { before: Some(before), now, are_alike: true }, 4, 0)
    }

    fn cause(diagnosis: &Diagnosis) -> Option<WaitKind> {
        diagnosis.cause().map(|wait| wait.kind)
    }

    fn main(subject: &str) -> Wait {
        Wait::new(WaitKind::Main, 1).about(subject)
    }

    fn reduction(missing: u64) -> Wait {
        let wait = Wait::new(WaitKind::Reduction, missing).out_of(4);
        wait.about("reduction 1 over collection 0").such_as("Cell 0x0 of collection 0")
    }

    #[test]
    fn in_a_job_that_stands_still_the_first_kind_is_the_cause() {
        let kinds = [
            WaitKind::HeldMessage,
            WaitKind::EarlyPacket,
            WaitKind::Question,
            WaitKind::SyncPoint,
            WaitKind::Reduction,
            WaitKind::Task,
            WaitKind::AbsentMember,
            WaitKind::Checkpoint,
            WaitKind::Rebalance,
            WaitKind::Move,
            WaitKind::Quiescence,
            WaitKind::Timer,
            WaitKind::Sleep,
            WaitKind::Main,
        ];
        for first in 0..kinds.len() {
            let waits: Vec<Wait> =
                kinds[first..].iter().rev().map(|&kind| Wait::new(kind, 1)).collect();
            assert_eq!(cause(&still(&waits)), Some(kinds[first]));
        }
        let nothing = still(&[]);
        assert_eq!(cause(&nothing), None);
        assert!(nothing.summary().starts_with("nothing waits that the runtime knows of"));
    }

    #[test]
    fn a_silent_node_and_a_long_handler_come_first() {
        let mut waits = vec![reduction(1)];
        waits.push(Wait::new(WaitKind::Handler, 1).for_seconds(5).such_as("pe1 is inside"));
        let mut diagnosis = still(&waits);
        diagnosis.unanswered = 1;
        assert_eq!(diagnosis.summary(), "pe1 is inside; 3 PEs have nothing to do, of 4");

        diagnosis.waits.add(Wait::new(WaitKind::SilentNode, 1).such_as("b/1 is silent"));
        assert_eq!(diagnosis.summary(), "b/1 is silent");
    }

    #[test]
    fn a_job_of_which_other_pes_answer_each_time_does_not_stand_still() {
        let question = Wait::new(WaitKind::Question, 1);
        let [before, now] =
            [findings(std::slice::from_ref(&question), 9), findings(&[question], 9)];
        let rounds = Rounds { before: Some(before), now, are_alike: false };
        let diagnosis = Diagnosis::new(rounds, 4, 0);
        assert_eq!((diagnosis.handled, cause(&diagnosis)), (None, None));
    }

    #[test]
    fn where_all_pes_compute_nothing_waits_for_long() {
        let handler = |seconds| Wait::new(WaitKind::Handler, 4).for_seconds(seconds);
        let mut diagnosis = still(&[handler(3), main("reduction 2 over collection 0")]);
        diagnosis.unanswered = 4;
        assert_eq!(cause(&diagnosis), None);
        let summary = diagnosis.summary();
        assert!(summary.starts_with("nothing waits for long: 4 of 4 PEs are inside"), "{summary}");

        let mut diagnosis = still(&[handler(40)]);
        diagnosis.unanswered = 4;
        assert_eq!(cause(&diagnosis), Some(WaitKind::Handler));
    }

    #[test]
    fn what_changes_between_the_looks_is_no_cause() {
        let (before, now) = (findings(&[reduction(3)], 9), findings(&[reduction(2)], 20));
        let rounds = Rounds { before: Some(before), now, are_alike: true };
        let diagnosis = Diagnosis::new(rounds, 4, 0);
        assert_eq!((cause(&diagnosis), diagnosis.handled), (None, Some(22)));

        // It is the same one all the time, while other members send each other messages.
        let (before, now) = (findings(&[reduction(2)], 9), findings(&[reduction(2)], 20));
        let rounds = Rounds { before: Some(before), now, are_alike: true };
        assert_eq!(cause(&Diagnosis::new(rounds, 4, 0)), Some(WaitKind::Reduction));
    }

    #[test]
    fn other_held_messages_at_each_look_are_no_cause() {
        let held = |number: u64| {
            let example = format!("Cell 0x1 waits for message {number} from Cell 0x0");
            Wait::new(WaitKind::HeldMessage, 1).such_as(example)
        };
        let cause_of = |now: Wait| {
            let (before, now) = (findings(&[held(7)], 9), findings(&[now], 20));
            cause(&Diagnosis::new(Rounds { before: Some(before), now, are_alike: true }, 4, 0))
        };

        assert_eq!(cause_of(held(8)), None);
        assert_eq!(cause_of(held(7)), Some(WaitKind::HeldMessage));
    }

    #[test]
    fn a_question_is_no_cause_while_the_job_goes_on() {
        let question = Wait::new(WaitKind::Question, 1);
        let [before, now] =
            [findings(std::slice::from_ref(&question), 9), findings(&[question], 10)];
        let rounds = Rounds { before: Some(before), now, are_alike: true };
        let diagnosis = Diagnosis::new(rounds, 4, 0);
        assert_eq!(cause(&diagnosis), None);
        assert!(diagnosis.summary().contains("2 messages and operations"));
    }

    #[test]
    fn quiescence_counts_what_is_in_flight_and_names_a_timer() {
        let timer = Wait::new(WaitKind::Timer, 1).for_seconds(996).such_as("Cell 0x1");
        let mut now = findings(&[Wait::new(WaitKind::Quiescence, 0), timer], 9);
        now.created += 1;
        let rounds = Rounds { before: Some(now.clone()), now, are_alike: true };

        let summary = Diagnosis::new(rounds, 4, 0).summary();

        let wanted = "main waits for quiescence, but 1 message or operation is not done: 1 message \
                      is to be sent later, in 996 s, to Cell 0x1";
        assert_eq!(summary, wanted);
    }

    #[test]
    fn one_line_has_the_cause_once_and_all_other_waits() {
        let text = still(&[main("reduction 1"), reduction(1)]).to_string();
        let wanted = "reduction 1 over collection 0, to which 3 of 4 have contributed, waits for \
                      Cell 0x0 of collection 0; main waits for reduction 1";
        assert_eq!(text, wanted);
    }

    #[test]
    fn a_main_that_waits_outside_is_named() {
        let now = Findings { main: Some(MainStatus::WaitsOutside), ..Findings::default() };
        let rounds = Rounds { before: Some(now.clone()), now, are_alike: true };
        assert_eq!(cause(&Diagnosis::new(rounds, 2, 0)), Some(WaitKind::Outside));
    }
}
