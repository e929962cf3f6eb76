//! `gridctl topo`: shows the known distances between nodes.
//!
//! | module | purpose |
//! | --- | --- |
//! | `source` | reads a topology from a file, a measurement or a running job |
//! | `topology` | places and links from any source |
//! | `text` | output for people |
//! | `json` | output for scripts |
//! | `svg` | a picture |

mod json;
mod source;
mod svg;
mod text;
mod topology;

use crate::args::TopoArgs;
use crate::error::CliError;
use crate::output::show;
use crate::style::Style;
use std::process::ExitCode;

/// Shows the topology that the flags request.
pub(crate) fn run(args: &TopoArgs, verbose: u8) -> Result<ExitCode, CliError> {
    let topology = source::topology(args, verbose)?;
    let picture = args.svg.as_ref().map(|path| (path, svg::render(&topology)));
    let text = || match args.json {
        true => json::render(&topology),
        false => text::render(&topology, Style::of_stdout()),
    };
    show(picture, text, "print the topology")
}
