//! Finds out why a job is slow or does not go on, while it runs: for a user who asks, and at the
//! job's time limit.
//!
//! **Start.** The node of the coordinator gets a request, or the time limit has passed. Requests
//! that come while a diagnosis is under way get the same answer.
//!
//! **Steady state.** The coordinator asks all PEs, and asks again after [`PAUSE`]. A PE answers
//! between two handlers, whether it is idle or not (`pe/diagnosis.rs`); questions and answers are
//! not counted, so that neither quiescence nor the detection of stalls notices them. Two rounds
//! distinguish what lasts from what makes progress (`message/diagnosis`).
//!
//! **Failure.** After [`PATIENCE`] the diagnosis ends without the PEs that have not answered, and
//! names them. For a PE inside a handler it names the handler, too, which the watchdog of the PE's
//! node reports. PEs of lost founders are not asked.

use super::machine::Coordinator;
use super::state::diagnosis::Diagnosing;
use super::state::timers::Timer;
use crate::error::JobError;
use crate::message::pending_work::{NAMED_MAX, counted};
use crate::message::{
    Control, Diagnosis, Findings, MainStatus, ReductionGroup, Rounds, Wait, WaitKind, Waits,
};
use crate::pe::Pe;
use gridspan_topology::PeId;
use std::collections::BTreeMap;
use std::time::Duration;

/// Time between the two rounds: a wait that lasts longer is worth a report.
const PAUSE: Duration = Duration::from_secs(1);
/// Time from the first question within which PEs must answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum number of reductions and sync points whose missing members PEs report.
const ABOUT_MAX: usize = 8;
/// Maximum number of main's operations that a diagnosis names.
const MAIN_WAITS_MAX: usize = 8;
/// Maximum number of requests that one diagnosis answers; the launcher combines them.
const REQUESTS_MAX: usize = 64;

impl Coordinator {
    /// Begins a diagnosis, for a request with this number or for the time limit, unless one is
    /// under way.
    pub(super) fn begin_diagnosis(&mut self, request: Option<u64>) {
        let diagnosing = &mut self.diagnosing;
        if diagnosing.requests.len() < REQUESTS_MAX {
            diagnosing.requests.extend(request);
        }
        if std::mem::replace(&mut diagnosing.is_on, true) {
            return;
        }
        diagnosing.number += 1;
        let number = diagnosing.number;
        self.ask_what_waits();
        self.run_after(PAUSE, Timer::DiagnoseAgain(number));
        self.run_after(PATIENCE, Timer::EndDiagnosis(number));
    }

    /// Begins the second round.
    pub(super) fn diagnose_again(&mut self, number: u64) {
        let diagnosing = &mut self.diagnosing;
        if !diagnosing.is_on || diagnosing.number != number {
            return;
        }
        let sum = std::mem::take(&mut diagnosing.sum);
        diagnosing.before = Some((sum, std::mem::take(&mut diagnosing.missing)));
        self.ask_what_waits();
    }

    fn ask_what_waits(&mut self) {
        let about: Vec<_> = self.incomplete().into_iter().map(|it| (it.group, it.number)).collect();
        let layout = &self.common.layout;
        let is_there = |pe: &PeId| !self.losses.contains(layout.node_of(*pe));
        let pes: Vec<PeId> = layout.pes().filter(is_there).collect();
        let sum = self.own_findings();
        let diagnosing = &mut self.diagnosing;
        diagnosing.round += 1;
        (diagnosing.missing, diagnosing.sum) = (pes.iter().copied().collect(), sum);
        let round = diagnosing.round;
        for pe in pes {
            self.post(pe, Control::Diagnose { round, about: about.clone() });
        }
    }

    pub(super) fn handle_diagnosed(&mut self, from: PeId, round: u64, findings: Findings) {
        let diagnosing = &mut self.diagnosing;
        if !diagnosing.is_on || round != diagnosing.round || !diagnosing.missing.remove(&from) {
            return;
        }
        diagnosing.sum += findings;
        if diagnosing.before.is_some() && diagnosing.missing.is_empty() {
            self.conclude_diagnosis();
        }
    }

    /// Ends the diagnosis of this number, even if answers are missing.
    pub(super) fn end_diagnosis(&mut self, number: u64) {
        let Diagnosing { is_on, number: present, .. } = self.diagnosing;
        // A coordinator that has moved meanwhile has lost the answers, but the job ends anyway.
        let is_lost = !is_on && self.stall.is_over_time;
        if is_lost || is_on && number == present {
            self.conclude_diagnosis();
        }
    }

