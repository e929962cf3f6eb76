//! Arguments about the processes of a job, and what they tell others.

use crate::metrics::MetricsAddress;
use clap::Args;

/// How processes run, and what they tell others.
#[derive(Debug, Args)]
pub(crate) struct ProcessFlags {
    /// Serve the counters of the job to Prometheus, at http://ADDRESS/metrics: a port of this
    /// machine, such as 9464 (0 for any), or unix:PATH. Only your user can read them. The nodes are
    /// processes then.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics: Option<MetricsAddress>,
}
