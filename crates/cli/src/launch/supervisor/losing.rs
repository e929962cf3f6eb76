//! The loss of nodes, after which the job goes on without them at once, or goes back to a
//! checkpoint, or ends.

use super::super::change::Stage;
use super::super::event::{Blame, Command, Exit};
use super::judging::ended;
use super::loss_reports::{LossReport, RunMembers};
use super::{Phase, STOP_PATIENCE, Step, Supervisor};
use crate::names::abbreviated;
use gridspan_runtime::ToleratedLoss;
use gridspan_runtime::net::bootstrap::LossNotice;
use gridspan_topology::{NodeId, Time};
use std::collections::BTreeSet;
use std::time::Duration;

/// Time in which the job decides whether it goes on without a lost node: twice as long as its
/// coordinator waits for the answers of the other nodes.
const DECISION_PATIENCE: Duration = Duration::from_secs(20);

impl Supervisor {
    /// Handles the end of a member's process. If the job may go on without the node, lets the job
    /// decide; otherwise begins the recovery.
    pub(super) fn lose_member(&mut self, id: NodeId, reason: &str, now: Time) {
        if self.doubts.contains_key(&id) {
            return;
        }
        let main = self.members().first().copied();
        let is_up = |node: &NodeId| {
            let node = &self.nodes[node.index()];
            !node.is_left && node.exit.is_none()
        };
        let may_go_on = self.repeats_tasks
            && matches!(self.phase, Phase::Running)
            && self.changes.stage == Stage::None
            && !self.nodes[id.index()].is_left;
        match (main.filter(is_up).filter(|_| may_go_on), self.number_in_run(id)) {
            (Some(main), Some(node)) => {
                let notice = LossNotice { node, reason: reason.to_owned() };
                self.commands.push_back(Command::TellLost(main, notice));
                self.doubts.insert(id, (reason.to_owned(), now + DECISION_PATIENCE));
            }
            _ => self.lose(id, reason, now),
        }
    }

    /// Goes on without a node, because the job does. Returns whether the node had been a remaining
    /// member of a running job.
    pub(super) fn tolerate(&mut self, loss: ToleratedLoss) -> bool {
        let Some(&id) = self.members().get(loss.node.index()) else { return false };
        let doubt = self.doubts.remove(&id);
        let node = &mut self.nodes[id.index()];
        if node.is_left || !matches!(self.phase, Phase::Running) {
            return false;
        }
        node.is_left = true;
        self.loss_reports.drop_of(id);
        self.diagnosing.leave_out(id);
        let node = &self.nodes[id.index()];
        let (name, has_ended) = (node.name.clone(), node.exit.is_some());
        let had_to_leave = node.is_given_up;
        if !has_ended {
            self.commands.push_back(Command::Kill(id));
        }
        self.losses += 1;
        self.lost.push(id);
        self.give_up_samples();
        let reason = doubt.map_or(loss.reason, |(reason, _)| reason);
        let repeat = if self.left().len() == 1 { "repeats" } else { "repeat" };
        // A node that had to leave may have given back its tasks before.
        let tasks = if had_to_leave { "the tasks that it has not given back" } else { "its tasks" };
        let text = format!("lost {name}: {reason}; {}, and {repeat} {tasks}", self.left_text());
        self.commands.push_back(Command::TellRecovery(text));
        true
    }

    /// Begins the recovery without nodes about which the job has not decided in time.
    pub(super) fn end_doubts(&mut self, now: Time) {
        let late = self.doubts.iter().filter(|(_, (_, until))| *until <= now);
        let late: Vec<(NodeId, String)> =
            late.map(|(&node, (reason, _))| (node, reason.clone())).collect();
        for (node, reason) in late {
            self.doubts.remove(&node);
            if self.may_recover() {
                self.lose(node, &reason, now);
            }
        }
    }

    /// Begins the recovery if the launcher believes a report of lost nodes.
    pub(super) fn believe(&mut self, now: Time) {
        let members = self.members();
        let has_ended = |node: &NodeId| self.nodes[node.index()].exit.is_some();
        let ended = members.iter().copied().filter(has_ended).collect();
        let known = RunMembers { left: self.left().into_iter().collect(), members, ended };
        if let Some(LossReport { lost, reason }) = self.loss_reports.take_believed(&known) {
            self.lose_all(&Vec::from_iter(lost), &reason, now);
        }
    }

