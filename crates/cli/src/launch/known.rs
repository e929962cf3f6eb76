//! What the launcher knows of the links of its job: it is kept in the job's status file, and changes are
//! told to the user.

use super::report::{LinkNumbers, Report};
use crate::names::Names;
use crate::status::StatusFile;
use gridspan::links::LinkReport;
use gridspan_topology::{GridSpec, GroupId, LinkChange};
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is known, shared by those who read what nodes say.
pub(super) struct Known {
    grid: GridSpec,
    state: Mutex<State>,
}

struct State {
    links: Option<LinkReport>,
    file: Option<StatusFile>,
    /// What the user was warned of.
    warned: BTreeSet<String>,
}

impl Known {
    /// Nothing is known yet.
    pub(super) fn new(grid: GridSpec, file: Option<StatusFile>) -> Self {
        let state = State { links: None, file, warned: BTreeSet::new() };
        Self { grid, state: Mutex::new(state) }
    }

    /// Takes note of what a node knows. Returns what the user should be told.
    pub(super) fn learn(&self, links: LinkReport) -> Vec<Report> {
        let mut state = self.lock();
        let mut reports = self.changes(&links);
        for warning in &links.warnings {
            if state.warned.insert(warning.clone()) {
                reports.push(Report::Warning { text: warning.clone() });
            }
        }
        if let Some(Err(error)) = state.file.as_mut().map(|file| file.update(links.clone())) {
            // The job can do without those who look.
            tracing::info!(%error, "cannot keep the status of the job");
            state.file = None;
        }
        state.links = Some(links);
        reports
    }

    /// The job is over: nobody looks any more. Returns what was known last.
    pub(super) fn end(&self) -> Option<LinkReport> {
        let mut state = self.lock();
        state.file = None;
        state.links.take()
    }

    fn changes(&self, links: &LinkReport) -> Vec<Report> {
        if links.changes.is_empty() {
            return vec![];
        }
        let names = Names::of_grid(&links.hierarchy, &self.grid);
        let name = |group| names.group(GroupId(group)).to_owned();
        let is_reverse = |one: &LinkChange, other: &LinkChange| {
            (one.from, one.to) == (other.to, other.from)
                && LinkNumbers::new(&one.after).rounded()
                    == LinkNumbers::new(&other.after).rounded()
        };
        let changes = &links.changes;
        // A latency is measured there and back, so that most changes come in pairs.
        let is_second = |change: &&LinkChange| {
            change.from > change.to && changes.iter().any(|other| is_reverse(change, other))
        };
        let report = |change: &LinkChange| Report::Link {
            from: name(change.from),
            to: name(change.to),
            both_ways: changes.iter().any(|other| is_reverse(change, other)),
            before: LinkNumbers::new(&change.before),
            after: LinkNumbers::new(&change.after),
        };
        changes.iter().filter(|change| !is_second(change)).map(report).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
