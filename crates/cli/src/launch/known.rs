//! The links of the job, as the launcher knows them. The launcher keeps them in the job's status
//! file, and reports changes to the user.

use super::report::{LinkNumbers, Report};
use crate::names::Names;
use crate::roster::Roster;
use crate::status::StatusFile;
use gridspan::links::LinkReport;
use gridspan_topology::{GridSpec, GroupId, Hierarchy};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Largest relative difference between two consecutive observations of a settled link.
const SETTLED: f64 = 0.1;
/// Relative change of a link above which the change is reported.
const NEWS: f64 = 0.2;

/// The known links, shared by the threads that read the nodes' output.
pub(super) struct Known {
    /// Whether changes and warnings are reported to the user.
    is_told: bool,
    state: Mutex<State>,
}

struct State {
    /// The grid of the present run, which numbers its nodes.
    grid: GridSpec,
    links: Option<LinkReport>,
    watched: BTreeMap<(GroupId, GroupId), Watched>,
    file: Option<StatusFile>,
    /// Warnings that were reported to the user.
    warned: BTreeSet<String>,
}

/// A watched link.
#[derive(Default)]
struct Watched {
    /// The last reported numbers, or the first settled ones if none was reported. New settled
    /// numbers are compared with these.
    told: Option<LinkNumbers>,
    /// The last observation.
    last: Option<LinkNumbers>,
}

/// A link that has changed.
struct Change {
    from: GroupId,
    to: GroupId,
    before: LinkNumbers,
    after: LinkNumbers,
}

impl Watched {
    /// Adds an observation. Returns the numbers before and after a change to report. There is none
    /// while the link still changes, as round trips do long after the start of a job.
    fn look(&mut self, now: LinkNumbers) -> Option<(LinkNumbers, LinkNumbers)> {
        let is_settled = self.last.replace(now).is_some_and(|last| !last.differs(&now, SETTLED));
        if !is_settled {
            return None;
        }
        let told = *self.told.get_or_insert(now);
        let is_news = told.differs(&now, NEWS);
        is_news.then(|| (self.told.replace(now).unwrap_or(told), now))
    }
}

impl State {
    /// Returns reports of the changes; a change that is equal in both directions is reported once.
    fn reports(&self, changes: &[Change], hierarchy: &Hierarchy) -> Vec<Report> {
        if changes.is_empty() {
            return vec![];
        }
        let names = Names::of_grid(hierarchy, &self.grid);
        let name = |group| names.group(group).to_owned();
        let is_reverse = |one: &Change, other: &Change| {
            (one.from, one.to) == (other.to, other.from)
                && one.before.change(&one.after) == other.before.change(&other.after)
        };
        let is_second = |change: &&Change| {
            change.from > change.to && changes.iter().any(|other| is_reverse(change, other))
        };
        let report = |change: &Change| Report::Link {
            from: name(change.from),
            to: name(change.to),
            both_ways: changes.iter().any(|other| is_reverse(change, other)),
            before: change.before,
            after: change.after,
        };
        changes.iter().filter(|change| !is_second(change)).map(report).collect()
    }
}

impl Known {
    /// Creates an instance that knows no links.
    pub(super) fn new(grid: GridSpec, is_told: bool, file: Option<StatusFile>) -> Self {
        let (watched, warned) = (BTreeMap::new(), BTreeSet::new());
        let state = State { grid, links: None, watched, file, warned };
        Self { is_told, state: Mutex::new(state) }
    }

    /// Notes that the job has more nodes, which take no part yet.
    pub(super) fn grow(&self, whole: Roster) {
        let mut state = self.lock();
        if let Some(Err(error)) = state.file.as_mut().map(|file| file.grow(whole)) {
            tracing::info!(%error, "cannot keep the status of the job");
            state.file = None;
        }
    }

    /// Forgets the links, because another run of the job begins on the nodes of `grid`.
    pub(super) fn begin_run(&self, grid: GridSpec) {
        let mut state = self.lock();
        (state.links, state.grid) = (None, grid.clone());
        state.watched.clear();
        if let Some(Err(error)) = state.file.as_mut().map(|file| file.begin_run(grid)) {
            tracing::info!(%error, "cannot keep the status of the job");
            state.file = None;
        }
    }

