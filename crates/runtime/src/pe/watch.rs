//! What is done about a job that does not end.

use std::sync::Arc;
use std::time::Duration;

/// Is told what is odd about a job, such as why it does not go on.
pub(crate) type OnWarning = Arc<dyn Fn(&str) + Send + Sync>;

/// What is done about a job that does not end. Drivers in real time heed it.
#[derive(Clone, Default)]
pub(crate) struct Watch {
    pub(crate) on_warning: Vec<OnWarning>,
    /// Whether a job ends that can never go on.
    pub(crate) fails: bool,
    /// How long the job may take.
    pub(crate) time_limit: Option<Duration>,
}
