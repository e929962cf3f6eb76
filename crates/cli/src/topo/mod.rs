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
use crate::output::show;
use crate::style::Style;
use std::process::ExitCode;

/// Shows a topology as the flags say.
pub(crate) fn run(args: &TopoArgs, verbose: u8) -> Result<ExitCode, CliError> {
    let topology = source::topology(args, verbose)?;
    let picture = args.svg.as_ref().map(|path| (path, svg::render(&topology)));
    let text = || match args.json {
        true => json::render(&topology),
        false => text::render(&topology, Style::of_stdout()),
    };
    show(picture, text, "print the topology")
}
