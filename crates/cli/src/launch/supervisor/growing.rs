//! Nodes that the job gets while it runs. They are absent until they join on request.

use super::{Node, Supervisor, Way};
use crate::roster::Roster;

impl Supervisor {
    /// Whether the job can have more nodes now.
    ///
    /// # Errors
    ///
    /// The reason why it cannot.
    pub(in super::super) fn may_grow(&self) -> Result<(), String> {
        self.check_changeable(false)
    }

    /// Notes all nodes, once those of this supervisor are complete.
    pub(in super::super) fn set_roster(&mut self, roster: Roster) {
        if let Some(recovery) = &mut self.recovery {
            recovery.runs.set_roster(roster);
        }
    }

    /// Adds the next node, which is reached in this way.
    pub(in super::super) fn add_node(&mut self, name: String, way: Option<Way>) {
        let node = Node::new(name);
        self.nodes.push(Node { way, is_left: true, is_over: true, ..node });
    }
}