    fn conclude_diagnosis(&mut self) {
        let Diagnosing { number, round, requests, missing, sum: mut now, before, .. } =
            std::mem::take(&mut self.diagnosing);
        self.diagnosing = Diagnosing { number, round, ..Diagnosing::default() };
        for &pe in &missing {
            let (seconds, text) = self.silence_of(pe);
            let wait = match seconds {
                Some(seconds) => Wait::new(WaitKind::Handler, 1).for_seconds(seconds),
                None => Wait::new(WaitKind::NoAnswer, 1),
            };
            now.waits.add(wait.such_as(text));
        }
        let are_alike = before.as_ref().is_some_and(|(_, of_before)| *of_before == missing);
        let before = before.map(|(findings, _)| findings);
        let (pes, unanswered) = (self.pes_left(), missing.len() as u64);
        let diagnosis = Diagnosis::new(Rounds { before, now, are_alike }, pes, unanswered);
        for number in requests {
            self.common.watch.on_diagnosis.iter().for_each(|tell| tell(number, &diagnosis));
        }
        if self.stall.is_over_time
            && let Some(limit) = self.common.watch.time_limit
        {
            self.fail(JobError::TimeLimit { limit, waits: diagnosis.to_string() });
        }
    }

    /// Describes, in readable text, why a PE does not answer. Also returns for how many seconds it
    /// has been inside a handler, if a handler is known.
    fn silence_of(&self, pe: PeId) -> (Option<u64>, String) {
        let layout = &self.common.layout;
        let (node, site) = (layout.node_of(pe), layout.site_name(layout.site_of(pe)));
        let place = format!("{pe} ({node} at site {site})");
        match self.stall.inside.get(&pe) {
            Some((handler, since)) => {
                let seconds = self.now.since(*since).as_secs();
                (Some(seconds), format!("{place} has been inside {handler} for {seconds} s"))
            }
            None => (None, format!("{place} has not answered")),
        }
    }

    /// Describes, in readable text, why these PEs do not answer.
    pub(super) fn silence_of_all(&self, pes: impl ExactSizeIterator<Item = PeId>) -> String {
        let more = pes.len().saturating_sub(NAMED_MAX) as u64;
        let mut names: Vec<String> = pes.take(NAMED_MAX).map(|pe| self.silence_of(pe).1).collect();
        if more > 0 {
            names.push(counted(more, "more PE does not answer", "more PEs do not answer"));
        }
        names.join("; ")
    }

    /// Returns what the job waits for, for a caller that has all PEs at hand, as in virtual time.
    pub fn diagnosis<'a>(&self, pes: impl Iterator<Item = &'a Pe>, main: MainStatus) -> Diagnosis {
        let about: Vec<_> = self.incomplete().into_iter().map(|it| (it.group, it.number)).collect();
        let mut now = Findings { main: Some(main), ..self.own_findings() };
        let mut count = 0;
        for pe in pes {
            now += pe.findings(&about);
            count += 1;
        }
        Diagnosis::new(Rounds { before: None, now, are_alike: false }, count, 0)
    }

    /// The waits that the coordinator itself knows of.
    fn own_findings(&self) -> Findings {
        let mut waits = Waits::default();
        for Incomplete { group, number, here, of } in self.incomplete() {
            let missing = of.saturating_sub(here);
            let wait = Wait::new(group.wait_kind(), missing).out_of(of);
            waits.add(wait.about(group.subject(number)));
        }
        if self.quiescence.waits().is_some() {
            waits.add(Wait::new(WaitKind::Quiescence, 0));
        }
        if self.checkpoints.stops_pes() {
            waits.add(Wait::new(WaitKind::Checkpoint, 1));
        }
        waits.add_if_any(Wait::new(WaitKind::Rebalance, self.balances.queue.len() as u64));
        let mut of_main = self.other_waits();
        // A job that waits for a link does not count as stalled, so other reports do not name this.
        if !self.survey.change_waits.is_empty() {
            of_main.push("the next change of a link".to_owned());
        }
        let more = of_main.split_off(of_main.len().min(MAIN_WAITS_MAX)).len() as u64;
        if more > 0 {
            of_main.push(counted(more, "more operation", "more operations"));
        }
        for operation in of_main {
            waits.add(Wait::new(WaitKind::Main, 1).about(operation));
        }
        let (created, processed) = (self.created, self.processed);
        Findings { waits, created, processed, ..Findings::default() }
    }

    /// The reductions and sync points to which some members have contributed: the first of each
    /// group.
    fn incomplete(&self) -> Vec<Incomplete> {
        let mut found: BTreeMap<ReductionGroup, Incomplete> = BTreeMap::new();
        for (&(group, number), contribution) in &self.accumulators.0 {
            if found.contains_key(&group) {
                continue;
            }
            if found.len() == ABOUT_MAX {
                break;
            }
            let Some(state) = self.collections.get(&group.collection()) else { continue };
            let of = match group {
                ReductionGroup::Collection(_) => state.reductions.expected(number),
                ReductionGroup::Sync(_) => state.syncs.expected(number),
                ReductionGroup::Section(_) => contribution.expected,
            };
            found.insert(group, Incomplete { group, number, here: contribution.count, of });
        }
        found.into_values().collect()
    }
}

/// A reduction or a sync point that misses some members.
struct Incomplete {
    group: ReductionGroup,
    number: u64,
    /// Number of members that have contributed.
    here: u64,
    /// Number of members that take part.
    of: u64,
}

#[cfg(test)]
mod tests;
