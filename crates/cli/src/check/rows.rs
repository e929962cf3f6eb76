//! The lines of the table of `gridctl check`: one for each host, or for many equal ones of a site.

use super::failure::Failure;
use super::problems::is_same;
use super::protocol::ProgramState;
use super::subject::Subject;
use super::survey::{Answers, Found};
use super::traffic::Traffic;
use crate::names::abbreviated;
use crate::quantity::{UNKNOWN, bytes};
use std::collections::BTreeMap;

/// Titles of the columns.
pub(super) const TITLES: [&str; 10] = [
    "SITE",
    "HOST",
    "SSH",
    "PROGRAM",
    "UDP",
    "BYTES",
    "CLOCK",
    "FREE CORES",
    "FREE MEMORY",
    "FREE DISK",
];
/// Number of lines that fit a screen beside the problems. For more hosts, equal lines are merged.
const LINES_MAX: usize = 16;

/// A line of the table.
#[derive(Clone, Debug)]
pub(super) struct Row {
    hosts: Vec<String>,
    verdicts: Verdicts,
    numbers: Numbers,
}

/// The parts that merged lines have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Verdicts {
    /// Whether nothing is wrong; such lines come last.
    is_good: bool,
    site_number: usize,
    site: String,
    ssh: &'static str,
    program: &'static str,
    udp: String,
    bytes: String,
}

/// Numbers of one or more hosts; `None` if they are not known.
#[derive(Clone, Debug, Default)]
struct Numbers {
    clock_ahead_s: Option<Span>,
    clock_uncertainty_s: Option<Span>,
    free_cores: Option<Span>,
    cores: Option<Span>,
    free_memory: Option<Span>,
    free_disk: Option<Span>,
}

/// The least and the greatest of some numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Span {
    min: f64,
    max: f64,
}

/// Returns the lines of the table, and the number of lines that were left out.
pub(super) fn rows(
    subjects: &[Subject],
    found: &Found,
    traffic: &Traffic,
    reference: Option<&str>,
) -> (Vec<Row>, usize) {
    let all = subjects.iter().zip(&found.hosts).enumerate();
    let rows: Vec<Row> = all
        .map(|(host, (subject, outcome))| row(host, subject, outcome, traffic, reference))
        .collect();
    if rows.len() <= LINES_MAX {
        return (rows, 0);
    }
    let mut rows = merged(rows);
    let left = rows.len().saturating_sub(LINES_MAX);
    rows.truncate(LINES_MAX);
    (rows, left)
}

/// Merges lines with equal verdicts, those with problems first.
fn merged(rows: Vec<Row>) -> Vec<Row> {
    let mut merged: BTreeMap<Verdicts, Row> = BTreeMap::new();
    for row in rows {
        match merged.get_mut(&row.verdicts) {
            Some(known) => {
                known.hosts.extend(row.hosts);
                known.numbers.merge(&row.numbers);
            }
            None => {
                merged.insert(row.verdicts.clone(), row);
            }
        }
    }
    merged.into_values().collect()
}

fn row(
    host: usize,
    subject: &Subject,
    outcome: &Result<Answers, Failure>,
    traffic: &Traffic,
    reference: Option<&str>,
) -> Row {
    let ssh = match (outcome, &subject.ssh) {
        (Err(failure), _) => failure.word(),
        (Ok(_), None) => "here",
        (Ok(_), Some(_)) => "ok",
    };
    let program = match outcome.as_ref().map(|answers| &answers.facts.program) {
        Err(_) => UNKNOWN,
        Ok(state) if is_same(state, reference) => "same",
        Ok(ProgramState::Executable { .. }) => "other",
        Ok(ProgramState::Missing) => "missing",
        Ok(ProgramState::NotExecutable) => "not executable",
        Ok(ProgramState::Unreadable { .. }) => "unreadable",
    };
    let (udp, is_through) = udp(host, traffic);
    let verdicts = Verdicts {
        is_good: outcome.is_ok() && program == "same" && is_through && subject.address.is_ok(),
        site_number: subject.site_number,
        site: subject.site.clone(),
        ssh,
        program,
        udp,
        bytes: bytes_passed(host, traffic),
    };
    let numbers = outcome.as_ref().map_or_else(|_| Numbers::default(), Numbers::of);
    Row { hosts: vec![subject.name.clone()], verdicts, numbers }
}

