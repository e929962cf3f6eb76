//! A reader of Prometheus' text format, version 0.0.4. It refuses text that breaks the format or
//! the conventions for names.

use std::collections::{BTreeMap, BTreeSet};

/// Labels and their values.
pub(crate) type Labels = BTreeMap<String, String>;

/// The samples of one name.
#[derive(Debug, Default)]
pub(crate) struct Family {
    help: Option<String>,
    pub(crate) kind: String,
    pub(crate) samples: BTreeMap<Labels, f64>,
}

impl Family {
    /// The value of the sample with these labels.
    pub(crate) fn value(&self, labels: &[(&str, &str)]) -> f64 {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        self.samples[&labels.collect::<Labels>()]
    }

    /// The values of a label.
    pub(crate) fn values_of(&self, label: &str) -> BTreeSet<&str> {
        self.samples.keys().map(|labels| labels[label].as_str()).collect()
    }
}

/// Returns the families of a text by name. Panics if the text is wrong.
pub(crate) fn read(text: &str) -> BTreeMap<String, Family> {
    assert!(text.ends_with('\n'), "the last line has an end");
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut last = String::new();
    for line in text.lines() {
        let name = match line.strip_prefix("# ") {
            Some(comment) => note(comment, &mut families),
            None => sample(line, &mut families),
        };
        let is_new = last != name;
        let has_samples = !families[&name].samples.is_empty();
        // A new family begins with its help.
        assert!(!is_new || !has_samples && line.starts_with("# HELP"), "not in one group: {line}");
        last = name;
    }
    for (name, family) in &families {
        check_name(name, family);
    }
    families
}

/// Reads a line of help or of a type. Returns the name of the family.
fn note(comment: &str, families: &mut BTreeMap<String, Family>) -> String {
    let (keyword, rest) = comment.split_once(' ').unwrap();
    let (name, text) = rest.split_once(' ').unwrap();
    assert!(!text.is_empty(), "{comment}");
    let family = families.entry(name.to_owned()).or_default();
    assert!(family.samples.is_empty(), "it comes before the samples: {comment}");
    match keyword {
        "HELP" => {
            assert_eq!(family.help, None, "{comment}");
            family.help = Some(text.to_owned());
        }
        "TYPE" => {
            assert!(family.kind.is_empty() && ["counter", "gauge"].contains(&text), "{comment}");
            family.kind = text.to_owned();
        }
        _ => panic!("neither help nor type: {comment}"),
    }
    name.to_owned()
}

/// Reads a sample. Returns the name of its family.
fn sample(line: &str, families: &mut BTreeMap<String, Family>) -> String {
    let end = line.find(['{', ' ']).unwrap();
    let (name, rest) = line.split_at(end);
    let (labels, value) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest),
        None => (Labels::new(), rest),
    };
    let value: f64 = value.strip_prefix(' ').unwrap().parse().unwrap();
    let family = families.get_mut(name).unwrap_or_else(|| panic!("no help before {line}"));
    assert!(!family.kind.is_empty(), "no type before {line}");
    assert!(value.is_finite() && value >= 0.0, "{line}");
    assert_eq!(family.samples.insert(labels, value), None, "it is there twice: {line}");
    name.to_owned()
}

/// Reads labels up to the closing brace. Returns the rest of the line.
fn labels(mut rest: &str) -> (Labels, &str) {
    let mut labels = Labels::new();
    loop {
        let (name, after) = rest.split_once("=\"").unwrap();
        assert!(is_name(name, "_") && !name.starts_with("__"), "{name}");
        let (mut value, mut letters) = (String::new(), after.char_indices());
        let end = loop {
            match letters.next().unwrap() {
                (at, '"') => break at,
                (_, '\\') => value.push(match letters.next().unwrap().1 {
                    'n' => '\n',
                    letter @ ('\\' | '"') => letter,
                    letter => panic!("\\{letter} means nothing"),
                }),
                (_, letter) => value.push(letter),
            }
        };
        assert_eq!(labels.insert(name.to_owned(), value), None, "{name} is there twice");
        let after = &after[end + 1..];
        match after.strip_prefix(',') {
            Some(more) => rest = more,
            None => return (labels, after.strip_prefix('}').unwrap()),
        }
    }
}

/// Whether a name consists of letters, digits and these signs, and begins with no digit.
fn is_name(name: &str, signs: &str) -> bool {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || signs.contains(letter);
    !name.is_empty()
        && name.chars().all(is_part)
        && !name.starts_with(|it: char| it.is_ascii_digit())
}

/// Checks a name against the page "Metric and label naming" of Prometheus' documentation.
fn check_name(name: &str, family: &Family) {
    assert!(is_name(name, "_:"), "{name}");
    assert!(family.help.is_some() && !family.samples.is_empty(), "{name}: {family:?}");
    assert!(name.starts_with("gridspan_"), "{name} has the prefix of its program");
    assert_eq!(name.ends_with("_total"), family.kind == "counter", "{name} is a {}", family.kind);
    let unit = name.trim_end_matches("_total");
    for other in ["_ms", "_us", "_ns", "_millis", "_micros", "_kb", "_mb", "_percent", "_bits"] {
        assert!(!unit.ends_with(other), "the unit of {name} is no base unit");
    }
}

#[test]
fn what_the_format_forbids_is_refused() {
    let head = "# HELP gridspan_x_total Things.\n# TYPE gridspan_x_total counter\n";
    let good = format!("{head}gridspan_x_total{{a=\"\\\"1\\\\\",b=\"x\"}} 5\n");
    assert_eq!(read(&good)["gridspan_x_total"].value(&[("a", "\"1\\"), ("b", "x")]), 5.0);
    let wrong = [
        "gridspan_x_total 5\n".to_owned(),
        format!("{head}gridspan_x_total 5\ngridspan_x_total 6\n"),
        format!("{head}gridspan_x_total five\n"),
        format!("{head}gridspan_x_total -5\n"),
        format!("{head}gridspan_x_total{{a=\"1}} 5\n"),
        format!("{head}gridspan_x_total{{a=\"\\x\"}} 5\n"),
        format!("{head}gridspan_x_total 5"),
        head.to_owned(),
        "# HELP gridspan_x Things.\n# TYPE gridspan_x counter\ngridspan_x 5\n".to_owned(),
        "# HELP gridspan_x_ms Time.\n# TYPE gridspan_x_ms gauge\ngridspan_x_ms 5\n".to_owned(),
    ];
    for text in wrong {
        assert!(std::panic::catch_unwind(|| read(&text)).is_err(), "{text}");
    }
}
