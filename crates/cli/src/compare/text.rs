//! A comparison for people.

use super::comparison::Comparison;
use super::difference::{Both, CountDifference, TimeDifference, TrafficDifference};
use super::profile::CountUnit;
use super::verdict::{NAMES, duration};
use crate::quantity::{UNKNOWN, bytes, count, digits};
use crate::table::{Align, Table};
use gridspan_record::{DriverKind, Header, JobEnding, Recording};

/// Renders a comparison.
pub(super) fn render(comparison: &Comparison<'_>) -> String {
    let mut text = format!("{}\n\n", comparison.sentence());
    for (at, name) in NAMES.into_iter().enumerate() {
        text += &format!("{name}  {}\n", described(comparison, at));
    }
    for line in differences(comparison).into_iter().chain(verification(comparison)) {
        text += &format!("{line}\n");
    }
    text += &format!("\n{}", times(comparison.ends, &comparison.times));
    if !comparison.traffic.is_empty() {
        text += &format!("\n{}", traffic(&comparison.traffic));
    }
    if !comparison.counts.is_empty() {
        text += &format!("\n{}", counts(&comparison.counts));
    }
    text
}

/// The line of a recording.
fn described(comparison: &Comparison<'_>, at: usize) -> String {
    let recording = comparison.recordings[at];
    let header = &recording.header;
    let end_ns = [comparison.ends.a, comparison.ends.b][at];
    let mut line = format!(
        "{}: {} on {} of {} at {}, {}",
        comparison.paths[at].display(),
        header.job,
        count(header.pes.len(), "PE"),
        count(header.nodes.len(), "node"),
        count(header.sites.len(), "site"),
        comparison.outcomes[at].after(end_ns)
    );
    if !recording.missing.is_empty() {
        line += &format!("; {} left no record", count(recording.missing.len(), "node"));
    }
    let dropped = usize::try_from(recording.dropped_events()).unwrap_or(usize::MAX);
    if dropped > 0 {
        // The numbers of rebalances and checkpoints below lack them.
        line += &format!("; {} had no room", count(dropped, "event"));
    }
    line
}

/// The differences between the commands, drivers, seeds and programs of the jobs, as far as they
/// are known.
fn differences(comparison: &Comparison<'_>) -> Vec<String> {
    let headers = comparison.recordings.map(|recording| &recording.header);
    type Value = fn(&Header) -> Option<String>;
    let of: [(&str, Value); 5] = [
        ("command", |header| Some(header.command.join(" "))),
        ("driver", |header| Some(driver(header.driver).to_owned())),
        ("seed", |header| Some(header.seed.to_string())),
        ("build of the program", |header| header.build.clone()),
        ("version of gridctl", |header| header.gridctl.clone()),
    ];
    let line = |(name, value): (&str, Value)| {
        let [a, b] = headers.map(value);
        let (a, b) = (a?, b?);
        (a != b).then(|| format!("different {name}: {a} | {b}"))
    };
    of.into_iter().filter_map(line).collect()
}

/// The line about the results, if only one job has verified its result.
fn verification(comparison: &Comparison<'_>) -> Option<String> {
    let only = match comparison.recordings.map(is_verified) {
        [Some(true), Some(false)] => NAMES[0],
        [Some(false), Some(true)] => NAMES[1],
        _ => return None,
    };
    Some(format!("only {only} has verified its result"))
}

/// Whether a job has verified its result; `None` if an earlier program has recorded it, and so the
/// recording does not say.
fn is_verified(recording: &Recording) -> Option<bool> {
    let is_verified = recording.ending.as_ref().is_some_and(JobEnding::is_verified);
    recording.header.gridctl.as_ref().map(|_| is_verified)
}

/// The name of a driver in the option `--driver`, or the verb of simulations.
pub(super) fn driver(kind: DriverKind) -> &'static str {
    match kind {
        DriverKind::Threads => "embedded",
        DriverKind::Processes => "cluster",
        DriverKind::Simulated => "sim",
    }
}

fn times(ends: Both, rows: &[TimeDifference]) -> String {
    let mut table = table("TIME OF A PE");
    table.row(cells("all", ends, &duration));
    for row in rows {
        table.row(cells(&row.kind.to_string(), row.ns, &duration));
    }
    table.render(false)
}

fn traffic(rows: &[TrafficDifference]) -> String {
    let mut table = table("SENT");
    for row in rows {
        let [from, to] = &row.sites;
        table.row(cells(&format!("{from} > {to}"), row.bytes, &size));
        table.row(cells("  messages", row.messages, &number));
    }
    table.render(false)
}

fn counts(rows: &[CountDifference]) -> String {
    let mut table = table("NUMBER OF");
    for row in rows {
        let format: &dyn Fn(f64) -> String = match row.unit {
            CountUnit::Times => &number,
            CountUnit::Bytes => &size,
            CountUnit::Nanoseconds => &duration,
        };
        table.row(cells(row.name, row.values, format));
    }
    table.render(false)
}

fn table(title: &str) -> Table {
    let titles = [title, NAMES[0], NAMES[1], "DIFFERENCE", "%"].map(str::to_owned);
    Table::new(titles.to_vec(), |column| if column == 0 { Align::Left } else { Align::Right })
}

fn cells(name: &str, both: Both, format: &dyn Fn(f64) -> String) -> Vec<String> {
    let percent = both.percent().map_or_else(|| UNKNOWN.to_owned(), |it| signed(it, &digits));
    let difference = signed(both.difference(), format);
    vec![name.to_owned(), signless(both.a, format), signless(both.b, format), difference, percent]
}

/// A number with its sign, also if it is positive.
fn signed(number: f64, format: &dyn Fn(f64) -> String) -> String {
    let sign = match number {
        _ if number > 0.0 => "+",
        _ if number < 0.0 => "-",
        _ => "",
    };
    format!("{sign}{}", format(number.abs()))
}

/// A number with its sign if it is negative.
fn signless(number: f64, format: &dyn Fn(f64) -> String) -> String {
    let sign = if number < 0.0 { "-" } else { "" };
    format!("{sign}{}", format(number.abs()))
}

fn number(number: f64) -> String {
    format!("{number:.0}")
}

fn size(number: f64) -> String {
    bytes(number as u64)
}
