//! The built-in jobs by name: what `gridctl` and the benches can start.

use crate::{drill, ring};
use clap::Parser;
use gridspan_runtime::Job;

/// A job that can be started by name.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// Defines it with the arguments that follow its name. The error is one to print, and also says
    /// so if the arguments ask for help.
    pub build: fn(&[String]) -> Result<Job, clap::Error>,
}

/// All of them, by name.
pub const ENTRIES: &[Entry] = &[drill::ENTRY, ring::ENTRY];

/// The job of this name.
pub fn find(name: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.name == name)
}

/// Reads the arguments of the job called `name`.
pub(crate) fn parse<T: Parser>(name: &'static str, arguments: &[String]) -> Result<T, clap::Error> {
    T::try_parse_from(std::iter::once(name).chain(arguments.iter().map(String::as_str)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_sorted_by_name_and_each_is_found() {
        assert!(ENTRIES.is_sorted_by(|a, b| a.name < b.name));
        assert!(ENTRIES.iter().all(|entry| find(entry.name).is_some_and(|e| e.name == entry.name)));
        assert!(find("nothing").is_none());
    }

    #[test]
    fn every_job_can_be_built_without_arguments_and_explains_its_own() {
        for entry in ENTRIES {
            assert_eq!((entry.build)(&[]).unwrap().name(), entry.name);
            let help = (entry.build)(&["--help".to_owned()]).err().unwrap();
            assert_eq!(help.exit_code(), 0, "{help}");
            assert!(help.to_string().contains(entry.about), "{help}");
        }
    }
}
