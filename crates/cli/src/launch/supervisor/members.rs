//! Which nodes take part in the job, and whether it can go on without one.

use super::super::change::Stage;
use super::super::event::Exit;
use super::{Node, OnLoss, Phase, STREAMS, Supervisor};
use gridspan_topology::NodeId;

impl Supervisor {
    /// The members of the job, by their node numbers in the present run.
    pub(super) fn members(&self) -> Vec<NodeId> {
        match &self.recovery {
            Some(recovery) => recovery.runs.members().to_vec(),
            None => (0..self.nodes.len()).map(NodeId::from).collect(),
        }
    }

    /// The number of a node in the present run, as nodes report it; `None` if it is no member.
    pub(in super::super) fn number_in_run(&self, node: NodeId) -> Option<NodeId> {
        self.members().iter().position(|member| *member == node).map(NodeId::from)
    }

    /// The members that are not lost.
    pub(super) fn left(&self) -> Vec<NodeId> {
        let is_left = |node: &NodeId| !self.nodes[node.index()].is_left;
        self.members().into_iter().filter(is_left).collect()
    }

    /// Whether the loss of nodes begins a recovery.
    pub(in super::super) fn may_recover(&self) -> bool {
        // Before the first introduction there is nothing to go back to.
        let is_running = match self.phase {
            Phase::Running | Phase::Recovering { .. } => true,
            Phase::Starting { .. } => self.is_recovering(),
            Phase::Ending { .. } | Phase::GivenUp => false,
        };
        let recovers = self.recovery.as_ref().is_some_and(|it| it.on_loss.recovers());
        recovers && is_running && !self.is_done_or_failed()
    }

    /// Notes that the program makes checkpoints.
    pub(super) fn recover_as_program(&mut self) {
        if let Some(recovery) = &mut self.recovery
            && recovery.on_loss == OnLoss::AsProgram
        {
            recovery.on_loss = OnLoss::Shrink;
        }
    }

    pub(super) fn is_done_or_failed(&self) -> bool {
        // A member that has ended well knows that the job is done.
        let is_done = |node: &Node| !node.is_left && matches!(node.exit, Some((Exit::Code(0), _)));
        self.nodes.iter().any(is_done) || self.interrupted.is_some() || self.blame.is_some()
    }

    pub(super) fn is_recovering(&self) -> bool {
        self.recovery.as_ref().is_some_and(|it| !it.holdings.is_empty())
            || matches!(self.phase, Phase::Recovering { .. })
    }

    /// Whether a node has its first bundle and has not been introduced.
    pub(super) fn is_new(&self, node: NodeId) -> bool {
        self.changes.stage == Stage::GoesOn && self.changes.nodes().1.contains(&node)
    }
}

impl Node {
    /// A node of this name whose process starts now.
    pub(super) fn new(name: String) -> Self {
        Self {
            name,
            way: None,
            address: None,
            exit: None,
            open_streams: STREAMS,
            has_reported: false,
            is_lost: false,
            is_asked: false,
            was_asked: false,
            is_left: false,
            is_given_up: false,
            is_spare: false,
            ends_until: None,
            is_over: false,
        }
    }
}
