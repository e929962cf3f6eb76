//! Nodes that leave and join a running job.

use super::super::change::{Change, Stage, What};
use super::super::event::Command;
use super::{Phase, STOP_PATIENCE, Supervisor};
use crate::request::{Answer, NodeState, Request};
use gridspan::control::Pause;
use gridspan_runtime::net::bootstrap::PauseOrder;
use gridspan_topology::{NodeId, Time};
use signal_hook::consts::SIGTERM;
use std::collections::BTreeSet;

/// Why the nodes of a job cannot change after it has gone on without a lost node.
const REPEATS: &str =
    "it has lost a node, and the others repeat its tasks; its nodes cannot change any more";

impl Supervisor {
    /// Carries out a request of another process, and answers it, at once or later.
    pub(super) fn request(&mut self, id: u64, request: Request, now: Time) {
        let (what, deadline) = match request {
            Request::Nodes => {
                let processes = (0..self.nodes.len()).map(NodeId::from);
                let count = self.nodes_of_process as usize;
                let states = processes.flat_map(|node| vec![self.state_of(node); count]);
                return self.answer(Some(id), Answer::Nodes(states.collect()));
            }
            Request::Diagnose => return self.diagnose(id, now),
            Request::Sample(lease) => return self.begin_sample(id, lease),
            Request::Stop => {
                self.answer(Some(id), Answer::Done("the job is stopping".to_owned()));
                return match self.stops_with_checkpoint(SIGTERM) {
                    true => self.stop(now),
                    false => self.interrupt(SIGTERM, now),
                };
            }
            Request::Kill => {
                self.answer(Some(id), Answer::Done("the job is killed".to_owned()));
                return self.kill(now);
            }
            Request::KillNodes { nodes } => {
                let killed = self.kill_members(&nodes);
                return self.answer(Some(id), killed.map_or_else(Answer::Refused, Answer::Done));
            }
            // The socket of the job answers it.
            Request::Wait => return,
            Request::Drain { nodes, deadline } => (What::Leave(nodes), deadline),
            Request::Add { nodes } => (What::Join(nodes), None),
            Request::AddNew(_) => {
                // The launcher adds them first, and then requests them to join.
                let text = "this job cannot have more nodes".to_owned();
                return self.answer(Some(id), Answer::Refused(text));
            }
        };
        if let Err(reason) = self.check(&what) {
            return self.answer(Some(id), Answer::Refused(reason));
        }
        let until = deadline.map(|deadline| now + deadline);
        self.changes.add(Change { what, request: Some(id), until }, now);
    }

    /// Whether the job can stop, or change its nodes.
    pub(super) fn check_changeable(&self, stops: bool) -> Result<(), String> {
        if self.recovery.is_none() {
            return Err("all nodes of this job are one process; run it with `-n` or \
                        `--driver cluster`, so that nodes can leave and join"
                .to_owned());
        }
        if matches!(self.phase, Phase::Ending { .. } | Phase::GivenUp) || self.is_done_or_failed() {
            return Err("the job is ending".to_owned());
        }
        let is_running = matches!(self.phase, Phase::Running);
        if is_running && self.members().iter().any(|node| self.nodes[node.index()].is_left) {
            return Err(REPEATS.to_owned());
        }
        if self.is_fixed && !stops {
            return Err("guests can join this job, and their loss would end it; with \
                        --tolerate-lost-guests its nodes could change"
                .to_owned());
        }
        Ok(())
    }