    /// Begins the recovery if no other node has contradicted a report of lost nodes in time.
    pub(super) fn believe_late(&mut self, now: Time) {
        if let Some(LossReport { lost, reason }) = self.loss_reports.take_late(now)
            && matches!(self.phase, Phase::Running)
            && self.may_recover()
        {
            self.lose_all(&Vec::from_iter(lost), &reason, now);
        }
    }

    /// Begins the recovery without nodes that the job needs. The job may have gone on without them
    /// until now.
    pub(super) fn lose_all(&mut self, lost: &[NodeId], reason: &str, now: Time) {
        let is_left = |node: &&NodeId| self.nodes.get(node.index()).is_some_and(|it| it.is_left);
        let (known, new): (Vec<&NodeId>, Vec<&NodeId>) = lost.iter().partition(is_left);
        if new.is_empty() && !known.is_empty() {
            let names = known.iter().map(|node| self.nodes[node.index()].name.as_str());
            if let Some(recovery) = &mut self.recovery {
                let reason = "the job cannot go on without it";
                names.clone().for_each(|name| recovery.summary.lost(name, reason, false));
            }
            let names = abbreviated(names);
            let text = format!("the job cannot go on without {names}; {}", self.left_text());
            self.commands.push_back(Command::TellRecovery(text));
            self.give_up_samples();
            self.stop_left(true, now);
        }
        for &node in new {
            let known = self.doubts.remove(&node).map(|(reason, _)| reason);
            self.lose(node, known.as_deref().unwrap_or(reason), now);
        }
    }

    /// Says how many nodes are left.
    fn left_text(&self) -> String {
        match self.left().len() {
            0 => "no node is left".to_owned(),
            1 => "1 node is left".to_owned(),
            number => format!("{number} nodes are left"),
        }
    }

    /// Stops the nodes that are left, which then report the parts of checkpoints that they have.
    /// `is_new`: whether no recovery is under way.
    fn stop_left(&mut self, is_new: bool, now: Time) {
        self.changes.begin_again(now);
        self.loss_reports.clear();
        for member in self.left() {
            self.nodes[member.index()].address = None;
            self.commands.push_back(Command::Recover(member));
        }
        if let Some(recovery) = &mut self.recovery {
            recovery.holdings.clear();
            if is_new {
                recovery.began = now;
            }
        }
        self.phase = Phase::Recovering { until: now + STOP_PATIENCE };
        // The processes of these nodes have ended, so no answer will come from them. `lose` calls
        // this method again, which then finds no doubts.
        for (node, (reason, _)) in std::mem::take(&mut self.doubts) {
            self.lose(node, &reason, now);
        }
    }

    /// Goes on without a node, and begins the recovery, or begins it again.
    pub(super) fn lose(&mut self, id: NodeId, reason: &str, now: Time) {
        let is_replacing = self.recovery.as_ref().is_some_and(|it| it.replacing.contains(&id));
        let node = &mut self.nodes[id.index()];
        if std::mem::replace(&mut node.is_left, true) {
            return;
        }
        self.losses += 1;
        self.lost.push(id);
        self.give_up_samples();
        let node = &mut self.nodes[id.index()];
        // A node that is lost while it replaces a lost one is not started again: its host may be
        // lost, too.
        node.is_given_up |= is_replacing;
        let name = node.name.clone();
        // A launcher that has taken over the job may see the exit long after it.
        let is_exit_seen = self.run > 0
            && matches!(node.exit, Some((exit @ (Exit::Code(_) | Exit::Signal(_)), _))
                if ended(exit) == reason);
        if node.exit.is_none() {
            self.commands.push_back(Command::Kill(id));
        }
        if let Some(recovery) = &mut self.recovery {
            recovery.summary.lost(&name, reason, is_exit_seen);
        }
        let is_new = !self.is_recovering();
        let text = format!("lost {name}: {reason}; {}", self.left_text());
        self.commands.push_back(Command::TellRecovery(text));
        self.stop_left(is_new, now);
        if self.left().is_empty() && !matches!(self.phase, Phase::Ending { .. }) {
            self.give_up_recovery(id, "no node is left", now);
        }
    }

