//! `gridctl jobs`: lists the built-in jobs, and finds names that are similar to a wrong one.

use crate::error::CliError;
use gridspan_jobs::{ENTRIES, Entry};
use std::io::Write;
use std::process::ExitCode;

/// Smallest similarity (Jaro-Winkler, 0 to 1) of names that are offered instead of a wrong one.
const NEAR: f64 = 0.75;
/// Largest number of offered names.
const OFFERED_MAX: usize = 3;

/// Lists the built-in jobs.
pub(crate) fn list(to: &mut impl Write) -> Result<ExitCode, CliError> {
    let width = ENTRIES.iter().map(|entry| entry.name.len()).max().unwrap_or(0);
    for Entry { name, about, .. } in ENTRIES {
        writeln!(to, "{name:width$}  {about}").map_err(CliError::system("print the list"))?;
    }
    Ok(ExitCode::SUCCESS)
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
        let mut list_text = vec![];
        list(&mut list_text).unwrap();
        let list_text = String::from_utf8(list_text).unwrap();
        assert_eq!(list_text.lines().count(), ENTRIES.len());
        assert!(list_text.lines().zip(ENTRIES).all(|(line, entry)| line.starts_with(entry.name)));
    }

    #[test]
    fn only_similar_names_are_found() {
        let known = ["leanmd", "pingpong", "ring", "stencil"];
        assert_eq!(nearest("rign", known.into_iter()), ["ring"]);
        assert_eq!(nearest("pinpong", known.into_iter())[0], "pingpong");
        assert!(nearest("xyzzy", known.into_iter()).is_empty());
    }
}
