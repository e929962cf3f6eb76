//! The command lines of `gridctl trace` and `gridctl compare`.

use clap::Args;
use std::path::PathBuf;

/// Arguments of `gridctl trace`.
#[derive(Debug, Args)]
#[command(after_help = TRACE_HELP)]
pub(crate) struct TraceArgs {
    /// The recording: the folder of `--record`.
    #[arg(value_name = "DIR")]
    pub(crate) recording: PathBuf,
    /// Write the trace into FILE; `-` is standard output [default: trace.perfetto-trace in DIR].
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

const TRACE_HELP: &str = "\
A node is a process in the trace, and a PE a thread. Handlers and tasks are slices, and messages are
flows. Counters show queues, idle PEs and bytes between sites.

Examples:
  gridctl sim -e 2x4,wan=32ms --record r leanmd
  gridctl trace r                          open r/trace.perfetto-trace in https://ui.perfetto.dev
  gridctl trace r -o - | gzip > r.gz

Exit codes: 0 written, 1 the trace cannot be written, 2 usage or a recording that cannot be read.";

/// Arguments of `gridctl compare`.
#[derive(Debug, Args)]
#[command(after_help = COMPARE_HELP)]
pub(crate) struct CompareArgs {
    /// A recording: the folder of `--record`.
    #[arg(value_name = "A")]
    pub(crate) a: PathBuf,
    /// Another recording, of the same job.
    #[arg(value_name = "B")]
    pub(crate) b: PathBuf,
    /// Compare recordings of different jobs, too.
    #[arg(long)]
    pub(crate) force: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

const COMPARE_HELP: &str = "\
Both recordings must be of a job of the same name. Its arguments, the grid, the seed and the driver
may differ; differences of the command, the driver and the seed are printed.

Times are means over the PEs, so that those of one recording add up to the time of its job, whatever
its number of PEs. What explains most of the difference comes first.

Exit codes: 0 compared, 2 usage, different jobs, or a recording that cannot be read.";
