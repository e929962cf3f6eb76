//! The timeline: a row for each PE, grouped by site, with marks for events of the whole job.

use super::html::{Cell, Panel, Table, escaped, time};
use crate::quantity::count;
use crate::report::analysis::Analysis;
use crate::report::analysis::events::{Mark, MarkKind};
use crate::report::analysis::timeline::{RowKind, Series, Timeline, TimelineRow};
use crate::text::put;
use serde_json::json;

/// Maximum number of marks; the list of events has the others.
const MARKS_MAX: usize = 200;

/// Renders the timeline.
pub(crate) fn panel(analysis: &Analysis) -> Panel {
    let timeline = &analysis.timeline;
    let mut body = String::from("<div class=\"timeline\">\n");
    body += &controls(analysis);
    body += "<div class=\"tl-body\"><div class=\"tl-marks\">";
    for mark in analysis.events.marks.iter().take(MARKS_MAX) {
        body += &of_mark(mark, analysis.outcome.end_ns);
    }
    body += "</div>\n";
    let mut site = None;
    for row in &timeline.rows {
        if site != Some(row.site) && timeline.of != RowKind::Site {
            let name = analysis.sites.get(row.site).map_or("", String::as_str);
            put(
                &mut body,
                format_args!(
                    "<div class=\"tl-site\" data-site=\"{}\">site {}</div>\n",
                    row.site,
                    escaped(name)
                ),
            );
        }
        site = Some(row.site);
        body += &of_row(row, timeline);
    }
    body += "<div class=\"tl-axis\"></div></div>\n<div class=\"tl-tip\" hidden></div>\n</div>\n";
    body += &data(analysis);
    Panel {
        id: "timeline",
        title: "Timeline",
        conclusion: conclusion(analysis),
        body,
        tables: vec![pes(analysis)],
    }
}

fn conclusion(analysis: &Analysis) -> String {
    let times = &analysis.times;
    let part = |ns: u64| format!("{:.0} %", analysis.share_of(ns) * 100.0);
    let mut text = format!(
        "PEs computed for {} of the time, spent {} on network and runtime, were idle for {}",
        part(times.busy_ns),
        part(times.network_ns.saturating_add(times.runtime_ns)),
        part(times.idle_ns)
    );
    if times.waited_ns > 0 {
        text += &format!(
            ", and waited for {} while other threads had the processor",
            part(times.waited_ns)
        );
    }
    text += match analysis.timeline.of {
        RowKind::Pe => ".",
        RowKind::Node => ". A row is a node, with the mean of its PEs.",
        RowKind::Site => ". A row is a site, with the mean of its PEs.",
    };
    if analysis.timeline.left_out > 0 {
        text += &format!(" {} are not shown.", count(analysis.timeline.left_out, "row"));
    }
    text
}

/// The class of a series' colour.
fn class(number: usize, series: &Series) -> String {
    match series {
        Series::Kind { .. } => format!("k{number}"),
        Series::OtherKinds => "other".to_owned(),
        Series::Overhead => "overhead".to_owned(),
        Series::Waited => "waited".to_owned(),
        Series::NoRecord => "no-record".to_owned(),
    }
}

fn name(series: &Series) -> &str {
    match series {
        Series::Kind { name } => name,
        Series::OtherKinds => "other handlers",
        Series::Overhead => "network and runtime",
        Series::Waited => "other threads had the processor",
        Series::NoRecord => "no record",
    }
}

/// Buttons, the filter of sites, and the legend.
fn controls(analysis: &Analysis) -> String {
    let mut html = String::from(
        "<div class=\"tl-controls\"><button data-zoom=\"in\">zoom in</button>\
         <button data-zoom=\"out\">zoom out</button><button data-zoom=\"all\">whole run</button>\
         <span class=\"hint\">drag over a part of the rows to zoom in</span></div>\n",
    );
    html += "<div class=\"legend\">";
    for (number, series) in analysis.timeline.series.iter().enumerate() {
        put(
            &mut html,
            format_args!(
                "<span><svg viewBox=\"0 0 10 10\"><rect class=\"{}\" width=\"10\" height=\"10\"/></svg>{}</span>",
                class(number, series),
                escaped(name(series))
            ),
        );
    }
    html += "<span><svg viewBox=\"0 0 10 10\"><rect class=\"idle\" width=\"10\" height=\"10\"/></svg>idle</span>";
    html += "</div>\n";
    html
}

/// Renders check boxes that show and hide the content of each site on the whole page.
pub(crate) fn filter(analysis: &Analysis) -> String {
    if analysis.sites.len() < 2 {
        return String::new();
    }
    let mut html = String::from("<nav class=\"sites\">sites: ");
    for (number, site) in analysis.sites.iter().enumerate() {
        put(
            &mut html,
            format_args!(
                "<label><input type=\"checkbox\" checked data-show=\"{number}\">{}</label>",
                escaped(site)
            ),
        );
    }
    html += "</nav>\n";
    html
}