    /// Whether a change can be made.
    pub(super) fn check(&self, what: &What) -> Result<(), String> {
        self.check_changeable(*what == What::Stop)?;
        let members = self.members();
        let name = |node: NodeId| self.nodes.get(node.index()).map_or("a node", |it| &it.name);
        match what {
            What::Leave(nodes) | What::Join(nodes) if nodes.is_empty() => {
                return Err("no node is named".to_owned());
            }
            What::Leave(nodes) => {
                if let Some(&leaving) = nodes.iter().find(|node| self.changes.is_leaving(**node)) {
                    return Err(format!("{} is leaving already", name(leaving)));
                }
                if let Some(&other) = nodes.iter().find(|node| !members.contains(node)) {
                    return Err(format!("{} is no member of the job", name(other)));
                }
                let stays =
                    |node: &&NodeId| !nodes.contains(node) && !self.changes.is_leaving(**node);
                if members.iter().find(stays).is_none() {
                    return Err("no node of the job would be left".to_owned());
                }
            }
            What::Join(nodes) => {
                for &node in nodes {
                    let Some(found) = self.nodes.get(node.index()) else {
                        return Err(format!("the grid of the job has no node {node}"));
                    };
                    if members.contains(&node) && !found.is_left || self.changes.is_joining(node) {
                        return Err(format!("{} is a member of the job already", found.name));
                    }
                    // A node that has left joins again once its process has ended.
                    if !found.is_over && found.ends_until.is_none() {
                        return Err(format!("{} has not ended yet; try again", found.name));
                    }
                }
            }
            What::Stop => {}
        }
        Ok(())
    }

    fn state_of(&self, node: NodeId) -> NodeState {
        let is_member = self.members().contains(&node) && !self.nodes[node.index()].is_left;
        match is_member {
            true if self.changes.is_leaving(node) => NodeState::Leaving,
            true => NodeState::Member,
            false if self.changes.is_joining(node) => NodeState::Joining,
            false => NodeState::Absent,
        }
    }

    pub(super) fn answer(&mut self, request: Option<u64>, answer: Answer) {
        self.commands.extend(request.map(|id| Command::Answer(id, answer)));
    }

    /// Lets a node that got SIGTERM leave. A node that was asked to end, or that cannot leave, gets
    /// a second SIGTERM.
    pub(super) fn leave_on_signal(&mut self, node: NodeId, now: Time) {
        if self.nodes[node.index()].is_asked || self.is_fixed || self.check(&What::Stop).is_err() {
            return self.commands.push_back(Command::Ask(node));
        }
        if self.changes.is_leaving(node) || !self.members().contains(&node) {
            return;
        }
        let what = What::Leave(BTreeSet::from([node]));
        let is_last = self.check(&what).is_err();
        let text = format!("{} got SIGTERM and leaves", self.nodes[node.index()].name);
        self.commands.push_back(Command::TellRecovery(text));
        let until = Some(now + self.drain_deadline);
        let what = if is_last { What::Stop } else { what };
        self.changes.add(Change { what, request: None, until }, now);
    }

    /// Whether a signal stops the job with a checkpoint: the first SIGTERM does, if the job can
    /// stop.
    pub(super) fn stops_with_checkpoint(&self, signal: i32) -> bool {
        let may_stop = self.has_folder && self.check(&What::Stop).is_ok();
        signal == SIGTERM
            && may_stop
            && matches!(self.phase, Phase::Running)
            && !self.is_stop_requested
    }

    /// Stops the job with a checkpoint in its folder.
    pub(super) fn stop(&mut self, now: Time) {
        self.is_stop_requested = true;
        let text = "got SIGTERM; the job stops at main's next progress point, with a checkpoint";
        self.commands.push_back(Command::TellRecovery(text.to_owned()));
        let until = Some(now + self.drain_deadline);
        self.changes.add(Change { what: What::Stop, request: None, until }, now);
    }

    /// Returns the time at which a change begins or expires.
    pub(super) fn change_due(&self) -> Option<Time> {
        let due = self.changes.due().filter(|_| self.may_begin_change());
        due.into_iter().chain(self.changes.expires()).min()
    }

    /// Begins changes that are due, and gives up nodes that could not leave in time.
    pub(super) fn expire_changes(&mut self, now: Time) {
        if self.changes.due().is_some_and(|due| due <= now) && self.may_begin_change() {
            self.begin_change(now);
        }
        for change in self.changes.expired(now) {
            self.give_up_change(change, now);
        }
    }

