//! `gridctl topo`: shows what is near what, and how near, as far as it is known.
//!
//! | part | what it does |
//! | --- | --- |
//! | `source` | from a file, a measurement or a running job to a topology |
//! | `topology` | places, links and where they are known from, whatever the source |
//! | `text` | for people |
//! | `json` | for scripts |
//! | `svg` | a picture |

mod json;
mod source;
mod svg;
mod text;
mod topology;

use crate::args::TopoArgs;
use crate::error::CliError;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// A picture goes to standard output by this name.
const STDOUT: &str = "-";

/// Shows a topology as the flags say.
pub(crate) fn run(args: &TopoArgs, verbose: u8) -> Result<ExitCode, CliError> {
    let topology = source::topology(args, verbose)?;
    if let Some(path) = &args.svg {
        let picture = svg::render(&topology);
        if path == Path::new(STDOUT) {
            return print(&picture);
        }
        fs::write(path, picture).map_err(|error| CliError::Write { path: path.clone(), error })?;
    }
    print(&match args.json {
        true => json::render(&topology),
        false => text::render(&topology, text::Style::of_stdout()),
    })
}

/// Prints to standard output, whose reader may have had enough.
fn print(text: &str) -> Result<ExitCode, CliError> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CliError::System { what: "print the topology", error })
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}
