//! `gridctl compare`: which of two recorded runs of a job was faster, and where the difference lies.
//!
//! Each PE accounts for the whole time of the job. So the means over PEs of all kinds of time add
//! up to the time of the job, and their differences add up to the difference of the jobs, also for
//! different numbers of PEs.
//!
//! - `profile`: the numbers of one recording. `difference`: those of both, ordered.
//! - `verdict`: the first line. `comparison`: all of it, which `text` and `json` print.

mod comparison;
mod difference;
mod json;
mod profile;
mod text;
mod verdict;

use crate::args::CompareArgs;
use crate::error::CliError;
use crate::output;
use crate::progress::Progress;
use crate::recorded;
use comparison::Comparison;
use std::process::ExitCode;

/// Compares two recordings, and prints the result.
pub(crate) fn run(args: &CompareArgs) -> Result<ExitCode, CliError> {
    let progress = Progress::begin("reading the recordings".to_owned(), Some(2));
    let read = [&args.a, &args.b].map(|folder| {
        let recording = recorded::read(folder);
        progress.advance();
        recording
    });
    progress.end();
    let [a, b] = read;
    let (a, b) = (a?, b?);
    if !args.force && a.header.job != b.header.job {
        return Err(CliError::OtherJobs { a: a.header.job, b: b.header.job });
    }
    let comparison = Comparison::new([&args.a, &args.b], [&a, &b]);
    let text = match args.json {
        true => json::render(&comparison),
        false => text::render(&comparison),
    };
    output::print(&text, "print the comparison")
}

#[cfg(test)]
mod tests;
