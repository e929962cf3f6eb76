//! Unfinished work of the coordinator.

use super::machine::Coordinator;
use crate::message::ReductionGroup;
use crate::message::pending_work::{PendingWork, counted};

impl Coordinator {
    /// Returns the unfinished work here, and the requests that main waits for.
    pub fn pending_work(&self) -> PendingWork {
        PendingWork {
            created: self.created,
            processed: self.processed,
            reductions: self.accumulators.len() as u64,
            rebalances: self.balances.queue.len() as u64,
            main_waits: self.main_waits(),
            ..PendingWork::default()
        }
    }

    /// Describes the requests that main waits for.
    fn main_waits(&self) -> Vec<String> {
        self.quiescence.waits().into_iter().chain(self.other_waits()).collect()
    }

    /// Describes the requests that main waits for, except for quiescence.
    pub(super) fn other_waits(&self) -> Vec<String> {
        let others = self.publications.waits().chain(self.survey.waits());
        let mut waits: Vec<String> = others.collect();
        let moves = self.transfers.iter().map(|(to, _)| format!("the coordinator to move to {to}"));
        waits.extend(moves);
        waits.extend(self.phases.rounds.iter().map(|(phase, rounds)| rounds.waits(*phase)));
        for (id, state) in &self.collections {
            if state.creating > 0 {
                let missing = match state.info.base() {
                    None => counted(state.creating, "more PE", "more PEs"),
                    Some(_) => counted(state.creating, "more PE or member", "more PEs or members"),
                };
                waits.push(format!("collection {} on {missing}", id.0));
            }
            let number = state.reductions.next;
            let contributed = self.accumulators.count(ReductionGroup::Collection(*id), number);
            if state.for_main.values().any(|for_main| for_main.is_awaited()) || contributed > 0 {
                let of = format!("of {}", state.reductions.expected(number));
                let (one, several) = (format!("{of} has"), format!("{of} have"));
                waits.push(format!(
                    "reduction {number} over collection {}, to which {} contributed",
                    id.0,
                    counted(contributed, &one, &several)
                ));
            }
        }
        waits
    }
}
