//! The findings of `gridctl check`: errors, with which a job would fail, and warnings.

use serde::Serialize;

/// Whether a job would fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    Error,
    Warning,
}

/// Something that the user should know about some hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) level: Level,
    /// The hosts, ascending.
    pub(super) hosts: Vec<usize>,
    pub(super) what: String,
    /// What to do.
    pub(super) remedy: String,
}

/// Collects findings. Equal findings about several hosts become one.
#[derive(Debug, Default)]
pub(super) struct Findings {
    all: Vec<Finding>,
}

impl Findings {
    /// Adds a finding about a host. Equal findings keep the remedy of the first.
    pub(super) fn add(
        &mut self,
        level: Level,
        host: usize,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let what = what.into();
        match self.all.iter_mut().find(|it| it.level == level && it.what == what) {
            Some(known) => known.hosts.push(host),
            None => {
                self.all.push(Finding { level, hosts: vec![host], what, remedy: remedy.into() });
            }
        }
    }

    /// Returns all findings: errors before warnings, and those about many hosts first.
    pub(super) fn finish(mut self) -> Vec<Finding> {
        for finding in &mut self.all {
            finding.hosts.sort_unstable();
            finding.hosts.dedup();
        }
        self.all.sort_by_key(|it| (it.level, std::cmp::Reverse(it.hosts.len())));
        self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_findings_become_one_and_errors_come_first() {
        let mut findings = Findings::default();
        findings.add(Level::Warning, 4, "slow", "wait");
        for host in [3, 1, 3, 2] {
            findings.add(Level::Error, host, "gone", format!("look at {host}"));
        }
        findings.add(Level::Error, 0, "slow", "end it");
        let all = findings.finish();
        let short: Vec<_> =
            all.iter().map(|it| (it.level, &it.hosts[..], it.remedy.as_str())).collect();
        let expected = [
            (Level::Error, &[1, 2, 3][..], "look at 3"),
            (Level::Error, &[0][..], "end it"),
            (Level::Warning, &[4][..], "wait"),
        ];
        assert_eq!(short, expected);
    }
}
