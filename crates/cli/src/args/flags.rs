//! A test that each flag has one meaning over all verbs.

use super::Cli;
use clap::{Arg, Command, CommandFactory};
use std::collections::BTreeMap;

/// Flags that name the object of a verb. Their help begins with the action of the verb, such as
/// `Plan` or `Check`, so its first word differs between verbs.
const OF_VERB: [&str; 5] = ["at", "emulate", "grid", "node", "pes"];

/// What a flag means in one verb.
#[derive(Debug, PartialEq)]
struct Meaning {
    short: Option<char>,
    value: Option<String>,
    /// The first word of its help.
    begin: String,
}

impl Meaning {
    fn of(long: &str, arg: &Arg) -> Self {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let begin = help.split_whitespace().next().unwrap_or_default();
        let begin = if OF_VERB.contains(&long) { "" } else { begin };
        let names = || arg.get_value_names().map(|names| names.join(" "));
        Self {
            short: arg.get_short(),
            value: arg.get_action().takes_values().then(names).flatten(),
            begin: begin.to_owned(),
        }
    }
}

/// All flags of a command and of its verbs, with the verbs that have them.
fn flags(command: &Command, verb: &str, found: &mut Vec<(String, String, Meaning)>) {
    for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
        if let Some(long) = arg.get_long() {
            found.push((long.to_owned(), verb.to_owned(), Meaning::of(long, arg)));
        }
    }
    for inner in command.get_subcommands() {
        flags(inner, &format!("{verb} {}", inner.get_name()), found);
    }
}

#[test]
fn a_flag_means_the_same_in_all_verbs() {
    let mut found = vec![];
    flags(&Cli::command(), "gridctl", &mut found);
    assert!(found.iter().filter(|(long, ..)| long == "json").count() > 5, "{found:?}");
    let mut meanings: BTreeMap<&str, (&str, &Meaning)> = BTreeMap::new();
    let mut letters: BTreeMap<char, &str> = BTreeMap::from([('h', "help"), ('V', "version")]);
    for (long, verb, meaning) in &found {
        let (first, known) = meanings.entry(long).or_insert((verb.as_str(), meaning));
        assert_eq!(meaning, *known, "--{long} of `{verb}` and of `{first}`");
        if let Some(short) = meaning.short {
            let known = letters.entry(short).or_insert(long);
            assert_eq!(long, *known, "-{short} of `{verb}`");
        }
    }
}
