//! What `gridctl check` prints, for people: a table of hosts, a line for each problem, a summary.

use super::finding::{Finding, Level};
use super::rows::{TITLES, rows};
use super::subject::Subject;
use super::survey::Found;
use super::traffic::Traffic;
use crate::names::abbreviated;
use crate::quantity::count;
use crate::table::{Align, Table};
use std::collections::BTreeSet;

/// Number of problems that fit a screen beside the table.
const PROBLEMS_MAX: usize = 12;

/// All that is known after a check.
pub(super) struct Report<'a> {
    pub(super) subjects: &'a [Subject],
    pub(super) found: &'a Found,
    pub(super) traffic: &'a Traffic,
    /// The digest that the program should have.
    pub(super) reference: Option<&'a str>,
    pub(super) findings: &'a [Finding],
}

impl Report<'_> {
    /// Renders the report as text.
    pub(super) fn text(&self, is_coloured: bool) -> String {
        let (rows, left) = rows(self.subjects, self.found, self.traffic, self.reference);
        let mut table = Table::new(TITLES.map(str::to_owned).to_vec(), |_| Align::Left);
        rows.iter().for_each(|row| table.row(row.cells()));
        let mut text = table.render(is_coloured);
        if left > 0 {
            text += &format!("{}; --json has all\n", count(left, "more line"));
        }
        text.push('\n');
        for finding in self.findings.iter().take(PROBLEMS_MAX) {
            let level = match finding.level {
                Level::Error => "error",
                Level::Warning => "warning",
            };
            let Finding { what, remedy, .. } = finding;
            text += &format!("{level}: {}: {what}; {remedy}\n", self.hosts(finding));
        }
        if self.findings.len() > PROBLEMS_MAX {
            let left = self.findings.len() - PROBLEMS_MAX;
            text += &format!("{}; --json has all\n", count(left, "more problem"));
        }
        if !self.findings.is_empty() {
            text.push('\n');
        }
        text + &self.summary()
    }

    /// Names the hosts of a finding.
    fn hosts(&self, finding: &Finding) -> String {
        match (&finding.hosts[..], self.subjects.len()) {
            (hosts, all) if all > 1 && hosts.len() == all => "all hosts".to_owned(),
            (hosts, _) => abbreviated(hosts.iter().map(|&it| self.subjects[it].name.as_str())),
        }
    }

    fn summary(&self) -> String {
        let hosts = self.subjects.len();
        let sites: BTreeSet<usize> = self.subjects.iter().map(|it| it.site_number).collect();
        let nodes: usize = self.subjects.iter().map(|subject| subject.nodes).sum();
        let mut text = match hosts {
            1 => format!("{}, {}", count(1, "host"), count(nodes, "node")),
            _ => format!(
                "{} at {}, {}",
                count(hosts, "host"),
                count(sites.len(), "site"),
                count(nodes, "node")
            ),
        };
        let all_ways = hosts * hosts.saturating_sub(1);
        if self.traffic.ways() < all_ways {
            text += &format!(", UDP checked on {} of {all_ways} ways", self.traffic.ways());
        }
        let of = |level: Level| self.findings.iter().filter(|it| it.level == level).count();
        let verdict = match (of(Level::Error), of(Level::Warning)) {
            (0, 0) => "ready".to_owned(),
            (0, warnings) => format!("ready, with {}", count(warnings, "warning")),
            (errors, 0) => count(errors, "error"),
            (errors, warnings) => {
                format!("{} and {}", count(errors, "error"), count(warnings, "warning"))
            }
        };
        format!("{text}: {verdict}\n")
    }

    /// Whether a job would fail.
    pub(super) fn has_errors(&self) -> bool {
        self.findings.iter().any(|finding| finding.level == Level::Error)
    }
}
