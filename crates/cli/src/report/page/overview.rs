//! The head of a page: the outcome, what limited the run, what was recorded.

use super::html::{Cell, Panel, Table, escaped, share, time, with_code};
use crate::quantity::{count, exact_percent};
use crate::report::analysis::limits::Limit;
use crate::report::analysis::{Analysis, HostRow};
use crate::text::put;
use gridspan_record::DriverKind;

/// Maximum number of hosts that are named.
const HOSTS_MAX: usize = 6;
/// Maximum number of nodes without a record that are named.
const MISSING_MAX: usize = 100;

/// Renders the title, the outcome and facts about the job.
pub(crate) fn head(analysis: &Analysis) -> String {
    let outcome = &analysis.outcome;
    let after = time(outcome.end_ns);
    let (class, text) = match (&outcome.failure, outcome.exit_code) {
        (Some(failure), _) => ("bad", format!("failed after {after}: {failure}")),
        (None, Some(0)) => ("good", format!("done after {after}")),
        (None, Some(code)) => ("bad", format!("ended with exit code {code} after {after}")),
        (None, None) => ("bad", format!("cut off after {after}: the recording has no end")),
    };
    let mut html = format!(
        "<header>\n<h1>{}</h1>\n<p class=\"outcome {class}\">{}</p>\n<dl>",
        escaped(&analysis.job),
        escaped(&text)
    );
    for (name, value) in facts(analysis) {
        put(&mut html, format_args!("<dt>{}</dt><dd>{}</dd>", escaped(name), escaped(&value)));
    }
    html += "</dl>\n</header>\n";
    html
}

fn facts(analysis: &Analysis) -> Vec<(&'static str, String)> {
    let driver = match analysis.driver {
        DriverKind::Threads => "threads of one process",
        DriverKind::Processes => "processes",
        DriverKind::Simulated => "virtual time",
    };
    let size = format!(
        "{} on {} at {}",
        count(analysis.pe_count, "PE"),
        count(analysis.node_count, "node"),
        count(analysis.sites.len(), "site")
    );
    let mut facts = vec![
        ("command", format!("gridctl {}", analysis.command.join(" "))),
        ("ran as", driver.to_owned()),
        ("size", size),
        ("seed", analysis.seed.to_string()),
    ];
    if !analysis.hosts.is_empty() {
        facts.push(("hosts", hosts(&analysis.hosts)));
    }
    if let Some(started) = analysis.started_unix_ms {
        facts.push(("started", date(started)));
    }
    if let Some(build) = &analysis.build {
        facts.push(("build of the program", build.clone()));
    }
    if let Some(version) = &analysis.gridctl {
        facts.push(("recorded by", format!("gridctl {version}")));
    }
    let outcome = &analysis.outcome;
    if let Some(line) = &outcome.verified {
        facts.push(("result", line.clone()));
    }
    if outcome.launch_ns > 0 || outcome.teardown_ns > 0 {
        facts.push(("launch, before the first handler", time(outcome.launch_ns)));
        facts.push(("main and teardown, after the last handler", time(outcome.teardown_ns)));
    }
    facts
}

/// The hosts with most PEs.
fn hosts(rows: &[HostRow]) -> String {
    let one = |row: &HostRow| match row.hardware_threads {
        Some(threads) => format!(
            "{} ({}, {})",
            row.name,
            count(row.pes, "PE"),
            count(threads as usize, "hardware thread")
        ),
        None => format!("{} ({})", row.name, count(row.pes, "PE")),
    };
    let mut shown: Vec<String> = rows.iter().take(HOSTS_MAX).map(one).collect();
    if rows.len() > HOSTS_MAX {
        shown.push(count(rows.len() - HOSTS_MAX, "more host"));
    }
    shown.join(", ")
}

/// Formats a time since 1970 as a date, in Coordinated Universal Time.
fn date(unix_ms: u64) -> String {
    let seconds = unix_ms / 1000;
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // `civil_from_days` of Hinnant (2013), "chrono-Compatible Low-Level Date Algorithms": years
    // begin in March, so that a leap day is the last day of a year.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

/// Renders what limited the run.
pub(crate) fn limits(analysis: &Analysis) -> Panel {
    let diagnosis = &analysis.diagnosis;
    let mut body = String::new();
    if !diagnosis.limits.is_empty() {
        body += "<ol class=\"limits\">\n";
        for Limit { clause, share: part, evidence, advice, .. } in &diagnosis.limits {
            let because = if evidence.is_empty() { String::new() } else { format!("{evidence}. ") };
            put(
                &mut body,
                format_args!(
                    "<li><b>{}</b> {}.<br><small>{}{}</small></li>\n",
                    share(*part),
                    escaped(clause),
                    escaped(&because),
                    with_code(advice)
                ),
            );
        }
        body += "</ol>\n<p><small>Shares are of the time of all PEs, without launch and \
                 teardown. At most that much would be saved without the limit; shares may \
                 overlap.</small></p>\n";
    }
    body += &coverage(analysis);
    let titles = [
        ("LIMIT", "kind"),
        ("PLACE", "place"),
        ("SHARE", "share_of_pe_time"),
        ("WHAT", "clause"),
        ("EVIDENCE", "evidence"),
    ];
    let mut table = Table::new("limits", &titles);
    for limit in &diagnosis.limits {
        let kind = serde_json::to_value(limit.kind).ok();
        let kind = kind.as_ref().and_then(|kind| kind.as_str()).unwrap_or_default();
        table.row(vec![
            Cell::text(kind),
            Cell::text(&limit.place),
            Cell::share(limit.share),
            Cell::text(&limit.clause),
            Cell::text(&limit.evidence),
        ]);
    }
    Panel {
        id: "limits",
        title: "What limited the run",
        conclusion: diagnosis.sentence.clone(),
        body,
        tables: vec![table],
    }
}

/// Renders the gaps of the recording.
fn coverage(analysis: &Analysis) -> String {
    let coverage = &analysis.coverage;
    let mut html = String::new();
    if coverage.dropped_share > 0.0 {
        put(
            &mut html,
            format_args!(
                "<p class=\"note\">{} of the spans were dropped to stay within the budget of the \
                 recording: of {} windows of {} each, the spans of one were kept. Waits, the \
                 critical path and messages between types and nodes are estimated from these; times \
                 and traffic are exact.</p>\n",
                exact_percent(coverage.dropped_share),
                coverage.one_window_of,
                time(coverage.window_ns)
            ),
        );
    }
    if coverage.dropped_events > 0 {
        let kinds = match &coverage.dropped_kinds[..] {
            [] => String::new(),
            kinds => format!(" ({})", kinds.join(", ")),
        };
        put(
            &mut html,
            format_args!(
                "<p class=\"note\">{} of the events of the job had no room in the recording, and \
                 are not shown: {} in all{kinds}. Broadcasts, rebalances, checkpoints and changes \
                 of links are left out first.</p>\n",
                exact_percent(coverage.dropped_event_share),
                coverage.dropped_events
            ),
        );
    }
    if coverage.missing_count > 0 {
        put(
            &mut html,
            format_args!(
                "<p class=\"note\">Nothing is known of {}: {}.</p>\n",
                count(coverage.missing_count, "node"),
                escaped(&coverage.missing_names(MISSING_MAX))
            ),
        );
    }
    html
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_782_400_000), "2000-02-29 00:00 UTC");
        assert_eq!(date(1_700_000_000_000), "2023-11-14 22:13 UTC");
        assert_eq!(date(4_107_542_399_000), "2100-02-28 23:59 UTC");
    }
}
