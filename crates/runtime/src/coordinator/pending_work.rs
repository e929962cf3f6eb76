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
            let (whole, number) = (ReductionGroup::Collection(*id), state.reductions.next);
            let is_awaited = state.for_main.get(&whole).is_some_and(|it| it.is_awaited());
            if is_awaited || self.accumulators.count(whole, number) > 0 {
                let members = state.reductions.expected(number);
                waits.push(self.reduction_wait(whole, number, Some(members)));
            }
            for (&group, _) in state.for_main.iter().filter(|(_, it)| it.is_awaited()) {
                if let ReductionGroup::Section(section) = group {
                    let number = state.sections.get(&section.name).copied().unwrap_or_default();
                    let here = self.accumulators.0.get(&(group, number));
                    waits.push(self.reduction_wait(group, number, here.map(|it| it.expected)));
                }
            }
        }
        waits
    }

    /// Describes a reduction that waits for contributions. `members`: the number of members that
    /// take part; for a section it is known from the first contribution on.
    fn reduction_wait(&self, group: ReductionGroup, number: u64, members: Option<u64>) -> String {
        let subject = group.subject(number);
        let Some(members) = members else {
            return format!("{subject}, to which no member has contributed");
        };
        let (one, several) = (format!("of {members} has"), format!("of {members} have"));
        let contributed = counted(self.accumulators.count(group, number), &one, &several);
        format!("{subject}, to which {contributed} contributed")
    }
}