    /// Whether the job runs, and the former processes of all nodes that are to join have ended.
    fn may_begin_change(&self) -> bool {
        let mut nodes = self.nodes.iter().enumerate();
        matches!(self.phase, Phase::Running)
            && nodes.all(|(id, node)| node.is_over || !self.changes.is_joining(NodeId::from(id)))
    }

    fn begin_change(&mut self, now: Time) {
        if self.is_done_or_failed() {
            return;
        }
        self.changes.begin();
        let members = self.members();
        let names: Vec<String> = self.nodes.iter().map(|node| node.name.clone()).collect();
        for (request, node) in self.changes.drop_obsolete(&members) {
            let text = format!("{} was lost before it left", names[node.index()]);
            self.answer(request, Answer::Refused(text));
        }
        let mut next = self.changes.applied_to(&members);
        if next.is_empty() && !self.changes.stops() {
            for request in self.changes.drop_requests_to_leave() {
                let text = "no node of the job would be left".to_owned();
                self.answer(Some(request), Answer::Refused(text));
            }
            next = self.changes.applied_to(&members);
        }
        if self.refuse_outnumbering() {
            next = self.changes.applied_to(&members);
        }
        if self.changes.stage == Stage::None {
            return;
        }
        let stops = self.changes.stops() || next.is_empty();
        if stops && !self.has_folder {
            // Without a folder there is no checkpoint from which the job could go on later.
            return self.interrupt(SIGTERM, now);
        }
        let leaves = |node: &NodeId| !stops && !next.contains(node);
        let numbered = members.iter().enumerate().filter(|(_, node)| leaves(node));
        let leaving = numbered.map(|(number, _)| NodeId::from(number)).collect();
        self.pauses = self.pauses.saturating_add(1);
        let order = PauseOrder { number: self.pauses, leaving, is_end: stops };
        if let Some(&of_main) = members.first() {
            self.commands.push_back(Command::Pause(of_main, order));
        }
    }

    /// Refuses the nodes of the change under way that would outnumber the members, if members were
    /// lost after `may_join`. Returns whether it has refused some.
    ///
    /// Nodes that leave after SIGTERM count as members: those that join may take their place.
    pub(super) fn refuse_outnumbering(&mut self) -> bool {
        let left = self.left();
        // If all members leave, the job goes on with those that join, or not at all.
        if !self.is_kept || left.iter().all(|node| self.changes.is_leaving(*node)) {
            return false;
        }
        let stays = |node: &&NodeId| !self.changes.is_requested_to_leave(**node);
        let stay = left.iter().filter(stays).count();
        let refused = self.changes.drop_requests_to_join(stay);
        for request in &refused {
            let text = format!(
                "the job has lost nodes since the request, and at most {stay} can join now; add \
                 fewer at a time"
            );
            self.answer(Some(*request), Answer::Refused(text));
        }
        !refused.is_empty()
    }

    fn give_up_change(&mut self, change: Change, now: Time) {
        if self.is_done_or_failed() {
            return;
        }
        let reason = "main reached no progress point in time";
        let nodes = match change.what {
            What::Stop => {
                let text = format!("there is no last checkpoint: {reason}");
                self.commands.push_back(Command::TellRecovery(text));
                return self.interrupt(SIGTERM, now);
            }
            What::Join(_) => return,
            What::Leave(nodes) => nodes,
        };
        let loses = self.may_recover();
        let so = match loses {
            true => "the nodes are treated as lost",
            false => "the nodes are still members, since the job makes no checkpoints",
        };
        self.answer(change.request, Answer::Refused(format!("{reason}; {so}")));
        let members = self.members();
        if self.repeats_tasks {
            // The job goes on without the nodes, and makes no checkpoint for an earlier request.
            self.changes.forget_request();
        }
        for node in nodes.into_iter().filter(|node| members.contains(node)) {
            if loses {
                self.nodes[node.index()].is_given_up = true;
                self.lose_member(node, &format!("it had to leave, and {reason}"), now);
                if self.doubts.contains_key(&node) {
                    self.commands.push_back(Command::Kill(node));
                }
            } else if change.request.is_none() {
                self.commands.push_back(Command::Ask(node));
            }
        }
    }

