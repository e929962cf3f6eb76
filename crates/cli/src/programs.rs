//! `gridctl programs`: lists the built-in jobs, and finds names that are similar to a wrong one.

use crate::args::ProgramsArgs;
use crate::error::CliError;
use crate::output;
use gridspan_jobs::{ENTRIES, Entry};
use serde::Serialize;
use std::io;
use std::process::ExitCode;

/// Smallest similarity (Jaro-Winkler, 0 to 1) of names that are offered instead of a wrong one.
const NEAR: f64 = 0.75;
/// Largest number of offered names.
const OFFERED_MAX: usize = 3;

/// A built-in job, for scripts.
#[derive(Serialize)]
struct Listed {
    name: &'static str,
    about: &'static str,
}

/// Lists the built-in jobs.
pub(crate) fn list(args: &ProgramsArgs) -> Result<ExitCode, CliError> {
    let text = match args.json {
        true => json().map_err(CliError::system("print the list"))?,
        false => text(),
    };
    output::print(&text, "print the list")
}

fn text() -> String {
    let width = ENTRIES.iter().map(|entry| entry.name.len()).max().unwrap_or(0);
    let line = |Entry { name, about, .. }: &Entry| format!("{name:width$}  {about}\n");
    ENTRIES.iter().map(line).collect()
}

fn json() -> io::Result<String> {
    let listed = |entry: &Entry| Listed { name: entry.name, about: entry.about };
    let all: Vec<Listed> = ENTRIES.iter().map(listed).collect();
    Ok(serde_json::to_string(&all)? + "\n")
}

/// Returns the names of up to [`OFFERED_MAX`] jobs that are similar to `name`, nearest first.
pub(crate) fn near(name: &str) -> Vec<&'static str> {
    nearest(name, ENTRIES.iter().map(|entry| entry.name))
}

fn nearest(name: &str, names: impl Iterator<Item = &'static str>) -> Vec<&'static str> {
    let mut near: Vec<_> = names
        .map(|known| (strsim::jaro_winkler(name, known), known))
        .filter(|(similarity, _)| *similarity >= NEAR)
        .collect();
    near.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    near.into_iter().take(OFFERED_MAX).map(|(_, known)| known).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_has_one_line() {
        let listed = text();
        assert_eq!(listed.lines().count(), ENTRIES.len());
        assert!(listed.lines().zip(ENTRIES).all(|(line, entry)| line.starts_with(entry.name)));
        let document: serde_json::Value = serde_json::from_str(&json().unwrap()).unwrap();
        assert_eq!(document.as_array().unwrap().len(), ENTRIES.len());
        assert_eq!(document[0]["name"], ENTRIES[0].name);
    }

    #[test]
    fn only_similar_names_are_found() {
        let known = ["leanmd", "pingpong", "ring", "stencil"];
        assert_eq!(nearest("rign", known.into_iter()), ["ring"]);
        assert_eq!(nearest("pinpong", known.into_iter())[0], "pingpong");
        assert!(nearest("xyzzy", known.into_iter()).is_empty());
    }
}
