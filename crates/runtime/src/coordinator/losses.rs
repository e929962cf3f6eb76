//! The decision whether the job goes on without a lost founder, whose tasks others repeat.
//!
//! Every node takes part in most operations: broadcasts and reductions go along trees of all nodes,
//! and rounds of all PEs find quiescence and make checkpoints. So a loss is tolerated only in a job
//! that has nothing but pools of tasks. Pools exchange tasks and outputs between pairs of
//! nodes, and lenders repeat what a lost node owes (`tasks/backups.rs`).
//!
//! **Start.** A node that notices the loss of a founder reports it here. [`Coordinator::need_of`]
//! checks whether the coordinator knows of a need for that founder. If it does, the job ends with
//! the error of the loss, and a launcher lets the job go back to a checkpoint.
//!
//! **Suspended.** Otherwise the coordinator orders all other founders to drop messages from the
//! agents of the lost one, and asks whether they know of a need (`pe/membership`). Nodes that are
//! lost meanwhile are suspended too, and the coordinator decides about all of them together.
//!
//! **Tolerated.** Then all nodes repeat the tasks that the lost one owes, and drop its messages.
//! Values of a bound that it has spread stay known: tasks that run again find an equal value again
//! (`tasks/bound.rs`).
//!
//! **Before a loss.** A founder that is about to leave counts as lost if main reaches no progress
//! point in time. If nothing that lasts makes the job need the founder, it rests until then: it
//! gives its tasks back, so that its loss repeats little. Otherwise it goes on working.
//!
//! **Failure.** If a node needs the lost one, or does not answer within [`ANSWERS_MAX`] of a loss,
//! or main requests something that takes all nodes, or the job stalls, the job ends with the error
//! of the loss. A node also needs the lost one if its log of loans has dropped tasks that the lost
//! one has borrowed (`pe/membership/loan_log.rs`). A warning says so.

use super::machine::Coordinator;
use super::state::collections::CollectionState;
use super::state::losses::Suspended;
use super::state::timers::Timer;
use crate::address::id::MAIN_PE;
use crate::error::{JobError, Warning};
use crate::message::{Control, MainRequest, MembershipEvent, MembershipMessage, Need, Stage};
use crate::pe::{ToleratedLoss, has_half_left};
use gridspan_topology::NodeId;
use std::collections::BTreeSet;
use std::time::Duration;

/// Time within which all nodes must have answered: a PE answers between two tasks.
const ANSWERS_MAX: Duration = Duration::from_secs(10);

impl Coordinator {
    /// Handles the loss of a founder: ends the job, or lets it go on without the founder.
    pub(super) fn lose_founder(&mut self, node: NodeId, error: &JobError) {
        let is_known = self.common.layout.is_guest(node) || self.losses.contains(node);
        if is_known || self.outcome.is_some() {
            return;
        }
        match self.need_of(node) {
            Some(need) => {
                tracing::info!(%node, need, "the job needs the lost node");
                self.end_for_loss(error.clone());
            }
            None => self.suspend(node, error.clone()),
        }
    }

