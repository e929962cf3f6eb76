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
    /// Whether the user is told of what is new.
    is_told: bool,
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
    pub(super) fn new(grid: GridSpec, is_told: bool, file: Option<StatusFile>) -> Self {
        let state = State { links: None, file, warned: BTreeSet::new() };
        Self { grid, is_told, state: Mutex::new(state) }
    }

    /// Takes note of what a node knows. Returns what the user should be told.
    pub(super) fn learn(&self, links: LinkReport) -> Vec<Report> {
        let mut state = self.lock();
        let mut reports = self.changes(&links);
        let mut is_new = |warning: &&String| state.warned.insert((*warning).clone());
        let warnings = links.warnings.iter().filter(|warning| is_new(warning));
        reports.extend(warnings.map(|text| Report::Warning { text: text.clone() }));
        reports.retain(|_| self.is_told);
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
        let shown = |change: &LinkChange| {
            LinkNumbers::new(&change.before).change(&LinkNumbers::new(&change.after))
        };
        let is_reverse = |one: &LinkChange, other: &LinkChange| {
            (one.from, one.to) == (other.to, other.from) && shown(one) == shown(other)
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

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_topology::{Bandwidth, Hierarchy, Latency, LinkEstimate, Time};
    use std::time::Duration;

    fn change(from: u32, to: u32, after_ms: u64, mbit: u64) -> LinkChange {
        let estimate = |ms| LinkEstimate {
            latency: Latency::from_millis(ms),
            jitter: Duration::ZERO,
            loss: 0.0,
            bandwidth: Some(Bandwidth::from_bits_per_second(mbit * 1_000_000)),
            observed: Time::ZERO,
            confidence: 1.0,
        };
        LinkChange { from, to, before: estimate(10), after: estimate(after_ms) }
    }

    fn told(changes: Vec<LinkChange>) -> Vec<(String, String, bool)> {
        let grid = GridSpec::from_emulate("2x2").unwrap();
        let links = LinkReport {
            at: Time::ZERO,
            hierarchy: Hierarchy::from_grid(&grid),
            estimates: vec![],
            uplinks: vec![],
            changes,
            warnings: vec![],
        };
        let reports = Known::new(grid, true, None).learn(links);
        let place = |report| match report {
            Report::Link { from, to, both_ways, .. } => (from, to, both_ways),
            other => panic!("{other:?}"),
        };
        reports.into_iter().map(place).collect()
    }

    #[test]
    fn a_change_in_both_directions_is_told_once() {
        let link = |from: &str, to: &str, both_ways| (from.to_owned(), to.to_owned(), both_ways);
        let both = vec![change(1, 2, 40, 100), change(2, 1, 40, 90)];
        assert_eq!(told(both), [link("a", "b", true)], "what they can carry has not changed");
        let unlike = vec![change(1, 2, 40, 100), change(2, 1, 80, 100)];
        assert_eq!(told(unlike), [link("a", "b", false), link("b", "a", false)]);
        assert_eq!(told(vec![change(1, 1, 40, 100)]), [link("a", "a", true)]);
    }
}
