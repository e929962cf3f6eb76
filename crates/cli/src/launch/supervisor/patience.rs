//! How long processes may take to start, and their output to end.

use super::{Phase, SRUN_PATIENCE, Supervisor};
use gridspan_topology::Time;
use std::time::Duration;

impl Supervisor {
    /// Records that another process was started, or a task has enrolled, which restarts the timeout
    /// of the start.
    pub(in super::super) fn started(&mut self, now: Time) {
        let patience = self.start_patience();
        if let Phase::Starting { until } = &mut self.phase
            && !self.awaits_srun
        {
            *until = now + patience;
        }
    }

    /// Sets the time that processes have to start, from `now` on, as the user requests. It may be
    /// shorter than the present one, and nothing extends it later.
    pub(in super::super) fn limit_start(&mut self, limit: Duration, now: Time) {
        self.patience.start_limit = Some(limit);
        if let Phase::Starting { until } = &mut self.phase {
            *until = now + limit;
        }
    }

    /// Sets whether there is an `srun` without an enrolled task. A change restarts the
    /// timeout of the start.
    pub(in super::super) fn await_srun(&mut self, awaits_srun: bool, now: Time) {
        if std::mem::replace(&mut self.awaits_srun, awaits_srun) != awaits_srun {
            let patience = self.start_patience();
            if let Phase::Starting { until } = &mut self.phase {
                *until = now + patience;
            }
        }
    }

    /// Sets the time to wait for output after the end of its process, if it is longer than the
    /// present one.
    pub(in super::super) fn set_drain_patience(&mut self, patience: Duration) {
        self.patience.drain = self.patience.drain.max(patience);
    }

    /// Sets the time for nodes to end after a failure, a request to end, or leaving, if it is
    /// longer than the present one.
    pub(in super::super) fn set_end_patience(&mut self, patience: Duration) {
        self.patience.settle = self.patience.settle.max(patience);
        self.patience.grace = self.patience.grace.max(patience);
    }

    /// Returns the time that processes have to start.
    pub(super) fn start_patience(&self) -> Duration {
        match (self.patience.start_limit, self.awaits_srun) {
            (Some(limit), _) => limit,
            (None, true) => self.patience.start.max(SRUN_PATIENCE),
            (None, false) => self.patience.start,
        }
    }
}
