//! The table that every bench prints: one form for all figures.

use super::interval::Interval;
use super::record::{Comparison, Figure, FigureRecord};
use super::unit::FigureUnit;

/// The head of the table.
pub const TABLE_HEAD: &str = "\
| figure | program | median [95 %] | ours to it [95 %] | goal | processor time | ours to it | last run |
| --- | --- | --- | --- | --- | --- | --- | --- |";

/// Returns the line of a Markdown table.
pub(super) fn table_line(cells: &[&str]) -> String {
    let cell = |cell: &&str| if cell.is_empty() { " |".to_owned() } else { format!(" {cell} |") };
    let cells: String = cells.iter().map(cell).collect();
    format!("|{cells}")
}

/// Returns the rows of a record, beside the earlier record of the same figure and machine.
pub fn table_rows(record: &FigureRecord, before: Option<&FigureRecord>) -> Vec<String> {
    let title = &record.title;
    match &record.figure {
        Figure::Comparison(comparison) => {
            let before = before.and_then(|before| match &before.figure {
                Figure::Comparison(before) => Some(before),
                _ => None,
            });
            rows_of_comparison(title, comparison, before)
        }
        Figure::Single { unit, time_ns, goal } => {
            let judged = goal.map(|goal| goal.show(*unit, *time_ns));
            let was = before.and_then(|before| match &before.figure {
                Figure::Single { time_ns, .. } => Some(format!("was {}", values(*unit, *time_ns))),
                _ => None,
            });
            let (judged, was) = (judged.unwrap_or_default(), was.unwrap_or_default());
            let value = values(*unit, *time_ns);
            vec![table_line(&[title, "ours, by criterion", &value, "", &judged, "", "", &was])]
        }
        Figure::Value(value) => {
            let (ratio, ours) = (value.ratio.as_deref().unwrap_or_default(), &value.ours);
            let goal = value.goal.as_ref().map(|(goal, verdict)| format!("{goal}: {verdict}"));
            let goal = goal.unwrap_or_default();
            let mut rows = vec![table_line(&[title, "ours", ours, ratio, &goal, "", "", ""])];
            let others = value.others.iter();
            rows.extend(
                others.map(|(name, value)| table_line(&["", name, value, "", "", "", "", ""])),
            );
            rows
        }
    }
}

fn rows_of_comparison(
    title: &str,
    comparison: &Comparison,
    before: Option<&Comparison>,
) -> Vec<String> {
    let Comparison { unit, ours, baselines, rounds } = comparison;
    let (name, value) = (&ours.name, values(*unit, ours.time_ns));
    let judged = ours.limit.map(|limit| limit.show(*unit, ours.time_ns));
    let (judged, work) = (judged.unwrap_or_default(), FigureUnit::Time.show(ours.work_ns));
    let title = format!("{title}, {rounds} rounds");
    let mut rows = vec![table_line(&[&title, name, &value, "", &judged, &work, "", ""])];
    for baseline in baselines {
        let (name, ratio) = (&baseline.program.name, baseline.ratio);
        let value = values(*unit, baseline.program.time_ns);
        let judged = baseline.goal.map(|goal| goal.show(*unit, ratio));
        let judged = judged.unwrap_or_default();
        let work = FigureUnit::Time.show(baseline.program.work_ns);
        let of_work = ours.work_ns / baseline.program.work_ns;
        let of_work = if of_work.is_finite() { format!("{of_work:.2}") } else { String::new() };
        let was = before.and_then(|before| before.baseline(name));
        let was = was.map(|was| format!("was {}", was.ratio)).unwrap_or_default();
        let ratio = ratio.to_string();
        rows.push(table_line(&["", name, &value, &ratio, &judged, &work, &of_work, &was]));
    }
    rows
}

/// Formats the median and its interval in a unit. The interval of a rate begins with the lowest
/// rate, which is that of the longest time.
fn values(unit: FigureUnit, time_ns: Interval) -> String {
    let (first, last) = match unit {
        FigureUnit::Time => (time_ns.low, time_ns.high),
        FigureUnit::Rate | FigureUnit::Bits(_) => (time_ns.high, time_ns.low),
    };
    format!("{} [{}, {}]", unit.show(time_ns.median), unit.show(first), unit.show(last))
}
