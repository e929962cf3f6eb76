//! `gridctl bcast`: shows how a broadcast would travel over a grid, strategy by strategy.
//!
//! | module | content |
//! | --- | --- |
//! | `inputs` | the network that a grid describes, and the node that broadcasts |
//! | `prediction` | one strategy's trees for one message, with their simulated times |
//! | `text` | output for people |
//! | `json` | output for scripts |
//! | `svg` | a picture |

mod inputs;
mod json;
mod prediction;
mod svg;
mod text;

use crate::args::BcastArgs;
use crate::error::CliError;
use crate::output::show;
use crate::progress::Progress;
use crate::style::Style;
use gridspan_bcast::strategies::{NAMES, by_name};
use inputs::Inputs;
use prediction::{Prediction, Predictions};
use std::io;
use std::process::ExitCode;

/// Shows the predictions that the flags request.
pub(crate) fn run(args: &BcastArgs) -> Result<ExitCode, CliError> {
    let inputs = Inputs::new(args)?;
    let names: Vec<&str> = match args.strategy.is_empty() {
        true => NAMES.into(),
        false => args.strategy.iter().map(String::as_str).collect(),
    };
    let strategies: Result<Vec<_>, _> = names.into_iter().map(by_name).collect();
    let strategies = strategies.map_err(io::Error::other).map_err(CliError::system("plan"))?;
    let steps = strategies.len() as u64 * args.bytes.len() as u64;
    let progress = Progress::begin("planning".to_owned(), Some(steps));
    let sizes: Vec<Predictions> = args
        .bytes
        .iter()
        .map(|&bytes| Predictions {
            bytes,
            bound_s: inputs.bound_s(bytes),
            all: strategies
                .iter()
                .map(|strategy| Prediction::new(&inputs, &**strategy, bytes, args))
                .inspect(|_| progress.advance())
                .collect(),
        })
        .collect();
    progress.end();
    let drawn = sizes.last().and_then(|size| Some((size, size.fastest()?)));
    let picture = args.svg.as_ref().zip(drawn);
    let picture =
        picture.map(|(path, (size, fastest))| (path, svg::render(&inputs, size, fastest)));
    let text = || match args.json {
        true => json::render(&inputs, &sizes),
        false => text::render(&inputs, &sizes, args.tree, Style::of_stdout()),
    };
    show(picture, text, "print the plans")
}
