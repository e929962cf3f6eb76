//! A handle to a node that runs in this process.

use super::switch::Switch;
use crate::address::id::MAIN_PE;
use crate::coordinator::CoordinatorEvent;
use crate::error::JobError;
#[cfg(feature = "net")]
use crate::error::LossCause;
use crate::message::telemetry::{TelemetryLease, TelemetrySample};
#[cfg(feature = "net")]
use crate::net::bootstrap::PauseOrder;
use gridspan_topology::NodeId;
#[cfg(feature = "net")]
use gridspan_topology::PeId;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Cancels the job of a node in this process, or makes the node leave it, from any thread. Does
/// nothing once the node has ended.
#[derive(Clone)]
pub struct NodeHandle {
    switch: Weak<Switch>,
    /// The other nodes of the job that run in this process.
    others: Arc<[Weak<Switch>]>,
}

impl NodeHandle {
    /// The handle to the only node of the job in this process.
    pub(super) fn new(switch: &Arc<Switch>) -> Self {
        Self { switch: Arc::downgrade(switch), others: Arc::default() }
    }

    /// The handle to the node of main, in a process that also runs the other nodes of the job.
    #[cfg(feature = "net")]
    pub(super) fn of_all<'a>(
        switch: &Arc<Switch>,
        others: impl Iterator<Item = &'a Arc<Switch>>,
    ) -> Self {
        Self { switch: Arc::downgrade(switch), others: others.map(Arc::downgrade).collect() }
    }

    /// Ends the job with [`JobError::Cancelled`]. Handlers that run are not interrupted. Does
    /// nothing on nodes other than that of main.
    pub fn cancel(&self) {
        let Some(switch) = self.switch.upgrade() else { return };
        if switch.layout.node_of(MAIN_PE) != switch.node {
            return;
        }
        let fail = |core: &mut crate::pe::Core| core.fail(JobError::Cancelled);
        switch.inbox(MAIN_PE).push_action(Box::new(fail));
        // All other PEs end even if main's PE is inside a handler.
        switch.tell_coordinator(CoordinatorEvent::Failed(JobError::Cancelled));
    }

    /// Makes the coordinator, if it runs on this node, find out within two seconds why the job is
    /// slow or does not go on, and report it to [listeners](crate::Job::on_diagnosis) with the
    /// number of this request. Also makes all nodes of this process tell the coordinator which
    /// handlers their PEs are inside, so call this in all processes of the job. Returns the other
    /// nodes that this one suspects because they are silent, each with the time since the
    /// suspicion. Does not wait.
    pub fn diagnose(&self, request: u64) -> Vec<(NodeId, Duration)> {
        let Some(switch) = self.switch.upgrade() else { return Vec::new() };
        let others = self.others.iter().filter_map(Weak::upgrade);
        others.for_each(|other| other.diagnose(request));
        switch.diagnose(request);
        switch.silences()
    }

    /// Makes all nodes of the job send samples of their counters to this one for some time, and
    /// returns the latest sample of the job; `None` while there is none. Call it once in each
    /// period while the job is watched. Returns `None` on nodes other than that of main. A job of
    /// one node without a network takes its samples in these calls: if a call returns `None` or the
    /// sample of the call before, call again soon to take the sample that is due. Does not wait.
    pub fn sample(&self, lease: TelemetryLease) -> Option<TelemetrySample> {
        let switch = self.switch.upgrade()?;
        if switch.layout.node_of(MAIN_PE) != switch.node {
            return None;
        }
        switch.sample(lease)
    }

    /// Ends the run of this node, because the job goes on from a checkpoint without nodes that are
    /// lost. Handlers that run are not interrupted.
    #[cfg(feature = "net")]
    pub fn stop_to_recover(&self) {
        let Some(switch) = self.switch.upgrade() else { return };
        switch.abandon_network();
        for pe in switch.layout.place(switch.node).pes.clone().map(PeId) {
            let stop = |core: &mut crate::pe::Core| core.handle_stop(Err(JobError::Recovering));
            switch.inbox(pe).push_action(Box::new(stop));
        }
        if switch.layout.node_of(MAIN_PE) == switch.node {
            switch.ending.declare();
        }
    }

    /// Stops the job after a checkpoint at main's next progress point, and keeps it stopped, so
    /// that it can continue in another run on other nodes, or end. The
    /// [keeper](super::CheckpointKeeper::on_pause) of each node reports when it has stopped. If the
    /// job cannot continue on other nodes, calls `refuse` with the reason. Does nothing on nodes
    /// other than that of main.
    #[cfg(feature = "net")]
    pub fn pause(&self, order: PauseOrder, refuse: impl FnOnce(String) + Send + 'static) {
        let switch = self.switch.upgrade();
        if let Some(switch) = switch.filter(|it| it.layout.node_of(MAIN_PE) == it.node) {
            let pause = move |core: &mut crate::pe::Core| {
                if let Err(reason) = core.pause(order.leaving, order.is_end) {
                    refuse(reason);
                }
            };
            switch.inbox(MAIN_PE).push_action(Box::new(pause));
        }
    }

    /// Reports that another node is lost, because its process has ended. A job that
    /// [recovers tasks locally](crate::Job::recover_tasks_locally) then decides whether to go on
    /// without the node. Any other job ends if the lost node runs the coordinator, and otherwise
    /// waits until its nodes notice the loss themselves. Does not wait.
    #[cfg(feature = "net")]
    pub fn report_lost(&self, node: NodeId, reason: String) {
        let Some(switch) = self.switch.upgrade() else { return };
        let layout = &switch.layout;
        if node == switch.node || layout.is_guest(node) {
            return;
        }
        let site = layout.site_name(layout.site_of_node(node)).to_owned();
        let (cause, others) = (LossCause::Ended, Vec::new());
        let error = JobError::NodeLost { node, site, cause, reason, others };
        switch.tell_coordinator(CoordinatorEvent::NodeLost(node, error));
    }

    /// Makes the node hand back its tasks and leave. Does nothing if the node is not a guest.
    #[cfg(feature = "net")]
    pub fn leave(&self) {
        let switch = self.switch.upgrade();
        if let Some(switch) = switch.filter(|switch| switch.layout.is_guest(switch.node)) {
            let leader = switch.layout.leader(switch.node);
            switch.inbox(leader).push_action(Box::new(crate::pe::Core::leave));
        }
    }
}
