//! The summary for people: what limited the run in the first line, the outcome, and shares.

use super::analysis::Analysis;
use crate::quantity::{count, exact_percent, percent, time};
use crate::table::{Align, Table};
use std::path::Path;
use std::time::Duration;

/// Maximum number of limits that are listed.
const LIMITS_MAX: usize = 5;
/// Maximum number of nodes without a record that are named.
const MISSING_MAX: usize = 10;

/// Renders the summary. `page`: the file with the page.
pub(super) fn render(analysis: &Analysis, page: &Path) -> String {
    let mut text = format!("{}\n\n{}\n", analysis.diagnosis.sentence, outcome(analysis));
    let times = &analysis.times;
    let part = |ns: u64| percent(analysis.share_of(ns));
    text += &format!(
        "time of PEs: handlers {}, network and runtime {}, idle {}",
        part(times.busy_ns),
        part(times.network_ns.saturating_add(times.runtime_ns)),
        part(times.idle_ns)
    );
    if times.waited_ns > 0 {
        text += &format!(", other threads {}", part(times.waited_ns));
    }
    text.push('\n');
    let outcome = &analysis.outcome;
    if outcome.launch_ns > 0 || outcome.teardown_ns > 0 {
        let [launch, teardown] =
            [outcome.launch_ns, outcome.teardown_ns].map(|ns| time(Duration::from_nanos(ns)));
        text +=
            &format!("not counted: {launch} before the first handler, {teardown} after the last\n");
    }
    let coverage = &analysis.coverage;
    if coverage.dropped_share > 0.0 {
        let share = exact_percent(coverage.dropped_share);
        text += &format!("{share} of the spans were dropped, so that waits are estimates\n");
    }
    if coverage.dropped_events > 0 {
        let share = exact_percent(coverage.dropped_event_share);
        let kinds = match &coverage.dropped_kinds[..] {
            [] => String::new(),
            kinds => format!(": {}", kinds.join(", ")),
        };
        text += &format!("{share} of the events of the job were dropped{kinds}\n");
    }
    if coverage.missing_count > 0 {
        text += &format!("nothing is known of {}\n", coverage.missing_names(MISSING_MAX));
    }
    if !analysis.diagnosis.limits.is_empty() {
        let align = |column| if column == 0 { Align::Right } else { Align::Left };
        let mut table = Table::new(vec!["SHARE".to_owned(), "LIMIT".to_owned()], align);
        for limit in analysis.diagnosis.limits.iter().take(LIMITS_MAX) {
            table.row(vec![percent(limit.share), limit.clause.clone()]);
        }
        text += &format!("\n{}", table.render(false));
    }
    text += &format!("\nthe page is {}\n", page.display());
    text
}

fn outcome(analysis: &Analysis) -> String {
    let outcome = &analysis.outcome;
    let ended = match (&outcome.failure, outcome.exit_code) {
        (Some(failure), _) => format!("failed ({failure})"),
        (None, Some(0)) => "done".to_owned(),
        (None, Some(code)) => format!("ended with exit code {code}"),
        (None, None) => "cut off".to_owned(),
    };
    format!(
        "{}: {ended} after {}, on {} of {} at {}",
        analysis.job,
        time(Duration::from_nanos(outcome.end_ns)),
        count(analysis.pe_count, "PE"),
        count(analysis.node_count, "node"),
        count(analysis.sites.len(), "site")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::analysis::fixtures::{complete, from, recording, span};
    use gridspan_record::{RecordedEvent, Span, What};

    #[test]
    fn the_first_line_is_what_limited_the_run() {
        let mut recording = recording(1, 3);
        for pe in 0..3_u32 {
            let end = if pe == 1 { 12 } else { 4 };
            let first = span(pe, 0, [0, end]);
            let next = Span { cause: from(1, 0, [12, 12]), ..span(pe, 1, [12, 12 + end]) };
            recording.pes[pe as usize].spans = vec![first, next];
        }
        recording.header.pes[1].speed = 1.0 / 3.0;
        complete(&mut recording, 24);

        let text = render(&Analysis::of(&recording), Path::new("r/report.html"));

        let lines: Vec<_> = text.lines().collect();
        let cause = "PE 1 (node a/1) is slow, with 33 % of the usual speed";
        let sentence =
            format!("What limited the run: {cause}; that took 44 % of the time of all PEs.");
        assert_eq!(lines[0], sentence);
        assert_eq!(lines[2], "planted: done after 24.0 ms, on 3 PEs of 3 nodes at 1 site");
        assert_eq!(lines[3], "time of PEs: handlers 56 %, network and runtime 0 %, idle 44 %");
        assert_eq!(lines[6], format!(" 44 %  {cause}"));
        assert_eq!(lines.last(), Some(&"the page is r/report.html"));
    }

    #[test]
    fn small_shares_that_were_dropped_are_no_zero() {
        let mut recording = recording(1, 1);
        recording.pes[0].spans = vec![span(0, 0, [0, 10])];
        complete(&mut recording, 20);
        recording.pes[0].dropped_spans = 999;
        let warning = What::Warning { text: "x".to_owned() };
        recording.events = vec![RecordedEvent { at_ns: 1, what: warning }; 999];
        recording.ending.as_mut().unwrap().dropped_events = 1;

        let analysis = Analysis::of(&recording);

        let text = render(&analysis, Path::new("report.html"));
        assert!(text.contains("\n99.9 % of the spans were dropped"), "{text}");
        assert!(text.contains("\n0.100 % of the events of the job were dropped\n"), "{text}");
        assert_eq!(analysis.coverage.dropped_events, 1);

        let ending = recording.ending.as_mut().unwrap();
        ending.dropped_events = 7;
        let kinds = [("checkpoint", 4), ("lost", 1), ("\u{1b}[31m", 2)];
        ending.dropped_kinds =
            kinds.into_iter().map(|(kind, number)| (kind.to_owned(), number)).collect();
        let text = render(&Analysis::of(&recording), Path::new("report.html"));
        assert!(text.contains("were dropped: 4 checkpoints, 1 loss, 2 of other kinds\n"), "{text}");
    }
}
