//! How the PEs of each site used their time over the run, and how evenly they were loaded.

use super::chart::{area, stack};
use super::html::{Cell, Panel, Table, share, time};
use crate::quantity::{count, digits};
use crate::report::analysis::Analysis;
use crate::report::analysis::utilisation::SiteUse;

/// The parts of a site's time, from the bottom up: class of the colour, and name.
const PARTS: [(&str, &str); 4] = [
    ("k0", "handlers"),
    ("overhead", "network and runtime"),
    ("waited", "other threads had the processor"),
    ("no-record", "no record"),
];

/// Renders the use of time of sites.
pub(crate) fn panel(analysis: &Analysis) -> Panel {
    let utilisation = &analysis.utilisation;
    let end = time(analysis.outcome.end_ns);
    let mut body = String::new();
    if !utilisation.sites.is_empty() {
        body += "<div class=\"legend\">";
        let [.., no_record] = PARTS;
        let has_gaps =
            utilisation.sites.iter().any(|site| site.percent[3].iter().any(|it| *it > 0));
        let parts = PARTS.into_iter().filter(|part| has_gaps || *part != no_record);
        for (class, name) in parts.chain([("idle", "idle")]) {
            body += &format!(
                "<span><svg viewBox=\"0 0 10 10\"><rect class=\"{class}\" width=\"10\" \
                 height=\"10\"/></svg>{name}</span>"
            );
        }
        body += "</div>\n";
    }
    for site in utilisation.sites.iter().filter(|site| !site.percent[0].is_empty()) {
        let parts = PARTS.iter().zip(&site.percent);
        let parts: Vec<(&str, &[u8])> =
            parts.map(|((class, _), percent)| (*class, &percent[..])).collect();
        let pes = count(site.pes, "PE");
        body += &format!("<div data-site=\"{}\">", site.site);
        body += &stack(&format!("site {}, {pes}", site.name), &parts, &end);
        body += "</div>\n";
    }
    if analysis.pes_recorded > 1 && utilisation.peak.iter().any(Option::is_some) {
        let peak: Vec<f64> = utilisation.peak.iter().map(|it| it.unwrap_or(0.0)).collect();
        body += &area("time in handlers, busiest PE", &peak, None, "times the mean", &end);
        body += "<p><small>The last chart is empty where PEs computed for less than 5 % of the \
                 time.</small></p>\n";
    }
    let hidden = utilisation.sites.iter().filter(|site| site.percent[0].is_empty()).count();
    if hidden > 0 {
        let sites = count(hidden, "other site");
        body += &format!("<p><small>Charts of {sites} are not shown.</small></p>\n");
    }
    let (title, conclusion) = ("Use of time by site", conclusion(analysis));
    Panel { id: "utilisation", title, conclusion, body, tables: vec![table(analysis)] }
}

fn busy(site: &SiteUse) -> f64 {
    site.times.busy_ns as f64 / site.pe_time_ns
}

fn conclusion(analysis: &Analysis) -> String {
    let sites = &analysis.utilisation.sites;
    let most = sites.iter().max_by(|a, b| busy(a).total_cmp(&busy(b)));
    let least = sites.iter().min_by(|a, b| busy(a).total_cmp(&busy(b)));
    let mut text = match (most, least) {
        (Some(most), Some(least)) if sites.len() > 1 => format!(
            "PEs computed for {} of the time at site {}, the busiest one, and for {} at site {}.",
            share(busy(most)),
            most.name,
            share(busy(least)),
            least.name
        ),
        (Some(only), _) => format!("PEs computed for {} of the time.", share(busy(only))),
        _ => return "No PE has left a record.".to_owned(),
    };
    if analysis.pes_recorded > 1 && analysis.times.busy_ns > 0 {
        text += &format!(
            " In an interval of the run, the busiest PE computed {} times as long as the mean PE; \
             this is the mean of all intervals, weighted by their work.",
            digits(analysis.utilisation.unevenness)
        );
    }
    text
}

fn table(analysis: &Analysis) -> Table {
    let titles = [
        ("SITE", "site"),
        ("PES", "pes"),
        ("HANDLERS", "busy_share"),
        ("NETWORK AND RUNTIME", "overhead_share"),
        ("OTHER THREADS", "waited_share"),
        ("IDLE", "idle_share"),
    ];
    let mut table = Table::new("sites", &titles);
    for site in &analysis.utilisation.sites {
        let part = |ns: f64| Cell::share(ns / site.pe_time_ns);
        let cells = vec![
            Cell::text(&site.name),
            Cell::count(site.pes as u64),
            part(site.times.busy_ns as f64),
            part(site.times.overhead_ns()),
            part(site.times.waited_ns as f64),
            part(site.times.idle_ns as f64),
        ];
        table.row_of(site.site, cells);
    }
    table
}
