//! The command line of `gridctl topo`.

use super::place::PlaceArgs;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Arguments of `gridctl topo`.
#[derive(Debug, Args)]
#[command(after_help = TOPO_HELP)]
pub(crate) struct TopoArgs {
    /// Show a grid file (`.toml`), or infer from a square matrix of round-trip times: rows of
    /// values separated by commas or blanks, as data sets are published.
    #[arg(value_name = "FILE", conflicts_with_all = ["place", "job"])]
    pub(crate) file: Option<PathBuf>,
    /// Start nodes to measure. Without it, a grid file is shown as written.
    #[arg(long, conflicts_with = "job")]
    pub(crate) probe: bool,
    /// The job whose view of the topology is shown [default: the latest].
    #[arg(short, long, value_name = "ID", conflicts_with = "place")]
    pub(crate) job: Option<String>,
    /// Where to start nodes.
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// The unit of the numbers in a matrix, `s`, `ms` or `us`.
    #[arg(long, value_enum, default_value_t = RttUnitName::Ms, hide_possible_values = true)]
    pub(crate) unit: RttUnitName,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Also draw a dendrogram and a heat map into FILE; `-` prints the picture alone.
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

const TOPO_HELP: &str = "Examples:
  gridctl topo                            as your latest running job sees it
  gridctl topo grid.toml                  as a grid file describes it
  gridctl topo grid.toml --probe          as nodes started on its hosts measure it
  gridctl topo --emulate 2x4,wan=32ms     as measured over emulated links
  gridctl topo rtt.txt --unit us          as inferred from published round trips
  gridctl topo rtt.csv --svg rtt.svg      and drawn

Exit codes: 0 done, 1 nothing could be measured, 2 usage or a file that cannot be read.";

/// Units of round trips in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RttUnitName {
    /// Seconds.
    S,
    /// Milliseconds.
    Ms,
    /// Microseconds.
    Us,
}
