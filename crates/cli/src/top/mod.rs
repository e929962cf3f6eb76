//! `gridctl top`: watches a running job, on a live screen, or as text or JSON.
//!
//! | module | purpose |
//! | --- | --- |
//! | `watch` | asks the launcher of the job for samples |
//! | `moment`, `figures`, `parts` | a sample with its places, and what the parts of the job did since the one before |
//! | `sheet`, `sheets`, `text` | tables of the parts |
//! | `state`, `keys`, `view`, `screen` | the live screen: what it shows, keys, drawing, the terminal |
//! | `plain`, `json` | the same as text, and for scripts |

mod figures;
mod json;
mod keys;
mod moment;
mod parts;
mod plain;
mod screen;
mod sheet;
mod sheets;
mod state;
mod text;
mod view;
mod watch;

use crate::args::TopArgs;
use crate::error::CliError;
use crate::nodes::find;
use crate::output::{print, warn};
use crate::signals::exit_code;
use crate::style::Style;
pub(crate) use moment::Moment;
use screen::End;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
pub(crate) use watch::observe;
use watch::{News, Watcher};

/// Watches a job.
pub(crate) fn run(args: &TopArgs) -> Result<ExitCode, CliError> {
    let job = find(args.job.as_deref())?;
    let watcher = Watcher::new(&job, args.every)?;
    if args.json {
        return print_objects(watcher, args.once);
    }
    if args.once || !io::stdout().is_terminal() {
        return print_once(watcher);
    }
    match screen::run(watcher)? {
        End::User => Ok(ExitCode::SUCCESS),
        End::Job(code) => print(&(ended(&job.id, code) + "\n"), "print the end of the job"),
        End::Signal(signal) => Ok(ExitCode::from(exit_code(signal))),
    }
}

/// Maximum number of samples that are skipped because they lack nodes.
const INCOMPLETE_MAX: u32 = 5;

/// Waits for the first sample with all nodes, but not for long.
fn first(watcher: &mut Watcher) -> Result<Result<Moment, Option<u8>>, CliError> {
    for _ in 0..INCOMPLETE_MAX {
        match next(watcher)? {
            Ok(moment) if !moment.is_whole() => {}
            found => return Ok(found),
        }
    }
    next(watcher)
}

/// Prints one text, with rates between two samples.
fn print_once(mut watcher: Watcher) -> Result<ExitCode, CliError> {
    let mut before = None;
    loop {
        let news = match before {
            None => first(&mut watcher)?,
            Some(_) => next(&mut watcher)?,
        };
        match news {
            Err(code) => {
                let text = ended(watcher.job(), code);
                return print(&(text + "\n"), "print the end of the job");
            }
            Ok(now) if before.is_some() => {
                let text = plain::text(&now, before.as_ref(), Style::of_stdout().is_coloured);
                return print(&text, "print the table");
            }
            Ok(now) => before = Some(now),
        }
    }
}

/// Prints an object for each sample, from the second one on, until the job has ended; if `once`,
/// prints only one.
fn print_objects(mut watcher: Watcher, once: bool) -> Result<ExitCode, CliError> {
    const WHAT: &str = "print the samples";
    let failed = |error: serde_json::Error| CliError::System { what: WHAT, error: error.into() };
    let mut before: Option<Moment> = None;
    loop {
        let news = match before {
            None => first(&mut watcher)?,
            Some(_) => next(&mut watcher)?,
        };
        let now = match news {
            Ok(now) => now,
            Err(code) => {
                return print(&json::last_line(watcher.job(), code).map_err(failed)?, WHAT);
            }
        };
        if let Some(before) = &before {
            // If the reader has closed the output, this fails and ends the watch.
            write(&json::line(&now, Some(before)).map_err(failed)?)
                .map_err(CliError::system(WHAT))?;
            if once {
                return Ok(ExitCode::SUCCESS);
            }
        }
        before = Some(now);
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Waits for the next moment. At the end of the job, returns its exit code as the inner error.
fn next(watcher: &mut Watcher) -> Result<Result<Moment, Option<u8>>, CliError> {
    loop {
        match watcher.next(|| None)? {
            News::Moment(moment) => return Ok(Ok(*moment)),
            News::Trouble(text) => warn(&text),
            News::Ended(code) => return Ok(Err(code)),
        }
    }
}

fn ended(job: &str, code: Option<u8>) -> String {
    match code {
        Some(code) => format!("the job {job} has ended with exit code {code}"),
        None => format!("the job {job} has ended"),
    }
}

#[cfg(test)]
pub(crate) mod fixtures;
