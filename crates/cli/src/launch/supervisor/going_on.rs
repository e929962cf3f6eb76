//! How a job goes on after a loss or a change of its nodes.

use super::super::change::Stage;
use super::super::event::Command;
use super::super::recovery::GoOn;
use super::{Node, OnLoss, Phase, Recovery, STREAMS, Supervisor};
use crate::names::abbreviated;
use crate::quantity;
use crate::roster::Roster;
use gridspan::control::Holdings;
use gridspan_topology::{NodeId, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The run that begins.
struct Next {
    /// The members of the previous run, and of the next one.
    before: Vec<NodeId>,
    members: Vec<NodeId>,
    /// Members of the previous run that were lost.
    lost: Vec<NodeId>,
    /// For each lost node that is replaced, the node that starts in its place.
    replacing: BTreeMap<NodeId, NodeId>,
    go_on: GoOn,
}

impl Supervisor {
    pub(super) fn note_holdings(&mut self, node: NodeId, holdings: Holdings) {
        let is_awaited = self.left().contains(&node);
        if let (Phase::Recovering { .. }, Some(recovery)) = (&self.phase, &mut self.recovery)
            && is_awaited
        {
            recovery.holdings.insert(node, holdings);
        }
    }

    /// Lets the job go on once all nodes that remain have stopped, and those to be replaced have
    /// ended.
    pub(super) fn go_on(&mut self, now: Time) {
        if !matches!(self.phase, Phase::Recovering { .. }) {
            return;
        }
        let before = self.members();
        let is_lost = |node: &NodeId| self.nodes[node.index()].is_left;
        let (lost, left): (Vec<NodeId>, Vec<NodeId>) = before.iter().copied().partition(is_lost);
        let Some(recovery) = self.recovery.as_ref().filter(|it| self.can_go_on(it, &left, &lost))
        else {
            return;
        };
        let replacing = match recovery.on_loss == OnLoss::Replace {
            true => replacements(recovery.runs.roster(), &self.nodes, &lost),
            false => BTreeMap::new(),
        };
        let stay: BTreeSet<NodeId> = left.into_iter().chain(replacing.values().copied()).collect();
        match self.begin_run(stay, now) {
            Err(reason) => {
                let lost = lost.first().copied().unwrap_or(NodeId(0));
                self.give_up_recovery(lost, &reason, now);
            }
            Ok((go_on, members)) => {
                self.begin(Next { before, members, lost, replacing, go_on }, now);
            }
        }
    }

    /// Whether all nodes that are left have stopped, and the lost ones have ended if others replace
    /// them.
    fn can_go_on(&self, recovery: &Recovery, left: &[NodeId], lost: &[NodeId]) -> bool {
        let has_stopped = |node: &NodeId| recovery.holdings.contains_key(node);
        let is_over = |node: &NodeId| self.nodes[node.index()].is_over;
        left.iter().all(has_stopped)
            && (recovery.on_loss != OnLoss::Replace || lost.iter().all(is_over))
    }

    /// Begins another run with the nodes that stay, and with the requested change of nodes if the
    /// job has stopped for one. Returns how it goes on, and its members.
    fn begin_run(
        &mut self,
        stay: BTreeSet<NodeId>,
        now: Time,
    ) -> Result<(GoOn, Vec<NodeId>), String> {
        if self.changes.stage == Stage::Paused {
            self.refuse_outnumbering();
        }
        let Some(recovery) = &mut self.recovery else {
            return Err("it cannot go on after a loss".to_owned());
        };
        let stay = recovery.runs.roster().in_order(stay.into_iter().collect());
        if self.changes.stage == Stage::Paused {
            let next = recovery.runs.roster().in_order(self.changes.applied_to(&stay));
            if let Ok(go_on) = recovery.runs.begin(next.clone(), &recovery.holdings) {
                return Ok((go_on, next));
            }
            // After a loss, nodes that leave may have the checkpoint data that others need.
            self.changes.postpone(now);
        }
        let go_on = recovery.runs.begin(stay.clone(), &recovery.holdings)?;
        Ok((go_on, stay))
    }

    /// Begins the next run.
    fn begin(&mut self, next: Next, now: Time) {
        let Next { before, members, lost, replacing, go_on } = next;
        // These reports are about the previous run.
        self.loss_reports.clear();
        if let Some(recovery) = &mut self.recovery {
            recovery.replacing = replacing.values().copied().collect();
        }
        for (lost, other) in replacing.iter().filter(|(lost, other)| lost != other) {
            let text = format!("{} takes the place of {}", self.name(*other), self.name(*lost));
            self.commands.push_back(Command::TellRecovery(text));
        }
        for node in &mut self.nodes {
            node.address = None;
        }
        for node in members.iter().filter(|node| lost.contains(node) || !before.contains(node)) {
            self.nodes[node.index()].start_again();
        }
        for node in before.iter().filter(|node| !members.contains(node) && !lost.contains(node)) {
            let left = &mut self.nodes[node.index()];
            (left.is_left, left.ends_until) = (true, Some(now + self.patience.grace));
            self.commands.push_back(Command::Leave(*node));
        }
        self.phase = Phase::Starting { until: now + self.start_patience() };
        if self.changes.stage == Stage::Paused {
            self.changes.stage = Stage::GoesOn;
        } else {
            let repeated = self.repeated(&go_on);
            if let Some(recovery) = &mut self.recovery {
                recovery.summary.goes_back(go_on.checkpoint, repeated);
                let lost = recovery.began;
                self.repeating.goes_back(go_on.checkpoint, lost, go_on.lacks_copies);
            }
            let text = return_text(&go_on, repeated);
            self.commands.push_back(Command::TellRecovery(text));
        }
        self.commands.push_back(Command::GoOn(members, go_on.order));
    }

    /// The duration of the work that the job repeats after a loss, if it is known.
    fn repeated(&self, go_on: &GoOn) -> Option<Duration> {
        let lost = self.recovery.as_ref()?.began;
        self.repeating.repeated(go_on.checkpoint, lost)
    }
}

/// Describes for the user how the job goes on after a loss, and the duration of the work that it
/// repeats.
fn return_text(go_on: &GoOn, repeated: Option<Duration>) -> String {
    let mut text = match go_on.checkpoint {
        0 => "the job begins again, since it had made no checkpoint".to_owned(),
        number => format!("going back to checkpoint {number}"),
    };
    if let Some(repeated) = repeated {
        text += &format!("; this repeats {}", quantity::time(repeated));
    }
    if !go_on.read.is_empty() {
        let (parts, are) = match go_on.read.len() {
            1 => ("part", "is"),
            _ => ("parts", "are"),
        };
        let names = abbreviated(go_on.read.iter().map(String::as_str));
        text += &format!("; the {parts} of {names} {are} read from the folder or object store");
    }
    text
}

impl Node {
    /// Prepares for another process of the node.
    fn start_again(&mut self) {
        self.is_spare = false;
        // A child of the previous process may still hold its output streams open. The ends of these
        // streams come late. The count includes them, so that they are not taken for the ends of
        // the new process's streams.
        let still_open = if self.exit.is_some() { self.open_streams } else { 0 };
        self.open_streams = STREAMS.saturating_add(still_open);
        (self.exit, self.address) = (None, None);
        (self.is_left, self.is_over, self.is_lost) = (false, false, false);
        (self.is_asked, self.was_asked, self.has_reported) = (false, false, false);
        (self.is_given_up, self.ends_until) = (false, None);
    }
}

/// Returns, for each lost node, the node that starts in its place: the same node, or a spare one if
/// that is given up, from the same site if possible. A lost node has no entry if no spare node is
/// left.
fn replacements(roster: &Roster, nodes: &[Node], lost: &[NodeId]) -> BTreeMap<NodeId, NodeId> {
    let (again, given_up): (Vec<NodeId>, Vec<NodeId>) =
        lost.iter().partition(|node| !nodes[node.index()].is_given_up);
    let mut replacing: BTreeMap<_, _> = again.into_iter().map(|node| (node, node)).collect();
    let mut spares: Vec<NodeId> =
        roster.nodes().filter(|node| nodes[node.index()].is_spare).collect();
    for node in given_up {
        let site = roster.site(node);
        let of_site = spares.iter().position(|&spare| roster.site(spare) == site);
        if let Some(position) = of_site.or((!spares.is_empty()).then_some(0)) {
            replacing.insert(node, spares.remove(position));
        }
    }
    replacing
}
