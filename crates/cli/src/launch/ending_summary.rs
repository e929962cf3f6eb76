//! Counts the events of a job for a line at its end, because reports of them may have scrolled out
//! of view.

use super::report::Report;
use crate::quantity::{count, time};
use std::time::Duration;

/// Numbers of events of each kind.
#[derive(Debug, Default)]
pub(super) struct EndingSummary {
    warnings: usize,
    rebalances: usize,
    link_changes: usize,
}

impl EndingSummary {
    /// Counts the events in these reports. Puts the summary before the report that the job has
    /// ended, if that is among them and any event was counted.
    pub(super) fn add_to(&mut self, reports: &mut Vec<Report>) {
        let mut end = None;
        for (at, report) in reports.iter().enumerate() {
            match report {
                Report::Warning { .. } => self.warnings += 1,
                Report::Balanced(_) => self.rebalances += 1,
                Report::Link { .. } => self.link_changes += 1,
                Report::Finished { exit_code, seconds, lost_nodes, .. } => {
                    let what = if *exit_code == 0 { "done" } else { "ended" };
                    let after = Duration::try_from_secs_f64(*seconds).unwrap_or_default();
                    let text = self.happened(*lost_nodes);
                    end = text.map(|text| (at, format!("{what} after {}: {text}", time(after))));
                }
                _ => {}
            }
        }
        if let Some((at, text)) = end {
            reports.insert(at, Report::Summary { text });
        }
    }

    /// Lists the events; `None` if there were none.
    fn happened(&self, lost_nodes: u64) -> Option<String> {
        let lost_nodes = usize::try_from(lost_nodes).unwrap_or(usize::MAX);
        let counts = [
            (lost_nodes, "lost node"),
            (self.rebalances, "rebalance"),
            (self.link_changes, "link change"),
            (self.warnings, "warning"),
        ];
        let happened = counts.into_iter().filter(|(number, _)| *number > 0);
        let happened: Vec<String> = happened.map(|(number, what)| count(number, what)).collect();
        (!happened.is_empty()).then(|| happened.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(exit_code: u8, lost_nodes: u64) -> Report {
        Report::Finished { exit_code, seconds: 93.1, failure: None, lost_nodes }
    }

    fn warning() -> Report {
        Report::Warning { text: "slow".to_owned() }
    }

    /// The text of the summary among reports, which is the last but one.
    fn summary(reports: &[Report]) -> Option<&str> {
        match reports {
            [.., Report::Summary { text }, Report::Finished { .. }] => Some(text),
            _ => None,
        }
    }

    #[test]
    fn the_end_is_preceded_by_what_happened_in_all_batches() {
        let mut ending = EndingSummary::default();
        let mut first = vec![warning(), Report::Stopping];
        ending.add_to(&mut first);
        assert_eq!((first.len(), summary(&first)), (2, None));
        let mut last = vec![warning(), finished(0, 1)];
        ending.add_to(&mut last);
        assert_eq!(summary(&last), Some("done after 93.1 s: 1 lost node, 2 warnings"));
    }

    #[test]
    fn a_job_in_which_nothing_happened_ends_without_a_summary() {
        let mut quiet = vec![Report::Stopping, finished(0, 0)];
        EndingSummary::default().add_to(&mut quiet);
        assert_eq!((quiet.len(), summary(&quiet)), (2, None));
        let mut failed = vec![warning(), finished(1, 0)];
        EndingSummary::default().add_to(&mut failed);
        assert_eq!(summary(&failed), Some("ended after 93.1 s: 1 warning"));
    }
}
