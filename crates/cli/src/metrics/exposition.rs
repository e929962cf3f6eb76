//! The text format of Prometheus: families of samples, each with its help and its type.
//!
//! Source: the page "Exposition formats" of Prometheus' documentation, text format 0.0.4.

use std::collections::BTreeMap;

/// The type of the content that [`Exposition::into_text`] returns.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The increases of the counters of a job since the first scrape, by series.
///
/// A sum over nodes falls when a node is lost or does not answer, jumps when the node answers
/// again, and begins at zero in another run of the job. A counter of Prometheus must not fall:
/// Prometheus takes a fall for a restart from zero.
#[derive(Debug, Default)]
pub(super) struct Totals {
    series: BTreeMap<String, Total>,
    /// Number of the run of the job to which the last counts belong.
    run: u64,
}

#[derive(Debug, Default)]
struct Total {
    /// The last count; `None` if there was none in this run.
    last: Option<Sum>,
    risen: u64,
}

/// A count of several nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) value: u64,
    /// Number of the nodes; 0 for a count of the launcher.
    pub(super) nodes: u32,
}

impl Totals {
    /// Notes the number of the run to which the next counts belong. Counts of nodes begin at zero
    /// in another run, but may already be larger than the last ones of the previous run.
    pub(super) fn note_run(&mut self, run: u64) {
        if self.run != run {
            self.run = run;
            for total in self.series.values_mut() {
                total.last = total.last.filter(|last| last.nodes == 0);
            }
        }
    }

    /// Returns the total of a series whose count is `now`. A count that has fallen, or is over
    /// another number of nodes than the last one, adds nothing.
    fn rise(&mut self, series: &str, now: Sum) -> u64 {
        let total = self.series.entry(series.to_owned()).or_default();
        let last = total.last.unwrap_or(Sum { value: 0, nodes: now.nodes });
        if now.nodes == last.nodes {
            total.risen = total.risen.saturating_add(now.value.saturating_sub(last.value));
        }
        total.last = Some(now);
        total.risen
    }
}

/// The type of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
}

/// A family of samples of one name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Family<'a> {
    /// Its name, which ends in the unit, and in `_total` if it is a counter.
    pub(super) name: &'a str,
    pub(super) kind: Kind,
    /// What a value means: one line.
    pub(super) help: &'a str,
    /// Divisor that converts values to the unit in the name: 1,000,000 if they are microseconds.
    pub(super) per_unit: u64,
}

/// The labels of a sample, as text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Labels(String);

impl Labels {
    /// Labels with these names and values.
    pub(super) fn new(labels: &[(&str, &str)]) -> Self {
        let mut text = String::new();
        for (name, value) in labels {
            text.push(if text.is_empty() { '{' } else { ',' });
            text += &format!("{name}=\"");
            for letter in value.chars() {
                match letter {
                    '\\' => text += "\\\\",
                    '"' => text += "\\\"",
                    '\n' => text += "\\n",
                    letter => text.push(letter),
                }
            }
            text.push('"');
        }
        if !text.is_empty() {
            text.push('}');
        }
        Self(text)
    }
}

/// Metrics as text.
pub(super) struct Exposition<'a> {
    text: String,
    totals: &'a mut Totals,
}

impl<'a> Exposition<'a> {
    /// An empty text. `totals`: those of earlier texts about the job.
    pub(super) fn new(totals: &'a mut Totals) -> Self {
        Self { text: String::new(), totals }
    }

    /// Adds a family of gauges, or of counts of the launcher. Values with the same labels are added
    /// up. A family without values is left out.
    pub(super) fn add(
        &mut self,
        family: Family<'_>,
        values: impl IntoIterator<Item = (Labels, u64)>,
    ) {
        let values = values.into_iter();
        self.add_sums(family, values.map(|(labels, value)| (labels, Sum { value, nodes: 0 })));
    }

