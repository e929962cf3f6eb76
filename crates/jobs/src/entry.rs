//! What a job needs to be started by name.

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

/// Reads the arguments of the job called `name`.
pub(crate) fn parse<T: Parser>(name: &'static str, arguments: &[String]) -> Result<T, clap::Error> {
    T::try_parse_from(std::iter::once(name).chain(arguments.iter().map(String::as_str)))
}