    /// Kills members at the user's request, which counts as their loss once their processes have
    /// ended. Returns what was done.
    ///
    /// # Errors
    ///
    /// Why no node is killed.
    pub(super) fn kill_members(&mut self, nodes: &BTreeSet<NodeId>) -> Result<String, String> {
        if self.recovery.is_none() {
            let reason = "all nodes of this job are one process; `gridctl kill` without --node \
                          kills it";
            return Err(reason.to_owned());
        }
        match self.phase {
            Phase::Running | Phase::Recovering { .. } if !self.is_done_or_failed() => {}
            Phase::Starting { .. } => return Err("it is starting; try again".to_owned()),
            _ => return Err("the job is ending".to_owned()),
        }
        let left = self.left();
        if let Some(other) = nodes.iter().find(|node| !left.contains(node)) {
            let name = self.nodes.get(other.index()).map_or("a node", |node| &node.name);
            return Err(format!("{name} is no member of the job"));
        }
        if nodes.is_empty() {
            return Err("no node is named".to_owned());
        }
        let (unreached, reached): (Vec<NodeId>, Vec<NodeId>) =
            nodes.iter().partition(|node| self.unreached.contains(*node));
        let are = |nodes: &[NodeId]| if nodes.len() == 1 { "is" } else { "are" };
        let mut texts = Vec::new();
        if !reached.is_empty() {
            let names = self.names(&reached);
            texts.push(format!("{names} {} killed", are(&reached)));
            let text = format!("`gridctl kill` kills {names}");
            self.commands.push_back(Command::TellRecovery(text));
        }
        if !unreached.is_empty() {
            let (names, are) = (self.names(&unreached), are(&unreached));
            texts.push(format!(
                "{names} cannot be reached, {are} given up, and will be killed when the launcher \
                 reaches the host"
            ));
            let text = format!("`gridctl kill` gives up {names}, which cannot be reached");
            self.commands.push_back(Command::TellRecovery(text));
        }
        self.commands.extend(nodes.iter().map(|node| Command::Kill(*node)));
        Ok(texts.join("; "))
    }

    /// The names of some nodes, for people.
    fn names(&self, nodes: &[NodeId]) -> String {
        abbreviated(nodes.iter().map(|node| self.nodes[node.index()].name.as_str()))
    }

    /// Goes on without a node that could not join, unless the job is ending.
    pub(super) fn lose_new(&mut self, node: NodeId, reason: &str, now: Time) {
        if matches!(self.phase, Phase::Ending { .. } | Phase::GivenUp) {
            return;
        }
        self.nodes[node.index()].is_given_up = true;
        self.lose(node, reason, now);
    }

    /// Handles the refusal of a task. `nodes`: those of its `srun` whose tasks have not enrolled.
    /// Ends the job if it needs one of them; goes on without those that were to join.
    pub(super) fn task_refused(&mut self, mut nodes: Vec<NodeId>, reason: &str, now: Time) {
        let left = self.left();
        nodes.retain(|node| left.contains(node));
        let needed = nodes.iter().copied().find(|&node| !self.is_new(node));
        if let Some(node) = needed {
            let blame = Blame { node, message: reason.to_owned(), hint: None };
            return self.blame(false, 1, blame, now);
        }
        nodes.into_iter().for_each(|node| self.lose_new(node, reason, now));
    }

    /// Goes on without a node that did not act in time, or ends the job if it does not recover from
    /// losses.
    pub(super) fn lose_in_recovery(&mut self, node: NodeId, reason: &str, now: Time) {
        let ends = self.recovery.as_ref().is_none_or(|it| !it.on_loss.recovers());
        if self.is_new(node) {
            self.lose_new(node, reason, now);
        } else if ends {
            self.give_up_recovery(node, reason, now);
        } else {
            self.lose(node, reason, now);
        }
    }

    /// Ends the job, which cannot go on without the lost node.
    pub(super) fn give_up_recovery(&mut self, lost: NodeId, reason: &str, now: Time) {
        let name = &self.nodes[lost.index()].name;
        let message = format!("the job cannot go on without {name}: {reason}");
        // A job that cannot go back to a checkpoint in memory may have one in its folder.
        let hint = "`gridctl run --restart DIR` goes on from the last checkpoint in the folder DIR";
        let hint = self.has_folder.then(|| hint.to_owned());
        let blame = Blame { node: lost, message, hint };
        self.blame(false, 1, blame, now);
        self.phase = Phase::Ending { next: Step::Ask, at: now };
    }
}