    /// Adds a family of sums over nodes, as [`add`](Self::add) does.
    pub(super) fn add_sums(
        &mut self,
        family: Family<'_>,
        values: impl IntoIterator<Item = (Labels, Sum)>,
    ) {
        let mut sums: BTreeMap<Labels, Sum> = BTreeMap::new();
        for (labels, Sum { value, nodes }) in values {
            let sum = sums.entry(labels).or_default();
            sum.value = sum.value.saturating_add(value);
            sum.nodes = sum.nodes.saturating_add(nodes);
        }
        if sums.is_empty() {
            return;
        }
        let Family { name, kind, help, per_unit } = family;
        let kind_name = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        self.text += &format!("# HELP {name} {help}\n# TYPE {name} {kind_name}\n");
        for (Labels(labels), sum) in sums {
            let series = format!("{name}{labels}");
            let value = match kind {
                Kind::Counter => self.totals.rise(&series, sum),
                Kind::Gauge => sum.value,
            };
            let value = match per_unit {
                1 => value.to_string(),
                parts => (value as f64 / parts as f64).to_string(),
            };
            self.text += &format!("{series} {value}\n");
        }
    }

    /// Returns the text.
    pub(super) fn into_text(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HANDLED: Family<'_> = Family {
        name: "handled_total",
        kind: Kind::Counter,
        help: "Messages that were handled.",
        per_unit: 1,
    };

    fn text(totals: &mut Totals, family: Family<'_>, values: &[(&str, u64)]) -> String {
        let mut exposition = Exposition::new(totals);
        let labelled = values.iter().map(|&(site, value)| (Labels::new(&[("site", site)]), value));
        exposition.add(family, labelled);
        exposition.into_text()
    }

    #[test]
    fn a_family_has_its_help_and_type_before_its_samples() {
        let mut totals = Totals::default();
        let expected = "\
# HELP handled_total Messages that were handled.
# TYPE handled_total counter
handled_total{site=\"a\"} 7
handled_total{site=\"b\"} 40
";
        let values = [("b", 40), ("a", 5), ("a", 2)];
        assert_eq!(text(&mut totals, HANDLED, &values), expected, "equal labels are one series");
        assert_eq!(text(&mut totals, HANDLED, &[]), "");
    }

    #[test]
    fn a_counter_that_falls_goes_on_from_its_total() {
        let mut totals = Totals::default();
        let mut total = |value| totals.rise("handled_total", Sum { value, nodes: 1 });
        assert_eq!([100, 130, 20, 20, 50].map(&mut total), [100, 130, 130, 130, 160]);
    }

    #[test]
    fn a_node_that_is_left_out_for_a_time_adds_nothing_when_it_comes_back() {
        let mut totals = Totals::default();
        let mut total = |(value, nodes)| totals.rise("handled_total", Sum { value, nodes });
        let counts = [(200, 2), (100, 1), (110, 1), (205, 2), (215, 2)];
        assert_eq!(counts.map(&mut total), [200, 200, 210, 210, 220]);
    }

    #[test]
    fn counts_of_nodes_begin_at_zero_in_another_run_and_those_of_the_launcher_go_on() {
        let mut totals = Totals::default();
        let counts = [(1, 100, 2), (1, 130, 2), (2, 500, 2), (2, 510, 2), (3, 40, 1)];
        let risen = counts.map(|(run, value, nodes)| {
            totals.note_run(run);
            let lost = totals.rise("lost_total", Sum { value: run, nodes: 0 });
            (totals.rise("handled_total", Sum { value, nodes }), lost)
        });
        assert_eq!(risen, [(100, 1), (130, 1), (630, 2), (640, 2), (680, 3)]);
    }

    #[test]
    fn a_gauge_falls_and_times_are_seconds() {
        let mut totals = Totals::default();
        let family =
            Family { name: "idle_seconds", kind: Kind::Gauge, help: "x", per_unit: 1_000_000 };
        for (us, seconds) in [(2_500_000, "2.5"), (40, "0.00004"), (3_000_000, "3")] {
            let text = text(&mut totals, family, &[("a", us)]);
            assert!(text.ends_with(&format!("idle_seconds{{site=\"a\"}} {seconds}\n")), "{text}");
        }
    }

    #[test]
    fn letters_with_a_meaning_are_escaped_in_labels() {
        assert_eq!(Labels::new(&[]).0, "");
        let labels = Labels::new(&[("type", "a\\b"), ("site", "\"x\"\ny")]);
        assert_eq!(labels.0, r#"{type="a\\b",site="\"x\"\ny"}"#);
    }
}
