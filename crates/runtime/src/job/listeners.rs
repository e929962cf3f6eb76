//! The listeners of a job, which run in the process that learns of their event.

use crate::error::{JobError, Warning};
use crate::job::Job;
use crate::message::Diagnosis;
use crate::pe::links::{Links, OnFailure};
use crate::pe::{BroadcastReport, CheckpointReport, CopiesRemade, GuestEvent, ToleratedLoss};
use gridspan_balance::{BalanceReport, Plan, Snapshot};
use gridspan_topology::LinkChange;
use std::sync::Arc;

impl Job {
    /// Adds a listener for the estimates of the links. It is called when some have changed, with
    /// these changes, and every two seconds. Runs in the coordinator of a job of several nodes; it
    /// must not block.
    pub fn on_links(
        mut self,
        tell: impl Fn(&Links, &[LinkChange]) + Send + Sync + 'static,
    ) -> Self {
        self.on_links.push(Arc::new(tell));
        self
    }

    /// Adds a listener for events of guests. Runs in the coordinator; it must not block.
    pub fn on_guests(mut self, tell: impl Fn(&GuestEvent) + Send + Sync + 'static) -> Self {
        self.on_guests.push(Arc::new(tell));
        self
    }

    /// Adds a listener for losses of nodes without which the job goes on; see
    /// [`recover_tasks_locally`](Self::recover_tasks_locally). Runs in the coordinator; it must not
    /// block.
    pub fn on_tolerated_loss(
        mut self,
        tell: impl Fn(&ToleratedLoss) + Send + Sync + 'static,
    ) -> Self {
        self.on_tolerated_loss.push(Arc::new(tell));
        self
    }

    /// Adds a listener for a failure of the job while PEs may be inside handlers and unable to end
    /// it: this node has declared a founder lost, or the coordinator here ends the job for such a
    /// loss, or PE 0 does not end the job at its time limit.
    /// Runs on a thread that is not a PE; it must not block.
    pub fn on_failure(mut self, tell: impl Fn(&JobError) + Send + Sync + 'static) -> Self {
        self.on_failure.push(Arc::new(tell));
        self
    }

    /// Adds a listener for [warnings](Warning), such as that the job can never continue, with the
    /// reason, or that a node runs another build. Runs in the coordinator or, if the problem is one
    /// of a single node or PE, on a thread of that node; it must not block. Stalls are
    /// detected only if there is a listener or the job [fails on them](Self::fail_on_stall); in
    /// virtual time a job that stalls has failed.
    pub fn on_warning(mut self, tell: impl Fn(&Warning) + Send + Sync + 'static) -> Self {
        self.watch.on_warning.push(Arc::new(tell));
        self
    }

    /// Adds a listener for answers to [requests](crate::driver::NodeHandle::diagnose) to find out
    /// why the job is slow or does not go on, each with the number of the request. Runs in the
    /// coordinator; it must not block.
    pub fn on_diagnosis(mut self, tell: impl Fn(u64, &Diagnosis) + Send + Sync + 'static) -> Self {
        self.watch.on_diagnosis.push(Arc::new(tell));
        self
    }

    /// Adds a listener for rebalances, called for each with the snapshot and the plan that is
    /// carried out. Runs in the coordinator; it must not block for long.
    pub fn on_snapshot(mut self, tell: impl Fn(&Snapshot, &Plan) + Send + Sync + 'static) -> Self {
        self.balancing.on_snapshot.push(Arc::new(tell));
        self
    }

    /// Adds a listener for the reports of rebalances: called for each once no move is needed, the
    /// effect of the moves is known, or the job ends. Runs in the coordinator; it must not block.
    pub fn on_balance(mut self, tell: impl Fn(&BalanceReport) + Send + Sync + 'static) -> Self {
        self.balancing.on_balance.push(Arc::new(tell));
        self
    }

    /// Adds a listener for checkpoints, called for each once all of its parts, and their copies,
    /// are kept. Runs in the coordinator; it must not block.
    ///
    /// ```
    /// use gridspan::prelude::*;
    /// use gridspan::{CheckpointEvery, Checkpoints};
    /// use std::sync::mpsc;
    ///
    /// let (tell, complete) = mpsc::channel();
    /// let job = Job::new("saved")
    ///     .checkpoints(Checkpoints::every(CheckpointEvery::Points(1)))
    ///     .on_checkpoint(move |report| tell.send(report.number).unwrap_or_default())
    ///     .restartable_main(async |grid: Grid| {
    ///         grid.progress(&1).await?;
    ///         grid.sleep(Duration::from_millis(50)).await?;
    ///         Ok(())
    ///     });
    /// gridspan::embed::Runner::on_threads(2).run(job).unwrap();
    /// assert_eq!(complete.recv(), Ok(1));
    /// ```
    pub fn on_checkpoint(
        mut self,
        tell: impl Fn(&CheckpointReport) + Send + Sync + 'static,
    ) -> Self {
        self.watch.on_checkpoint.push(Arc::new(tell));
        self
    }

    /// Adds a listener that is called once nodes have copied all those parts to others that too few
    /// nodes had when the job went on from a checkpoint, after a loss or a change of its nodes. It is
    /// not called if no part lacks a copy, if a copy cannot be kept, or if the next checkpoint is
    /// captured before. Runs in the coordinator; it must not block.
    pub fn on_copies_remade(
        mut self,
        tell: impl Fn(&CopiesRemade) + Send + Sync + 'static,
    ) -> Self {
        self.watch.on_copies_remade.push(Arc::new(tell));
        self
    }

    /// Adds a listener for large broadcasts and multicasts between nodes, called for each once all
    /// of its nodes have it, with the trees that it took. Messages of less than 30 kB are left out,
    /// and so are multicasts from a node without the coordinator. Runs in the coordinator; it must
    /// not block.
    pub fn on_broadcast(mut self, tell: impl Fn(&BroadcastReport) + Send + Sync + 'static) -> Self {
        self.watch.on_broadcast.push(Arc::new(tell));
        self
    }

    /// Adds a listener for [`Grid::report_progress`](crate::Grid::report_progress), called with its
    /// arguments on the node of main. It must not block.
    pub fn on_progress(mut self, tell: impl Fn(u64, u64) + Send + Sync + 'static) -> Self {
        self.watch.on_progress.push(Arc::new(tell));
        self
    }

    pub(crate) fn listens_to_failure(&self) -> &[OnFailure] {
        &self.on_failure
    }
}
