//! Requests for a diagnosis: why the job is slow or makes no progress.

use super::super::event::Command;
use super::{Node, Phase, Supervisor};
use crate::request::Answer;
use gridspan_topology::{NodeId, Time};

/// Number of nodes that a refusal names.
const NAMED_MAX: usize = 3;

impl Supervisor {
    /// Begins a diagnosis, or adds the request to the one that is under way.
    pub(super) fn diagnose(&mut self, request: u64, now: Time) {
        if let Some(reason) = self.no_diagnosis() {
            return self.commands.push_back(Command::Answer(request, Answer::Refused(reason)));
        }
        let members = self.members();
        let is_lost = |node: &NodeId| self.nodes[node.index()].is_left;
        let lost: Vec<NodeId> = members.iter().copied().filter(is_lost).collect();
        if let Some(number) = self.diagnosing.add(request, members, now) {
            lost.into_iter().for_each(|node| self.diagnosing.leave_out(node));
            self.diagnose_all(number);
        }
    }

    fn diagnose_all(&mut self, number: u64) {
        let asked = self.left().into_iter();
        self.commands.extend(asked.map(|node| Command::Diagnose(node, number)));
    }

    /// Why the nodes cannot be asked now; `None` if they can.
    fn no_diagnosis(&self) -> Option<String> {
        match self.phase {
            Phase::Running => None,
            Phase::Starting { .. } => {
                let is_late = |node: &&Node| node.address.is_none() && !node.is_left;
                let late: Vec<&str> =
                    self.nodes.iter().filter(is_late).map(|it| &*it.name).collect();
                let named = late[..late.len().min(NAMED_MAX)].join(", ");
                let more = match late.len().saturating_sub(NAMED_MAX) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                Some(format!("it is starting, and waits until these nodes listen: {named}{more}"))
            }
            Phase::Recovering { .. } => {
                Some("its nodes are about to go on from a checkpoint; ask again later".to_owned())
            }
            Phase::Ending { .. } | Phase::GivenUp => Some("it is ending".to_owned()),
        }
    }

    /// Returns the time at which to call [`go_on_with_diagnosis`](Self::go_on_with_diagnosis) even
    /// if nothing happens.
    pub(super) fn diagnosis_due(&self) -> Option<Time> {
        self.diagnosing.due()
    }

    /// Asks the nodes again when it is time, and answers the requests once the diagnosis is
    /// complete or due.
    pub(super) fn go_on_with_diagnosis(&mut self, now: Time) {
        if let Some(number) = self.diagnosing.ask_again(now) {
            self.diagnose_all(number);
        }
        let nodes = &self.nodes;
        let name = |node: NodeId| nodes.get(node.index()).map_or("a node", |node| &*node.name);
        let Some((requests, diagnosis)) = self.diagnosing.take_ended(now, name) else { return };
        for request in requests {
            let answer = Answer::Diagnosis(diagnosis.clone());
            self.commands.push_back(Command::Answer(request, answer));
        }
    }
}
