//! Events of the whole job: the rebalances, and the list of all events.

use super::chart::{Axis, Bar, BarPart, bars};
use super::html::{Cell, Panel, Table, share, time};
use crate::quantity::count;
use crate::report::analysis::Analysis;
use crate::report::analysis::events::Rebalance;

/// Maximum number of bars of a chart.
const BARS_MAX: usize = 25;

/// Renders the effect of each rebalance.
pub(crate) fn rebalances(analysis: &Analysis) -> Option<Panel> {
    let events = &analysis.events;
    if events.rebalances.is_empty() {
        return None;
    }
    let titles = [
        ("AT", "at_ns"),
        ("REASON", "trigger"),
        ("STRATEGY", "strategy"),
        ("MOVED", "moved"),
        ("BYTES", "bytes"),
        ("TOOK", "took_ns"),
        ("PREDICTED GAIN", "predicted_gain"),
        ("REALISED GAIN", "realised_gain"),
        ("OBSERVED GAIN", "observed_gain"),
    ];
    let mut table = Table::new("rebalances", &titles);
    for rebalance in &events.rebalances {
        table.row(vec![
            Cell::time(rebalance.at_ns),
            Cell::text(&rebalance.trigger.to_string()),
            Cell::text(&rebalance.strategy),
            Cell::count(rebalance.moved),
            Cell::bytes(rebalance.bytes),
            Cell::time(rebalance.took_ns),
            Cell::optional(rebalance.predicted_gain, Cell::share),
            Cell::optional(rebalance.realised_gain, Cell::share),
            Cell::optional(rebalance.observed_gain, Cell::share),
        ]);
    }
    let known = events.rebalances.iter().filter(|it| it.gain().is_some());
    let all: Vec<Bar> = known.take(BARS_MAX).flat_map(gains).collect();
    let axis = Axis { title: "gain or loss, as a share of the step time, %", unit: 1.0 };
    let mut body = if all.is_empty() { String::new() } else { bars(&all, &axis) };
    body += "<p><small>Realised gains are those that the job measured. Observed gains are estimated \
             from the work per second before and after a rebalance, which also changes with the job \
             itself. Losses are hatched.</small></p>\n";
    let moved = events.rebalances.iter().map(|it| it.moved).fold(0, u64::saturating_add);
    let worse = events.rebalances.iter().filter(|it| it.gain().is_some_and(|gain| gain < 0.0));
    let conclusion = format!(
        "{} moved {} actors. After {} of these rebalances the job was slower than before.",
        count(events.rebalance_count, "rebalance"),
        moved,
        worse.count()
    );
    let title = "Rebalances";
    Some(Panel { id: "rebalances", title, conclusion, body, tables: vec![table] })
}

/// A bar for the predicted gain, and one for the realised or observed gain.
fn gains(rebalance: &Rebalance) -> Vec<Bar> {
    let one = |what: &str, class: &str, gain: f64| {
        let class = if gain < 0.0 { format!("{class} queued") } else { class.to_owned() };
        let title = format!("{what} {}", share(gain));
        Bar {
            label: format!("{} at {}, {what}", rebalance.strategy, time(rebalance.at_ns)),
            parts: vec![BarPart { class, value: gain.abs() * 100.0, title }],
            value: share(gain),
        }
    };
    let came = if rebalance.realised_gain.is_some() { "realised" } else { "observed" };
    let predicted = rebalance.predicted_gain.map(|gain| one("predicted", "k4", gain));
    predicted.into_iter().chain(rebalance.gain().map(|gain| one(came, "k0", gain))).collect()
}

/// Renders the checkpoints, and all other events.
pub(crate) fn list(analysis: &Analysis) -> Option<Panel> {
    let events = &analysis.events;
    if events.marks.is_empty() {
        return None;
    }
    let mut table = Table::new("events", &[("AT", "at_ns"), ("WHAT", "what")]);
    for mark in &events.marks {
        table.row(vec![Cell::time(mark.at_ns), Cell::text(&mark.text)]);
    }
    let titles = [("AT", "at_ns"), ("NUMBER", "number"), ("BYTES", "bytes"), ("TOOK", "took_ns")];
    let mut checkpoints = Table::new("checkpoints", &titles);
    for checkpoint in &events.checkpoints {
        checkpoints.row(vec![
            Cell::time(checkpoint.at_ns),
            Cell::count(checkpoint.number),
            Cell::bytes(checkpoint.bytes),
            Cell::time(checkpoint.took_ns),
        ]);
    }
    let conclusion = format!(
        "{}, of which {} are checkpoints.",
        count(events.mark_count, "event"),
        events.checkpoint_count
    );
    let (title, body, tables) = ("Events", String::new(), vec![table, checkpoints]);
    Some(Panel { id: "events", title, conclusion, body, tables })
}
