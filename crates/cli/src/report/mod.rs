//! `gridctl report`: what limited a recorded run, and a page that shows the use of its time.
//!
//! | module | content |
//! | --- | --- |
//! | `analysis` | a pure function of a recording |
//! | `text` | output for people |
//! | `page` | the page: one HTML file |

mod analysis;
mod page;
mod text;

use crate::args::ReportArgs;
use crate::error::CliError;
use crate::output;
use crate::progress::Progress;
use crate::recorded;
use analysis::Analysis;
use gridspan_record::RecordError;
use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// The page in the folder of the recording, unless another file is named.
const FILE: &str = "report.html";
/// Name of the operation in errors.
const PRINT: &str = "print the report";

/// Analyses a recording, writes the page, and prints a summary; or prints the analysis.
pub(crate) fn run(args: &ReportArgs) -> Result<ExitCode, CliError> {
    let progress = Progress::begin("analysing the recording".to_owned(), None);
    let analysis = analysed(&args.recording);
    progress.end();
    let analysis = analysis?;
    if args.json {
        let json = serde_json::to_string(&analysis).map_err(io::Error::from);
        return output::print(&(json.map_err(CliError::system(PRINT))? + "\n"), PRINT);
    }
    let path = args.output.clone().unwrap_or_else(|| args.recording.join(FILE));
    let page = page::render(&analysis);
    if path == Path::new(output::STDOUT) {
        return output::print(&page, PRINT);
    }
    fs::write(&path, page).map_err(|error| CliError::Write { path: path.clone(), error })?;
    output::print(&text::render(&analysis, &path), PRINT)
}

fn analysed(folder: &Path) -> Result<Analysis, RecordError> {
    Ok(Analysis::of(&recorded::read(folder)?))
}
