//! The use of time: handlers by type, waits, and the critical path.

use super::chart::{Axis, Bar, BarPart, bars, class_of, time_axis};
use super::durations::histogram;
use super::html::{Cell, Panel, Table, share, time};
use crate::quantity::{count, exact_percent};
use crate::report::analysis::Analysis;
use crate::report::analysis::path::{CriticalPath, PathPart, PathPartKind, PathStep};

/// Maximum number of bars of a chart.
const BARS_MAX: usize = 20;

/// Renders the time of handlers by type.
pub(crate) fn handlers(analysis: &Analysis) -> Panel {
    let used = || analysis.kinds.iter().filter(|row| row.total_ns > 0);
    let titles = [
        ("TYPE", "type"),
        ("RUNS", "runs"),
        ("TOTAL", "total_ns"),
        ("MEAN", "mean_ns"),
        ("MEDIAN", "median_ns"),
        ("99 %", "p99_ns"),
        ("LONGEST", "longest_ns"),
        ("SHARE", "share_of_handlers"),
    ];
    let mut table = Table::new("handlers", &titles);
    let mut all = Vec::new();
    for (number, row) in used().enumerate() {
        let durations = analysis.durations.of_type(&row.name);
        table.row(vec![
            Cell::text(&row.name),
            Cell::count(row.count),
            Cell::time(row.total_ns),
            Cell::time(row.mean_ns),
            Cell::optional(durations.map(|row| row.median_ns), Cell::time),
            Cell::optional(durations.map(|row| row.p99_ns), Cell::time),
            Cell::time(row.max_ns),
            Cell::share(row.share),
        ]);
        let title = format!(
            "{}: {}, mean {}, longest {}",
            row.name,
            count(usize::try_from(row.count).unwrap_or(usize::MAX), "run"),
            time(row.mean_ns),
            time(row.max_ns)
        );
        let class = class_of(number);
        let part = BarPart { class, value: row.total_ns as f64, title };
        all.push(Bar { label: row.name.clone(), parts: vec![part], value: time(row.total_ns) });
    }
    all.truncate(BARS_MAX);
    let most = used().map(|row| row.total_ns).max().unwrap_or(0);
    let conclusion = match used().next() {
        Some(row) => format!(
            "{} took {} of the time of all handlers, {} on average and {} at most.",
            row.name,
            share(row.share),
            time(row.mean_ns),
            time(row.max_ns)
        ),
        None => "No handlers were recorded.".to_owned(),
    };
    let mut body = if all.is_empty() { String::new() } else { bars(&all, &time_axis(most)) };
    body += &histogram(analysis);
    Panel {
        id: "handlers",
        title: "Time in handlers by type",
        conclusion,
        body,
        tables: vec![table],
    }
}

/// Renders what PEs waited for.
pub(crate) fn waits(analysis: &Analysis) -> Panel {
    let titles = [("WAITED FOR", "awaited"), ("SHARE", "share_of_pe_time")];
    let mut table = Table::new("waits", &titles);
    let mut all = Vec::new();
    for row in analysis.waits.iter().filter(|row| row.share > 0.0) {
        table.row(vec![Cell::text(&row.awaited), Cell::share(row.share)]);
        let title = format!("{}: {} of the time of all PEs", row.awaited, share(row.share));
        let part = BarPart { class: "wait".to_owned(), value: row.share * 100.0, title };
        all.push(Bar { label: row.awaited.clone(), parts: vec![part], value: share(row.share) });
    }
    all.truncate(BARS_MAX);
    let idle = share(analysis.share_of(analysis.times.idle_ns));
    let conclusion = match analysis.waits.first().filter(|row| row.share > 0.0) {
        Some(row) => format!(
            "PEs were idle for {idle} of the time, most of it ({}) for this reason: {}.",
            share(row.share),
            row.awaited
        ),
        None => format!("PEs were idle for {idle} of the time."),
    };
    let axis = Axis { title: "share of the time of all PEs, %", unit: 1.0 };
    let mut body = if all.is_empty() { String::new() } else { bars(&all, &axis) };
    body += "<p><small>While a message travelled, the PE waited for its link; before that, for its \
             sender, or for what the sender itself waited for.</small></p>\n";
    Panel { id: "waits", title: "Why PEs were idle", conclusion, body, tables: vec![table] }
}

