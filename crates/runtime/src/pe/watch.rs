//! Measures against a job that does not end.

use std::sync::Arc;
use std::time::Duration;

/// Called with a warning about a job, such as the reason why it makes no progress.
pub(crate) type OnWarning = Arc<dyn Fn(&str) + Send + Sync>;

/// Measures against a job that does not end. Drivers in real time apply them.
#[derive(Clone, Default)]
pub(crate) struct Watch {
    pub(crate) on_warning: Vec<OnWarning>,
    /// Whether a job that can make no progress fails.
    pub(crate) fails: bool,
    /// Time limit of the job.
    pub(crate) time_limit: Option<Duration>,
    /// Silence after which a node is lost; applied to nodes that are connected by a network.
    pub(crate) lost_after: Option<Duration>,
}