    /// Records the links that a node reports. Returns reports for the user.
    pub(super) fn learn(&self, links: LinkReport) -> Vec<Report> {
        let mut state = self.lock();
        if state.links.as_ref().is_none_or(|known| known.hierarchy != links.hierarchy) {
            // The new hierarchy may number its groups differently.
            state.watched.clear();
        }
        let mut changes = vec![];
        for &((from, to), estimate) in &links.estimates {
            let watched = state.watched.entry((from, to)).or_default();
            let change = watched.look(LinkNumbers::new(&estimate));
            changes.extend(change.map(|(before, after)| Change { from, to, before, after }));
        }
        let mut reports = state.reports(&changes, &links.hierarchy);
        let mut is_new = |warning: &&String| state.warned.insert((*warning).clone());
        let warnings = links.warnings.iter().filter(|warning| is_new(warning));
        reports.extend(warnings.map(|text| Report::Warning { text: text.clone() }));
        reports.retain(|_| self.is_told);
        if let Some(Err(error)) = state.file.as_mut().map(|file| file.update(links.clone())) {
            // The job can run without a status file.
            tracing::info!(%error, "cannot keep the status of the job");
            state.file = None;
        }
        state.links = Some(links);
        reports
    }

    /// Removes the job's status file. Returns the last known links.
    pub(super) fn end(&self) -> Option<LinkReport> {
        let mut state = self.lock();
        state.file = None;
        state.links.take()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_topology::{Bandwidth, Latency, LinkEstimate, Time};

    fn report(estimates: &[(u32, u32, u64, u64)]) -> LinkReport {
        let estimate = |&(from, to, ms, mbit): &(u32, u32, u64, u64)| {
            let mut estimate = LinkEstimate::new(Latency::from_millis(ms), Time::ZERO);
            estimate.bandwidth = Some(Bandwidth::from_bits_per_second(mbit * 1_000_000));
            ((GroupId(from), GroupId(to)), estimate)
        };
        let hierarchy = Hierarchy::from_grid(&GridSpec::from_emulate("2x2").unwrap());
        let mut report = LinkReport::of_places(Time::ZERO, hierarchy);
        report.estimates = estimates.iter().map(estimate).collect();
        report.warnings = vec!["odd".to_owned()];
        report
    }

    fn known() -> Known {
        Known::new(GridSpec::from_emulate("2x2").unwrap(), true, None)
    }

    /// Returns the reported changes of links, as `from to both_ways change`.
    fn told(known: &Known, estimates: &[(u32, u32, u64, u64)]) -> Vec<String> {
        let link = |report| match report {
            Report::Link { from, to, both_ways, before, after } => {
                Some(format!("{from} {to} {both_ways} {}", before.change(&after)))
            }
            _ => None,
        };
        known.learn(report(estimates)).into_iter().filter_map(link).collect()
    }

    #[test]
    fn a_settled_change_is_reported_once() {
        let known = known();
        let steps = [(30, ""), (12, ""), (10, ""), (10, ""), (11, ""), (25, ""), (40, "")];
        for (ms, expected) in steps {
            assert_eq!(told(&known, &[(1, 2, ms, 100)]).join(","), expected, "{ms} ms");
        }
        assert_eq!(told(&known, &[(1, 2, 41, 100)]), ["a b false 10.0 ms → 41.0 ms"]);
        assert!(told(&known, &[(1, 2, 41, 100)]).is_empty());
    }

    #[test]
    fn an_equal_change_in_both_directions_is_reported_once() {
        let known = known();
        let both = |there: u64, back: u64| [(1, 2, there, 100), (2, 1, back, 90)];
        for (there, back) in [(10, 10), (10, 10), (40, 40)] {
            assert!(told(&known, &both(there, back)).is_empty());
        }
        assert_eq!(told(&known, &both(40, 40)), ["a b true 10.0 ms → 40.0 ms"]);
        told(&known, &both(80, 20));
        let unlike = ["a b false 40.0 ms → 80.0 ms", "b a false 40.0 ms → 20.0 ms"];
        assert_eq!(told(&known, &both(80, 20)), unlike);
    }

    #[test]
    fn a_warning_is_reported_once_and_never_for_an_unlisted_job() {
        let known = known();
        assert_eq!(known.learn(report(&[])).len(), 1);
        assert_eq!(known.learn(report(&[])).len(), 0);
        let silent = Known::new(GridSpec::from_emulate("2x2").unwrap(), false, None);
        assert_eq!(silent.learn(report(&[])).len(), 0);
    }
}
