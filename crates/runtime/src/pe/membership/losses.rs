//! Losses of nodes, as a PE notices them, and the suspension of a founder that may be lost.

use crate::address::id::ActorId;
use crate::error::JobError;
use crate::message::{MembershipEvent, MembershipMessage, Need, Stage};
use crate::pe::core::Core;
use gridspan_topology::NodeId;
use std::fmt::Display;
use std::time::Duration;

/// Delay of a PE's answer whether the job needs a founder. It moves the answer into the next turn:
/// the PE informs the agents of its node at the end of the present turn, so that they drop what the
/// founder sends before the PE answers.
const NEXT_TURN: Duration = Duration::from_nanos(1);

impl Core {
    /// Handles the loss of a node. Without a founder the job cannot continue, unless it recovers
    /// tasks locally; a guest that cannot reach a founder reports itself as unreachable.
    pub fn node_lost(&mut self, node: NodeId, error: JobError) {
        let layout = &self.common.layout;
        if layout.is_guest(node) {
            self.tell_coordinator(MembershipMessage::Unreachable { node, error });
        } else if node == self.common.coordinator {
            self.handle_stop(Err(error));
        } else if self.is_guest() {
            // The coordinator releases this guest, or has just ended the job.
            let node = layout.node_of(self.me);
            self.tell_coordinator(MembershipMessage::Unreachable { node, error });
        } else if self.common.recovers_tasks {
            // The coordinator decides whether the job goes on without it.
            self.tell_coordinator(MembershipMessage::Unreachable { node, error });
        } else {
            self.fail(error);
        }
    }

    /// Handles invalid data from a node: a guest other than this node counts as lost; otherwise the
    /// job fails.
    pub fn blame(&mut self, node: NodeId, reason: impl Display) {
        let error = JobError::Protocol(format!("from {node}: {reason}"));
        match self.common.layout.is_guest(node) && node != self.common.layout.node_of(self.me) {
            true => self.node_lost(node, error),
            false => self.fail(error),
        }
    }

    /// Drops what a founder's agents send, and answers whether the job needs the founder.
    pub(super) fn suspend(&mut self, node: NodeId) {
        self.membership.gone.insert(node);
        self.tell_agents(MembershipEvent { node, stage: Stage::Suspended });
        self.run_after(NEXT_TURN, move |core| core.tell_need(node));
    }

    /// Tells the coordinator why the job cannot go on without a founder, as far as this PE knows.
    fn tell_need(&mut self, node: NodeId) {
        let is_there = |to: ActorId| self.home_node(to) == Some(node);
        let awaits_answer = self.waits.questions().filter_map(|question| question.to).any(is_there);
        let need = match awaits_answer {
            true => Some(Need::Answer),
            false => self.need_of_loans(node),
        };
        self.tell_coordinator(MembershipMessage::Spares { node, need });
    }

    /// Whether a founder has borrowed tasks of this node that are not in the log of loans.
    fn need_of_loans(&self, node: NodeId) -> Option<Need> {
        let log = self.common.loan_logs.of(self.common.layout.node_of(self.me));
        let loans = log.spare(node);
        (loans > 0).then(|| Need::Loans { loans, limit_bytes: log.limit_bytes() })
    }
}