/// Describes the ways from and to a host, and whether all are open.
fn udp(host: usize, traffic: &Traffic) -> (String, bool) {
    let count = |ways: &BTreeMap<usize, Option<u16>>| [ways.values().flatten().count(), ways.len()];
    let [came, of_came] = count(&traffic.received_by(host));
    let [went, of_went] = count(&traffic.sent_by(host));
    match (of_came + of_went, came == of_came && went == of_went) {
        (0, _) => (UNKNOWN.to_owned(), true),
        (_, true) => ("ok".to_owned(), true),
        (_, false) => (format!("in {came}/{of_came} out {went}/{of_went}"), false),
    }
}

/// Returns the size of the datagrams that pass on all open ways from and to a host.
fn bytes_passed(host: usize, traffic: &Traffic) -> String {
    let (came, went) = (traffic.received_by(host), traffic.sent_by(host));
    let least = came.values().chain(went.values()).flatten().min();
    least.map_or_else(|| UNKNOWN.to_owned(), u16::to_string)
}

impl Row {
    /// Returns the cells of the line.
    pub(super) fn cells(&self) -> Vec<String> {
        let Self { hosts, verdicts, numbers } = self;
        let amount = |span: Option<Span>| {
            let text = span.map(|span| span.text(&|number| bytes(number as u64)));
            text.unwrap_or_else(|| UNKNOWN.to_owned())
        };
        vec![
            verdicts.site.clone(),
            abbreviated(hosts.iter().map(String::as_str)),
            verdicts.ssh.to_owned(),
            verdicts.program.to_owned(),
            verdicts.udp.clone(),
            verdicts.bytes.clone(),
            numbers.clock(),
            numbers.cores(),
            amount(numbers.free_memory),
            amount(numbers.free_disk),
        ]
    }
}

impl Numbers {
    fn of(answers: &Answers) -> Self {
        let facts = &answers.facts;
        let span = |number: f64| Span { min: number, max: number };
        let amount = |number: Option<u64>| number.map(|number| span(number as f64));
        let cores = f64::from(facts.cores);
        Self {
            clock_ahead_s: answers.clock.map(|clock| span(clock.ahead_ns as f64 * 1e-9)),
            clock_uncertainty_s: answers.clock.map(|it| span(it.uncertainty_ns as f64 * 1e-9)),
            free_cores: facts.load.map(|load| span((cores - load).max(0.0))),
            cores: Some(span(cores)),
            free_memory: amount(facts.free_memory_bytes),
            free_disk: amount(facts.free_disk_bytes),
        }
    }

    fn merge(&mut self, other: &Self) {
        let merge = |own: &mut Option<Span>, other: Option<Span>| {
            *own = match (*own, other) {
                (Some(a), Some(b)) => Some(Span { min: a.min.min(b.min), max: a.max.max(b.max) }),
                (a, b) => a.or(b),
            };
        };
        merge(&mut self.clock_ahead_s, other.clock_ahead_s);
        merge(&mut self.clock_uncertainty_s, other.clock_uncertainty_s);
        merge(&mut self.free_cores, other.free_cores);
        merge(&mut self.cores, other.cores);
        merge(&mut self.free_memory, other.free_memory);
        merge(&mut self.free_disk, other.free_disk);
    }

    /// Writes how much the clock is ahead, with the largest error, such as `+0.2±0.1 ms`.
    fn clock(&self) -> String {
        let (Some(ahead), Some(error)) = (self.clock_ahead_s, self.clock_uncertainty_s) else {
            return UNKNOWN.to_owned();
        };
        let largest = ahead.max.abs().max(ahead.min.abs()).max(error.max);
        let (factor, unit) = if largest < 1.0 { (1e3, "ms") } else { (1.0, "s") };
        // The error is rounded up.
        let error = (error.max * factor * 10.0).ceil() / 10.0;
        let [min, max] = [ahead.min, ahead.max].map(|it| signed(it * factor));
        let range = if min == max { max } else { format!("{min} to {max}") };
        format!("{range}±{error:.1} {unit}")
    }

    fn cores(&self) -> String {
        let Some(cores) = self.cores else { return UNKNOWN.to_owned() };
        let all = cores.text(&cores_text);
        let free = self.free_cores.map(|free| free.text(&cores_text));
        format!("{} of {all}", free.unwrap_or_else(|| UNKNOWN.to_owned()))
    }
}

/// Writes a number with its sign and a decimal; one that is rounded to zero has no sign.
fn signed(number: f64) -> String {
    let tenths = (number * 10.0).round() / 10.0;
    if tenths == 0.0 { "0.0".to_owned() } else { format!("{tenths:+.1}") }
}