    /// Why the job cannot go on without a founder, as far as the coordinator knows.
    fn need_of(&self, node: NodeId) -> Option<&'static str> {
        let is_busy = |state: &CollectionState| {
            state.creating > 0
                || state.inserting > 0
                || !state.waiting.is_empty()
                || !state.sections.is_empty()
                || state.for_main.values().any(|it| !it.results.is_empty())
        };
        let needs = [
            (self.members.pools.is_empty(), "no pool of tasks is open"),
            (self.collections.values().any(is_busy), "a collection is in use beyond its tasks"),
            (self.is_any_under_way(), "an operation of all nodes is under way"),
        ];
        let now = needs.into_iter().find(|(is_needed, _)| *is_needed).map(|(_, need)| need);
        self.lasting_need_of(node, 1).or(now)
    }

    /// Why the job cannot go on without a founder, and `lost - 1` others, at any time.
    fn lasting_need_of(&self, node: NodeId, lost: usize) -> Option<&'static str> {
        let layout = &self.common.layout;
        let founders = layout.node_count() as usize;
        let lost = self.losses.all().count() + lost;
        let is_pool =
            |state: &CollectionState| self.common.task_names.contains_key(&state.info.kind);
        let needs = [
            (!self.common.recovers_tasks, "the job does not recover tasks locally"),
            (node == self.node, "the coordinator runs there"),
            (node == layout.node_of(MAIN_PE), "main runs there"),
            (!has_half_left(founders, lost), "fewer than half of the nodes are left"),
            (!self.members.guests.is_empty(), "guests have joined"),
            (!self.collections.values().all(is_pool), "the job has more than pools"),
        ];
        needs.into_iter().find(|(is_needed, _)| *is_needed).map(|(_, need)| need)
    }

    /// Lets those of these founders rest that the job does not need. They are about to leave.
    pub(super) fn let_rest(&mut self, nodes: &[NodeId]) {
        let layout = self.common.layout.clone();
        let left: Vec<NodeId> =
            layout.nodes().filter(|&node| !self.losses.contains(node)).collect();
        for &node in nodes.iter().filter(|node| left.contains(node)) {
            if let Some(need) = self.lasting_need_of(node, nodes.len()) {
                tracing::info!(%node, need, "a node works until it leaves, since the job needs it");
                continue;
            }
            tracing::info!(%node, "a node is about to leave, and gives its tasks back");
            for &other in &left {
                let event = MembershipEvent { node, stage: Stage::Draining };
                let reached = MembershipMessage::Reached(event);
                self.post(layout.leader(other), Control::Membership(reached));
            }
        }
    }

    /// Whether an operation is under way that takes all founders.
    fn is_any_under_way(&self) -> bool {
        let checkpoints = &self.checkpoints;
        let is_saving = !checkpoints.may_move()
            || checkpoints.keeping.is_some()
            || checkpoints.restoring.is_some();
        let is_moving = self.departing.is_some() || !self.transfers.is_empty();
        let is_asked = !self.quiescence.waiting.is_empty() || !self.other_waits().is_empty();
        let is_early = self.requests.0.values().any(|order| !order.early.is_empty());
        let is_reducing = self.accumulators.len() > 0;
        // A survey ends only when each node that measures has reported.
        let is_surveying = self.survey.inference.is_some();
        let is_begun = is_saving || is_moving || is_surveying || !self.balances.is_settled();
        is_begun || is_asked || is_early || is_reducing
    }

    /// Asks all other founders whether they know of a need for a lost one.
    fn suspend(&mut self, node: NodeId, error: JobError) {
        for suspended in self.losses.suspended.values_mut() {
            suspended.awaited.remove(&node);
        }
        let layout = self.common.layout.clone();
        let is_there = |other: &NodeId| *other != node && !self.losses.contains(*other);
        let awaited: BTreeSet<NodeId> = layout.nodes().filter(is_there).collect();
        tracing::info!(%node, left = awaited.len(), "a node is lost; asking the others for a need");
        for &other in &awaited {
            let suspend = MembershipMessage::Suspend { node };
            self.post(layout.leader(other), Control::Membership(suspend));
        }
        // The node may still run, and have lost only its connection to this one.
        self.post(layout.leader(node), Control::Stop { outcome: Err(error.clone()) });
        self.losses.suspended.insert(node, Suspended { error, awaited });
        // A round of stall detection that waits for the node would not end.
        self.stall.missing.clear();
        self.stall.previous = None;
        self.run_after(ANSWERS_MAX, Timer::EndSuspension(node));
    }

    /// Notes the answer of a node whether it knows of a need for a lost founder.
    pub(super) fn note_answer(&mut self, from: NodeId, node: NodeId, need: Option<Need>) {
        let Some(suspended) = self.losses.suspended.get_mut(&node) else { return };
        if let Some(need) = need {
            tracing::info!(%node, %from, %need, "the job needs the lost node");
            self.warn_of_loans(from, node, need);
            return self.end_for_need(node);
        }
        suspended.awaited.remove(&from);
        if self.losses.suspended.values().all(|suspended| suspended.awaited.is_empty()) {
            self.tolerate();
        }
    }

    /// Warns that the run ends because `from` has dropped tasks that it has lent to `node`.
    fn warn_of_loans(&self, from: NodeId, node: NodeId, need: Need) {
        if matches!(need, Need::Loans { .. }) && self.outcome.is_none() {
            let layout = &self.common.layout;
            let site = layout.site_name(layout.site_of_node(node)).to_owned();
            let reason = format!("{from} has lent it tasks, and {need}");
            let warning = Warning::LoansNotKept { node, site, reason };
            self.common.watch.on_warning.iter().for_each(|tell| tell(&warning));
        }
    }

    /// Lets the job go on without all suspended founders.
    fn tolerate(&mut self) {
        let layout = self.common.layout.clone();
        let suspended = std::mem::take(&mut self.losses.suspended);
        let new: Vec<(NodeId, JobError)> =
            suspended.into_iter().map(|(node, it)| (node, it.error)).collect();
        self.losses.tolerated.extend(new.iter().cloned());
        // PEs that had nothing to do until now may get tasks of the lost founders.
        self.stall.previous = None;
        let left: Vec<NodeId> =
            layout.nodes().filter(|&node| !self.losses.contains(node)).collect();
        for (node, error) in new {
            for &other in &left {
                let event = MembershipEvent { node, stage: Stage::Lost };
                let reached = MembershipMessage::Reached(event);
                self.post(layout.leader(other), Control::Membership(reached));
            }
            let reason = match error {
                JobError::NodeLost { reason, .. } => reason,
                other => other.to_string(),
            };
            let site = layout.site_name(layout.site_of_node(node)).to_owned();
            let loss = ToleratedLoss { node, site, reason, left: left.len() as u32 };
            self.common.on_tolerated_loss.iter().for_each(|tell| tell(&loss));
        }
    }

    /// Handles the end of the time in which other nodes can answer about `node`. Does nothing if
    /// all have answered: the decision then waits for answers about other lost nodes, each of which
    /// has its own timer.
    pub(super) fn end_suspension(&mut self, node: NodeId) {
        let suspended = self.losses.suspended.get(&node);
        if suspended.is_some_and(|suspended| !suspended.awaited.is_empty()) {
            tracing::info!(%node, "not all nodes have said whether the job needs the lost node");
            self.end_for_need(node);
        }
    }

    /// Ends the job if founders are lost, because it needs all of them. Returns whether it ends.
    pub(super) fn needs_all_founders(&mut self) -> bool {
        let lost = self.losses.all().next();
        lost.into_iter().for_each(|node| self.end_for_need(node));
        lost.is_some()
    }

    /// Ends the job because it needs a lost founder.
    pub(super) fn end_for_need(&mut self, node: NodeId) {
        if let Some(error) = self.losses.error(node).cloned() {
            self.end_for_loss(error);
        }
    }

    /// Whether the coordinator can serve this request of main although founders are lost.
    pub(super) fn can_serve_without_lost(&self, request: &MainRequest) -> bool {
        match request {
            MainRequest::Create { kind, .. } => self.common.task_names.contains_key(kind),
            // A checkpoint is postponed.
            MainRequest::Checkpoint { .. } | MainRequest::KnownLinks => true,
            _ => false,
        }
    }

    /// Number of PEs of the founders that are not lost.
    pub(super) fn pes_left(&self) -> u64 {
        let layout = &self.common.layout;
        let lost: usize = self.losses.all().map(|node| layout.place(node).pes.len()).sum();
        u64::from(layout.pe_count()).saturating_sub(lost as u64)
    }

    /// Ends the job with the loss of a founder. The error names all lost ones.
    fn end_for_loss(&mut self, mut error: JobError) {
        if self.outcome.is_some() {
            return;
        }
        if let JobError::NodeLost { node, others, .. } = &mut error {
            let all: BTreeSet<NodeId> = others.drain(..).chain(self.losses.all()).collect();
            others.extend(all.into_iter().filter(|other| *other != *node));
        }
        self.stop(Err(error.clone()));
        if self.common.recovers_tasks {
            // Listeners learn this at once, although the PEs of this node may be inside tasks.
            self.common.on_failure.iter().for_each(|tell| tell(&error));
        }
    }
}
