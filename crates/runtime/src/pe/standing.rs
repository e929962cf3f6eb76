//! What a PE has begun and not finished: for reports on jobs that do not end, and for tests.

use super::Pe;
use super::core::Core;
use super::state::{Accumulator, Channels};
use crate::wire::ReductionGroup;
use std::fmt;

/// Unfinished business of one PE, or of several, summed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Members that live here; second seats do not count.
    pub members: u64,
    /// Messages made, including what counts as such for quiescence.
    pub created: u64,
    /// Of all PEs together, messages that have been dealt with.
    pub processed: u64,
    /// PEs with messages that are ready to be handled.
    pub busy: u64,
    /// Messages that wait for an earlier one to the same member.
    pub held: u64,
    /// Messages that wait for a member to turn up.
    pub awaiting: u64,
    /// What waits for the description of a collection.
    pub early: u64,
    /// Members that were offered to another PE.
    pub departing: u64,
    /// Members that were accepted from another PE and not committed.
    pub arriving: u64,
    /// Broadcasts that were overtaken by a later one.
    pub early_broadcasts: u64,
    /// Reductions that wait for more contributions.
    pub reductions: u64,
    /// Questions without an answer so far.
    pub questions: u64,
    /// Rebalances under way or waiting for their turn, and those of whose end a PE has not heard.
    pub rebalances: u64,
    /// What main waits for. Only PE 0 knows.
    pub main_waits: Vec<String>,
}

impl Pe {
    /// What is unfinished here. Takes time in proportion to what the PE holds.
    pub fn standing(&self) -> Standing {
        let core = &self.core;
        let members = || core.members.iter().flatten().flatten();
        let held = |channels: &Channels| channels.held.len() as u64;
        Standing {
            members: members().filter(|member| !core.twins.is_second(member.id)).count() as u64,
            created: core.created,
            processed: core.processed,
            busy: u64::from(!core.lanes.is_empty()),
            held: members().filter_map(|member| member.channels.as_deref()).map(held).sum::<u64>()
                + core.graves.held(),
            awaiting: core.awaiting.values().map(|held| held.envelopes.len() as u64).sum(),
            early: core.early.values().map(|early| early.len() as u64).sum(),
            departing: core.departing.len() as u64,
            arriving: self.tentatives.len() as u64,
            early_broadcasts: core.early_broadcasts(),
            reductions: core.accumulators.len() as u64,
            questions: core.waits.len() as u64,
            rebalances: core.root.as_ref().map_or(0, |root| root.balances.queue.len() as u64)
                + core.balancing.len() as u64,
            main_waits: core.main_waits(),
        }
    }
}

impl Core {
    /// What main waits for, for people. Only the root knows.
    fn main_waits(&self) -> Vec<String> {
        let Some(root) = &self.root else { return Vec::new() };
        let mut waits: Vec<String> = {
            let publications = root.publications.waits();
            publications.chain(root.waves.waits()).chain(root.survey.waits()).collect()
        };
        for (id, family) in &root.collections {
            if family.creating > 0 {
                waits.push(format!("collection {} on {} more PEs", id.0, family.creating));
            }
            let number = family.reductions.next;
            let here = self.accumulators.get(&(ReductionGroup::Collection(*id), number));
            let come = here.map_or(0, Accumulator::count);
            if family.for_main.values().any(|for_main| !for_main.waits.is_empty()) || come > 0 {
                let due = family.reductions.expected(number);
                waits.push(format!(
                    "reduction {number} over collection {}, to which {come} of {due} have contributed",
                    id.0
                ));
            }
        }
        waits
    }
}

impl std::ops::AddAssign for Standing {
    fn add_assign(&mut self, mut other: Self) {
        self.members += other.members;
        self.created += other.created;
        self.processed += other.processed;
        self.busy += other.busy;
        self.held += other.held;
        self.awaiting += other.awaiting;
        self.early += other.early;
        self.departing += other.departing;
        self.arriving += other.arriving;
        self.early_broadcasts += other.early_broadcasts;
        self.reductions += other.reductions;
        self.questions += other.questions;
        self.rebalances += other.rebalances;
        self.main_waits.append(&mut other.main_waits);
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.main_waits[..] {
            [] => f.write_str("main waits for nothing that the runtime knows of")?,
            waits => write!(f, "main waits for {}", waits.join("; "))?,
        }
        let counts = [
            (self.busy, "PEs have messages ready"),
            (self.held, "messages wait for an earlier one to the same member"),
            (self.awaiting, "messages wait for a member to turn up"),
            (self.early, "packets wait for the description of a collection"),
            (self.departing, "members are leaving their PE"),
            (self.arriving, "members are arriving on a PE"),
            (self.early_broadcasts, "broadcasts wait for an earlier one"),
            (self.reductions, "reductions wait for contributions"),
            (self.questions, "questions have no answer"),
            (self.rebalances, "rebalances are not over"),
        ];
        for (count, what) in counts.iter().filter(|(count, _)| *count > 0) {
            write!(f, "; {count} {what}")?;
        }
        if self.created != self.processed {
            write!(f, "; {} messages made, {} dealt with", self.created, self.processed)?;
        }
        Ok(())
    }
}
