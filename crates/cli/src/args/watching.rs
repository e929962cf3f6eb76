//! The command lines of `gridctl doctor` and `gridctl top`, which look at a running job.

use clap::Args;
use std::time::Duration;

/// Arguments of `gridctl doctor`.
#[derive(Debug, Args)]
#[command(after_help = DOCTOR_HELP)]
pub(crate) struct DoctorArgs {
    /// The job [default: the latest].
    #[arg(value_name = "ID")]
    pub(crate) job: Option<String>,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

const DOCTOR_HELP: &str = "The first line names the most likely cause; the others say what waits. \
The job goes on meanwhile.
The answer takes up to five seconds, even if PEs are inside handlers or nodes do not answer.

Exit codes: 0 answered, 1 refused or the job cannot be reached, 2 usage.";

/// Arguments of `gridctl top`.
#[derive(Debug, Args)]
#[command(after_help = TOP_HELP)]
pub(crate) struct TopArgs {
    /// The job [default: the latest].
    #[arg(value_name = "ID")]
    pub(crate) job: Option<String>,
    /// Take a sample this often, from 200ms to 60s.
    #[arg(long, value_name = "TIME", value_parser = sampling_period, default_value = "1s")]
    pub(crate) every: Duration,
    /// Print one table, of the time between two samples, and end; the default without a terminal.
    #[arg(long)]
    pub(crate) once: bool,
    /// Print a JSON object for each sample, one per line; with --once only one.
    #[arg(long)]
    pub(crate) json: bool,
}

const TOP_HELP: &str = "Keys: arrows select a row, Enter goes into a site, a node or an actor \
type, Esc goes back; 1 to 5 or Tab change what is shown; < and > choose the column to sort by, r \
reverses the order; q ends.

The job goes on as before; it takes samples only while it is watched.

Exit codes: 0 done or the job has ended, 1 the job cannot be reached, 2 usage.";

/// Parses how often samples are taken.
fn sampling_period(text: &str) -> Result<Duration, &'static str> {
    let bounds = Duration::from_millis(200)..=Duration::from_secs(60);
    let period = gridspan::variables::period(text).filter(|period| bounds.contains(period));
    period.ok_or("write a time from 200ms to 60s, such as 2s")
}