/// Renders the critical path.
pub(crate) fn path(analysis: &Analysis) -> Panel {
    let path = &analysis.path;
    let titles = [
        ("PART", "part"),
        ("KIND", "kind"),
        ("TIME", "time_ns"),
        ("SHARE", "share_of_path"),
        ("WHILE A MESSAGE WAITED", "queued_ns"),
    ];
    let mut table = Table::new("path", &titles);
    let mut all = Vec::new();
    for part in &path.parts {
        let kind = serde_json::to_value(part.kind).ok();
        let kind = kind.as_ref().and_then(|kind| kind.as_str()).unwrap_or_default();
        table.row(vec![
            Cell::text(&part.name),
            Cell::text(kind),
            Cell::time(part.ns),
            Cell::share(part.share),
            Cell::time(part.queued_ns),
        ]);
        all.push(bar(part));
    }
    all.truncate(BARS_MAX);
    let mut pes = Table::new("path-pes", &[("PE", "pe"), ("TIME ON THE PATH", "time_ns")]);
    for (pe, ns) in &path.pes {
        pes.row(vec![Cell::count(*pe as u64), Cell::time(*ns)]);
    }
    let most = path.parts.iter().map(|part| part.ns).max().unwrap_or(0);
    let mut body = if all.is_empty() { String::new() } else { bars(&all, &time_axis(most)) };
    body += &steps(path);
    let tables = vec![table, pes, step_table(path)];
    Panel { id: "path", title: "Critical path", conclusion: of_path(analysis), body, tables }
}

/// Renders the steps that took most of the path, if the job has steps.
fn steps(path: &CriticalPath) -> String {
    let Some(longest) = path.longest_steps.first() else { return String::new() };
    let bar = |step: &PathStep| {
        let rest = step.ns.saturating_sub(step.handlers_ns).saturating_sub(step.links_ns);
        let part = |class: &str, ns: u64, what: &str| BarPart {
            class: class.to_owned(),
            value: ns as f64,
            title: format!("step {}, {what}: {}", step.step, time(ns)),
        };
        let parts = vec![
            part("k0", step.handlers_ns, "handlers"),
            part("k1", step.links_ns, "messages under way"),
            part("overhead", rest, "other"),
        ];
        Bar { label: format!("step {}", step.step), parts, value: time(step.ns) }
    };
    let all: Vec<Bar> = path.longest_steps.iter().take(BARS_MAX).map(bar).collect();
    format!(
        "<p><small>{} on the path, with {} on average. The longest, with the time from the step \
         before: handlers, then messages under way, then other times.</small></p>\n{}",
        count(path.step_count, "step"),
        time(path.step_mean_ns),
        bars(&all, &time_axis(longest.ns))
    )
}

fn step_table(path: &CriticalPath) -> Table {
    let titles = [
        ("STEP", "step"),
        ("TIME ON THE PATH", "time_ns"),
        ("HANDLERS", "handlers_ns"),
        ("MESSAGES", "messages_ns"),
    ];
    let mut table = Table::new("path-steps", &titles);
    for step in &path.longest_steps {
        table.row(vec![
            Cell::count(step.step),
            Cell::time(step.ns),
            Cell::time(step.handlers_ns),
            Cell::time(step.links_ns),
        ]);
    }
    table
}

/// A bar: first the time in which no message waited, then the time in which the next message of the
/// path waited.
fn bar(part: &PathPart) -> Bar {
    let class = match part.kind {
        PathPartKind::Handlers => "k0",
        PathPartKind::Link => "k1",
        PathPartKind::Overhead => "overhead",
        PathPartKind::Main => "k3",
        PathPartKind::Unknown => "idle",
    };
    let one = |class: &str, ns: u64, what: &str| BarPart {
        class: class.to_owned(),
        value: ns as f64,
        title: format!("{}{what}: {}", part.name, time(ns)),
    };
    let alone = part.ns.saturating_sub(part.queued_ns);
    let parts = vec![
        one(class, alone, ""),
        one(&format!("{class} queued"), part.queued_ns, ", while the next message waited"),
    ];
    Bar { label: part.name.clone(), parts, value: share(part.share) }
}

fn of_path(analysis: &Analysis) -> String {
    let path = &analysis.path;
    let Some(first) = path.parts.first() else {
        return "There are no spans, so the path is not known.".to_owned();
    };
    let over = match path.walks {
        1 => format!("from the end of the run back over {}", time(path.total_ns)),
        walks => format!(
            "in {walks} windows, {} of the run, since {} of the spans were dropped",
            share(path.covered),
            exact_percent(analysis.coverage.dropped_share)
        ),
    };
    let steps =
        path.steps.map_or_else(String::new, |[first, last]| format!(", steps {first} to {last}"));
    format!(
        "The critical path ({over}{steps}) is {} in handlers and goes from one PE to another {}. The \
         greatest part is {}, with {}.",
        share(path.handler_share()),
        count(usize::try_from(path.hops).unwrap_or(usize::MAX), "time"),
        first.name,
        share(first.share)
    )
}
