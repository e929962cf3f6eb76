//! How long handlers take: a histogram of their runs, by type.

use super::chart::{Axis, Bar, BarPart, bars, class_of};
use super::html::time;
use crate::quantity::count;
use crate::report::analysis::Analysis;

/// Renders the histogram; empty if no runs are kept.
pub(crate) fn histogram(analysis: &Analysis) -> String {
    let durations = &analysis.durations;
    let places = durations.bounds_ns.len() + 1;
    let is_used = |place: &usize| {
        durations.rows.iter().any(|row| row.histogram.get(*place).is_some_and(|runs| *runs > 0))
    };
    let (Some(first), Some(last)) = ((0..places).find(is_used), (0..places).rfind(is_used)) else {
        return String::new();
    };
    let all: Vec<Bar> = (first..=last).map(|place| bar(analysis, place)).collect();
    let axis = Axis { title: "runs", unit: 1.0 };
    let kept = match analysis.coverage.dropped_share > 0.0 {
        true => " of the spans that are kept",
        false => "",
    };
    format!("<p><small>Runs{kept} by duration:</small></p>\n{}", bars(&all, &axis))
}

/// The runs between two bounds, by type.
fn bar(analysis: &Analysis, place: usize) -> Bar {
    let durations = &analysis.durations;
    let used = analysis.kinds.iter().filter(|row| row.total_ns > 0).enumerate();
    let parts = used.filter_map(|(number, kind)| {
        let runs = *durations.of_type(&kind.name)?.histogram.get(place)?;
        let class = class_of(number);
        let title =
            format!("{}: {}", kind.name, count(usize::try_from(runs).unwrap_or(usize::MAX), "run"));
        (runs > 0).then_some(BarPart { class, value: runs as f64, title })
    });
    let parts: Vec<BarPart> = parts.collect();
    let runs: f64 = parts.iter().map(|part| part.value).sum();
    let bound = |place: usize| durations.bounds_ns.get(place).map(|ns| time(*ns));
    let label = match (place.checked_sub(1).and_then(bound), bound(place)) {
        (Some(from), Some(to)) => format!("{from} to {to}"),
        (None, Some(to)) => format!("under {to}"),
        (Some(from), None) => format!("{from} and more"),
        (None, None) => String::new(),
    };
    Bar { label, parts, value: format!("{runs:.0}") }
}
