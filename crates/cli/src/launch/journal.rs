//! The last events of the job, for processes that watch it.

use crate::request::{JobEvent, JobEventKind, Observed};
use gridspan_balance::{BalanceReport, Cause};
use gridspan_record::RebalanceTrigger;
use gridspan_runtime::message::telemetry::TelemetrySample;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Number of events that are kept: more than a screen shows.
const KEPT: usize = 50;
/// Number of characters that are kept of an event.
const TEXT_CHARACTERS_MAX: usize = 400;

/// The last events, shared by the threads that notice them.
pub(super) struct Journal {
    begin: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    events: VecDeque<JobEvent>,
    rebalances: u64,
}

impl Journal {
    /// An empty journal of a job that begins now.
    pub(super) fn new() -> Self {
        Self { begin: Instant::now(), state: Mutex::default() }
    }

    /// Notes an event.
    pub(super) fn note(&self, kind: JobEventKind, text: &str) {
        let event = JobEvent {
            at: self.begin.elapsed(),
            kind,
            text: text.chars().take(TEXT_CHARACTERS_MAX).collect(),
        };
        let mut state = self.lock();
        if state.events.len() == KEPT {
            state.events.pop_front();
        }
        state.events.push_back(event);
    }

    /// Notes that actors have been moved, and why.
    pub(super) fn note_rebalance(&self, report: &BalanceReport) {
        let reason = trigger(report.cause);
        self.lock().rebalances += 1;
        self.note(JobEventKind::Rebalance, &format!("{reason}: {report}"));
    }

    /// What is known of the job, with a sample, its number of losses, and the number of its run.
    pub(super) fn observed(
        &self,
        sample: Option<Box<TelemetrySample>>,
        losses: u64,
        run: u64,
    ) -> Observed {
        let state = self.lock();
        let events = state.events.iter().cloned().collect();
        Observed { sample, rebalances: state.rebalances, losses, run, events }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why actors were moved, for people and for recordings.
pub(super) fn trigger(cause: Cause) -> RebalanceTrigger {
    match cause {
        Cause::SyncPoint => RebalanceTrigger::SyncPoint,
        Cause::Request => RebalanceTrigger::Request,
        Cause::Period => RebalanceTrigger::Period,
        Cause::Link => RebalanceTrigger::Link,
        Cause::ForeignLoad => RebalanceTrigger::ForeignLoad,
        Cause::Undo => RebalanceTrigger::Undo,
        _ => RebalanceTrigger::Other("balance".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_events_are_kept_and_long_ones_are_cut() {
        let journal = Journal::new();
        for number in 0..KEPT + 2 {
            journal.note(JobEventKind::Warning, &format!("{number} {}", "ä".repeat(1000)));
        }
        let observed = journal.observed(None, 3, 1);
        assert_eq!((observed.losses, observed.events.len()), (3, KEPT));
        let last = &observed.events[KEPT - 1];
        assert!(last.text.starts_with(&format!("{} ä", KEPT + 1)), "{}", last.text);
        assert_eq!(last.text.chars().count(), TEXT_CHARACTERS_MAX);
        assert!(observed.events[0].at <= last.at);
    }
}
