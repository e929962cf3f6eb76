//! The messages of main and the runtime, and the answers to main, in a recording.

use super::{MAIN_PE, Spans};
use crate::barriers::{Answered, Beside, FromMain, Origin};
use crate::recorded_grid::RecordedGrid;
use gridspan_record::{MainWait, Recording};
use std::collections::BTreeMap;

/// In real time, a question of main leaves within this time after main's PE has recorded it. In
/// virtual time, it leaves at once.
const ASKED_NS: u64 = 100_000;

impl Spans<'_> {
    /// Returns the messages of main and the runtime, and the answers to main. `places`: the spans
    /// by PE and number.
    pub(super) fn beside(
        &self,
        recording: &Recording,
        places: &BTreeMap<(u32, u64), u32>,
        grid: &RecordedGrid,
        is_simulated: bool,
    ) -> Beside {
        let answers = answers(recording, places);
        let asked = Asked::of(&answers, is_simulated);
        let sent = self.messages_of_main(&asked, grid);
        Beside { sent, answers, end_ns: recording.end_ns() }
    }

    /// The messages of main and the runtime.
    fn messages_of_main(&self, asked: &Asked, grid: &RecordedGrid) -> Vec<FromMain> {
        let mut before = vec![0; self.actors.len()];
        let mut sent = Vec::new();
        for (at, seen) in self.seen.iter().enumerate().filter(|(_, seen)| seen.sender.is_none()) {
            let cause = seen.span.cause.as_ref();
            // If the runtime sent the message on the receiver's PE, the time at which main caused
            // it is not known.
            let known = cause.filter(|cause| cause.pe != seen.pe || cause.pe == MAIN_PE);
            let latest =
                seen.span.begin_ns.saturating_sub(grid.latency_ns(MAIN_PE, seen.pe) as u64);
            let sent_ns = known.map_or(latest, |cause| cause.sent_ns);
            let origin = match cause {
                None if before[seen.actor as usize] == 0 && asked.is_creating(sent_ns) => {
                    Origin::Main
                }
                Some(cause) if cause.pe == MAIN_PE && cause.span.is_none() => {
                    match seen.pe != MAIN_PE || asked.is_question(sent_ns) {
                        true => Origin::Main,
                        false => Origin::MainPe,
                    }
                }
                _ => Origin::Runtime,
            };
            sent.push(FromMain {
                kind: seen.kind,
                before: before[seen.actor as usize],
                sent_ns,
                handling: at as u32,
                origin,
            });
            before[seen.actor as usize] += 1;
        }
        sent
    }
}

/// The answers for which main waited, with the handlings that answered.
fn answers(recording: &Recording, places: &BTreeMap<(u32, u64), u32>) -> Vec<Answered> {
    let answers = recording.pes.iter().flat_map(|record| &record.answers);
    let answered = answers.map(|answer| Answered {
        asked_ns: answer.asked_ns,
        answered_ns: answer.answered_ns,
        wait: answer.wait,
        handling: answer.span.and_then(|span| places.get(&span).copied()),
    });
    answered.collect()
}

/// The times at which main asked.
struct Asked {
    /// The times of questions to actors, in order.
    questions: Vec<u64>,
    /// The begin and the end of each wait of main for all PEs, by begin.
    creations: Vec<(u64, u64)>,
    /// Maximum time from the record of a question until the question leaves.
    tolerance_ns: u64,
}

impl Asked {
    fn of(answers: &[Answered], is_simulated: bool) -> Self {
        let of = |wait: MainWait| answers.iter().filter(move |answer| answer.wait == wait);
        let mut questions: Vec<u64> = of(MainWait::Actor).map(|answer| answer.asked_ns).collect();
        let creation = |answer: &Answered| (answer.asked_ns, answer.answered_ns);
        let mut creations: Vec<(u64, u64)> = of(MainWait::EachPe).map(creation).collect();
        questions.sort_unstable();
        creations.sort_unstable();
        let tolerance_ns = if is_simulated { 0 } else { ASKED_NS };
        Self { questions, creations, tolerance_ns }
    }

    /// Whether a message that leaves at this time is a question of main.
    fn is_question(&self, at_ns: u64) -> bool {
        let before = self.questions.partition_point(|asked| *asked <= at_ns).checked_sub(1);
        before.is_some_and(|before| at_ns - self.questions[before] <= self.tolerance_ns)
    }

    /// Whether main created actors at this time. Of requests that overlap, the last one counts.
    fn is_creating(&self, at_ns: u64) -> bool {
        let before = self.creations.partition_point(|(asked, _)| *asked <= at_ns).checked_sub(1);
        before.is_some_and(|before| at_ns <= self.creations[before].1)
    }
}