    /// Refuses the changes under way, because the job cannot be stopped.
    pub(super) fn refuse_changes(&mut self, reason: &str, now: Time) {
        for change in self.changes.end() {
            self.answer(change.request, Answer::Refused(reason.to_owned()));
            match change.what {
                What::Leave(nodes) if change.request.is_none() => {
                    self.commands.extend(nodes.into_iter().map(Command::Ask));
                }
                What::Stop => self.interrupt(SIGTERM, now),
                What::Leave(_) | What::Join(_) => {}
            }
        }
    }

    /// Refuses the changes that wait or are under way, because the job goes on without a lost node,
    /// and makes no checkpoint with which it could stop.
    pub(super) fn refuse_all_changes(&mut self, now: Time) {
        if matches!(self.changes.stage, Stage::None | Stage::Requested) {
            self.refuse_changes(REPEATS, now);
            self.changes.begin();
            self.refuse_changes(REPEATS, now);
        }
    }

    /// Handles the report that the job has paused: prepares the next run, or ends the job.
    pub(super) fn paused(&mut self, pause: &Pause, now: Time) {
        if !matches!(self.phase, Phase::Running) || pause.order < self.pauses {
            return;
        }
        // The previous launcher may have ended after it gave the order, before it saved the number.
        self.pauses = pause.order;
        let members = self.members();
        if self.changes.will_stop() || self.changes.applied_to(&members).is_empty() {
            let text = match &pause.error {
                None => format!("stopped after checkpoint {}; --restart goes on", pause.checkpoint),
                Some(error) => format!("checkpoint {} is not stored: {error}", pause.checkpoint),
            };
            self.commands.push_back(Command::TellRecovery(text));
            return self.interrupt(SIGTERM, now);
        }
        self.changes.stage = Stage::Paused;
        let (leaving, joining) = self.changes.nodes();
        let names = |nodes: &BTreeSet<NodeId>| {
            let names: Vec<&str> = nodes.iter().map(|it| &*self.nodes[it.index()].name).collect();
            names.join(", ")
        };
        let leave = (!leaving.is_empty()).then(|| format!("{} to leave", names(&leaving)));
        let join = (!joining.is_empty()).then(|| format!("{} to join", names(&joining)));
        let what: Vec<String> = leave.into_iter().chain(join).collect();
        let text =
            format!("stopped after checkpoint {} for {}", pause.checkpoint, what.join(", and "));
        if !what.is_empty() {
            self.commands.push_back(Command::TellRecovery(text));
        }
        for member in self.left() {
            self.nodes[member.index()].address = None;
            self.commands.push_back(Command::Recover(member));
        }
        if let Some(recovery) = &mut self.recovery {
            recovery.holdings.clear();
            recovery.began = now;
        }
        self.phase = Phase::Recovering { until: now + STOP_PATIENCE };
    }

    /// Answers the requests whose change is complete.
    pub(super) fn end_change(&mut self) {
        if self.changes.stage != Stage::GoesOn {
            return;
        }
        for change in self.changes.end() {
            let (nodes, did, failed) = match &change.what {
                What::Leave(nodes) => (nodes, "left", None),
                What::Join(nodes) => {
                    let left = self.left();
                    (nodes, "joined", nodes.iter().find(|node| !left.contains(node)))
                }
                What::Stop => continue,
            };
            if let Some(failed) = failed {
                let name = &self.nodes[failed.index()].name;
                let text = format!("{name} could not join; the output of the job says why");
                self.answer(change.request, Answer::Refused(text));
                continue;
            }
            let names: Vec<&str> = nodes.iter().map(|it| &*self.nodes[it.index()].name).collect();
            let has = if names.len() == 1 { "has" } else { "have" };
            let text = format!("{} {has} {did}", names.join(", "));
            self.answer(change.request, Answer::Done(text));
        }
    }
}
