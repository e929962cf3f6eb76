//! The command line of `gridctl report`.

use clap::Args;
use std::path::PathBuf;

/// Arguments of `gridctl report`.
#[derive(Debug, Args)]
#[command(after_help = REPORT_HELP)]
pub(crate) struct ReportArgs {
    /// The recording: the folder of `--record`.
    #[arg(value_name = "DIR")]
    pub(crate) recording: PathBuf,
    /// Write the page into FILE; `-` is standard output [default: report.html in DIR].
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Print one JSON object, with the whole analysis, and write no page.
    #[arg(long, conflicts_with = "output")]
    pub(crate) json: bool,
}

const REPORT_HELP: &str = "\
The first line says what limited the run, where, and what share of the time of all PEs it took; or
that the run is healthy; or that the reason is not known. The page is one HTML file, which a browser
shows without network access.

Examples:
  gridctl run -n 4 --record r leanmd
  gridctl report r                         writes r/report.html
  gridctl report r --json                  for scripts

Exit codes: 0 written, 1 the page cannot be written, 2 usage or a recording that cannot be read.";