/// Writes a number of cores, with a decimal if it is not whole.
fn cores_text(number: f64) -> String {
    let tenths = (number * 10.0).round() / 10.0;
    if tenths.fract() == 0.0 { format!("{tenths:.0}") } else { format!("{tenths:.1}") }
}

impl Span {
    /// Writes the number, or both ends of the range, with a common unit written once.
    fn text(self, write: &dyn Fn(f64) -> String) -> String {
        let (min, max) = (write(self.min), write(self.max));
        let unit = |text: &str| text.split_once(' ').map(|(_, unit)| unit.to_owned());
        match min == max {
            true => max,
            false if unit(&min) == unit(&max) => {
                let number = min.split(' ').next().unwrap_or_default();
                format!("{number}-{max}")
            }
            false => format!("{min}-{max}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts(site_number: usize, ssh: &'static str) -> Verdicts {
        Verdicts {
            is_good: ssh == "ok",
            site_number,
            site: format!("s{site_number}"),
            ssh,
            program: "same",
            udp: "ok".to_owned(),
            bytes: "1452".to_owned(),
        }
    }

    fn span(min: f64, max: f64) -> Option<Span> {
        Some(Span { min, max })
    }

    fn numbers(gigabytes: f64) -> Numbers {
        Numbers {
            clock_ahead_s: span(2e-4, 2e-4),
            clock_uncertainty_s: span(1e-5, 1e-5),
            free_cores: span(7.52, 7.52),
            cores: span(8.0, 8.0),
            free_memory: span(gigabytes * 1e9, gigabytes * 1e9),
            free_disk: None,
        }
    }

    #[test]
    fn equal_lines_of_a_site_are_merged_with_ranges_and_those_with_problems_come_first() {
        let row = |number: usize| {
            let ssh = if number == 13 { "refused" } else { "ok" };
            let numbers = if number == 13 { Numbers::default() } else { numbers(number as f64) };
            let hosts = vec![format!("h{number:02}")];
            Row { hosts, verdicts: verdicts(number / 20, ssh), numbers }
        };
        let rows = merged((10..40).map(row).collect());
        let cells: Vec<Vec<String>> = rows.iter().map(Row::cells).collect();
        let expected = [
            ["s0", "h13", "refused", "same", "ok", "1452", "-", "-", "-", "-"],
            [
                "s0",
                "h[10-12], h[14-19]",
                "ok",
                "same",
                "ok",
                "1452",
                "+0.2±0.1 ms",
                "7.5 of 8",
                "10.0-19.0 GB",
                "-",
            ],
            [
                "s1",
                "h[20-39]",
                "ok",
                "same",
                "ok",
                "1452",
                "+0.2±0.1 ms",
                "7.5 of 8",
                "20.0-39.0 GB",
                "-",
            ],
        ];
        assert_eq!(cells, expected);
        assert!(cells.iter().all(|cells| cells.len() == TITLES.len()));
    }

    #[test]
    fn ranges_have_their_unit_once() {
        let write = |number: f64| bytes(number as u64);
        let text = |min, max| Span { min, max }.text(&write);
        assert_eq!(text(1e9, 1e9), "1.00 GB");
        assert_eq!(text(1e9, 2e9), "1.00-2.00 GB");
        assert_eq!(text(1e6, 2e9), "1.00 MB-2.00 GB");
    }

    #[test]
    fn clocks_are_in_milliseconds_up_to_a_second() {
        let clock = |min: f64, max: f64, error: f64| {
            let (clock_ahead_s, clock_uncertainty_s) = (span(min, max), span(error, error));
            Numbers { clock_ahead_s, clock_uncertainty_s, ..Numbers::default() }.clock()
        };
        assert_eq!(clock(-0.0123, -0.0123, 0.00021), "-12.3±0.3 ms");
        assert_eq!(clock(-0.001, 0.002, 0.001), "-1.0 to +2.0±1.0 ms");
        assert_eq!(clock(3600.0, 3600.0, 0.01), "+3600.0±0.1 s");
        assert_eq!(clock(-4e-5, -4e-5, 1e-5), "0.0±0.1 ms");
        assert_eq!(clock(-0.01, 4e-5, 1e-5), "-10.0 to 0.0±0.1 ms");
        assert_eq!(Numbers::default().clock(), "-");
    }
}