fn of_mark(mark: &Mark, end_ns: u64) -> String {
    let class = match mark.kind {
        MarkKind::Rebalance => "rebalance",
        MarkKind::Checkpoint => "checkpoint",
        MarkKind::Nodes => "nodes",
        MarkKind::Link => "link",
        MarkKind::Warning => "warning",
    };
    let place = (mark.at_ns as f64 / end_ns.max(1) as f64).clamp(0.0, 1.0);
    format!(
        "<i class=\"mark {class}\" data-at=\"{place:.5}\" style=\"left:{:.3}%\" \
         title=\"{}: {}\"></i>",
        place * 100.0,
        time(mark.at_ns),
        escaped(&mark.text)
    )
}

fn of_row(row: &TimelineRow, timeline: &Timeline) -> String {
    let mut html = format!(
        "<div class=\"tl-row\" data-site=\"{}\"><span class=\"tl-name\">{}</span>\
         <svg class=\"tl-plot\" viewBox=\"0 0 {} 100\" preserveAspectRatio=\"none\">",
        row.site,
        escaped(&row.name),
        timeline.columns
    );
    let mut below = vec![0_u8; timeline.columns];
    for (number, series) in timeline.series.iter().enumerate() {
        let Some(percent) = row.percent.get(number) else { continue };
        let path = stacked(percent, &mut below);
        if !path.is_empty() {
            put(
                &mut html,
                format_args!("<path class=\"{}\" d=\"{path}\"/>", class(number, series)),
            );
        }
    }
    html += "</svg></div>\n";
    html
}

/// Returns the outline of a series on top of the series below it, and adds the series to `below`.
/// Adjacent equal columns become one rectangle.
fn stacked(percent: &[u8], below: &mut [u8]) -> String {
    let mut path = String::new();
    let columns: Vec<(u8, u8)> = percent.iter().copied().zip(below.iter().copied()).collect();
    let mut begin = 0;
    for run in columns.chunk_by(|a, b| a == b) {
        let (height, base) = run[0];
        if height > 0 {
            let top = 100_u8.saturating_sub(base.saturating_add(height));
            let width = run.len();
            put(&mut path, format_args!("M{begin} {top}h{width}v{height}h-{width}z"));
        }
        begin += run.len();
    }
    for (sum, height) in below.iter_mut().zip(percent) {
        *sum = sum.saturating_add(*height);
    }
    path
}

/// The numbers for tooltips. A series without time has an empty list.
fn data(analysis: &Analysis) -> String {
    let timeline = &analysis.timeline;
    let row = |row: &TimelineRow| {
        let used = row.percent.iter().map(|series| match series.iter().any(|part| *part > 0) {
            true => json!(series),
            false => json!([]),
        });
        json!({ "name": row.name, "percent": used.collect::<Vec<_>>() })
    };
    let data = json!({
        "end_ns": analysis.outcome.end_ns,
        "column_ns": timeline.column_ns,
        "columns": timeline.columns,
        "series": timeline.series.iter().map(name).collect::<Vec<_>>(),
        "rows": timeline.rows.iter().map(row).collect::<Vec<_>>(),
    });
    // A name with `</script>` must not end the element.
    let text = data.to_string().replace('<', "\\u003c");
    format!("<script type=\"application/json\" id=\"timeline-data\">{text}</script>\n")
}

fn pes(analysis: &Analysis) -> Table {
    let titles = [
        ("PE", "pe"),
        ("NODE", "node"),
        ("SITE", "site"),
        ("SPEED", "speed"),
        ("HANDLERS", "busy_ns"),
        ("RUNTIME", "runtime_ns"),
        ("NETWORK", "network_ns"),
        ("IDLE", "idle_ns"),
        ("OTHER THREADS", "waited_ns"),
        ("LONGEST QUEUE", "queue_max"),
        ("STEALS", "steals"),
        ("STEAL REQUESTS", "steal_attempts"),
    ];
    let mut table = Table::new("pes", &titles);
    for pe in &analysis.pes {
        let cells = vec![
            Cell::count(pe.pe as u64),
            Cell::text(&pe.node),
            Cell::text(&pe.site),
            Cell::number(pe.speed),
            Cell::time(pe.times.busy_ns),
            Cell::time(pe.times.runtime_ns),
            Cell::time(pe.times.network_ns),
            Cell::time(pe.times.idle_ns),
            Cell::time(pe.times.waited_ns),
            Cell::count(u64::from(pe.queue_max)),
            Cell::count(pe.steals),
            Cell::count(pe.steal_attempts),
        ];
        table.row_of(pe.site_number, cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::stacked;

    #[test]
    fn equal_columns_are_one_rectangle_on_top_of_what_is_below() {
        let mut below = vec![0, 0, 50, 50];
        let path = stacked(&[40, 40, 40, 0], &mut below);
        assert_eq!(path, "M0 60h2v40h-2zM2 10h1v40h-1z");
        assert_eq!(below, [40, 40, 90, 50]);
        assert_eq!(stacked(&[0, 0, 10, 0], &mut below), "M2 0h1v10h-1z");
    }
}
