//! The loss of nodes, after which the job goes back to a checkpoint without them, or ends.

use super::super::event::{Blame, Command};
use super::{Phase, STOP_PATIENCE, Step, Supervisor};
use gridspan_topology::{NodeId, Time};
use std::collections::BTreeSet;

impl Supervisor {
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
        // Its host may be lost, too.
        node.is_given_up |= is_replacing;
        let name = node.name.clone();
        if node.exit.is_none() {
            self.commands.push_back(Command::Kill(id));
        }
        let is_new = !self.is_recovering();
        self.changes.begin_again(now);
        let left = self.left();
        let others = match left.len() {
            0 => "no node is left".to_owned(),
            1 => "1 node is left".to_owned(),
            number => format!("{number} nodes are left"),
        };
        let text = format!("lost {name}: {reason}; {others}");
        self.commands.push_back(Command::TellRecovery(text));
        for &member in &left {
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
        if left.is_empty() {
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
        let Some(last) = nodes.last() else { return Err("no node is named".to_owned()) };
        let name = |node: &NodeId| self.nodes[node.index()].name.clone();
        let others = nodes.iter().filter(|node| *node != last).map(name).collect::<Vec<String>>();
        let (names, are) = match &others[..] {
            [] => (name(last), "is"),
            others => (format!("{} and {}", others.join(", "), name(last)), "are"),
        };
        let text = format!("`gridctl kill` kills {names}");
        self.commands.push_back(Command::TellRecovery(text));
        self.commands.extend(nodes.iter().map(|node| Command::Kill(*node)));
        Ok(format!("{names} {are} killed"))
    }

    /// Goes on without a node that could not join, unless the job is ending.
    pub(super) fn lose_new(&mut self, node: NodeId, reason: &str, now: Time) {
        if matches!(self.phase, Phase::Ending { .. } | Phase::GivenUp) {
            return;
        }
        self.nodes[node.index()].is_given_up = true;
        self.lose(node, reason, now);
    }

    /// Handles the refusal of a task, whose `srun` has no task yet for these nodes. Ends the job if
    /// it needs one of them; goes on without those that were to join.
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

    /// Goes on without a node that did not act in time, or ends the job if a loss ends it.
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
