//! Nodes that the job gets while it runs. They are absent until they join on request.

use super::super::change::What;
use super::{Node, Supervisor, Way};
use crate::roster::Roster;
use gridspan_topology::NodeId;
use std::collections::BTreeSet;

impl Supervisor {
    /// Whether the job can have more nodes now.
    ///
    /// # Errors
    ///
    /// The reason why it cannot.
    pub(in super::super) fn may_grow(&self) -> Result<(), String> {
        self.check_changeable(false)
    }

    /// Whether the job can go on if this number of new nodes join and none of them starts: at least
    /// half of the members of a run must decide on the next one.
    ///
    /// # Errors
    ///
    /// The reason why it could not.
    pub(in super::super) fn may_outnumber(&self, new: usize) -> Result<(), String> {
        let stay = self.staying().count();
        if self.joining() + new <= stay {
            return Ok(());
        }
        let nodes = if stay == 1 { "node that stays" } else { "nodes that stay" };
        Err(format!(
            "it has {stay} {nodes}, and at most as many can join at a time, since it needs half of \
             its members to go on if none of the new ones starts; add some of them first"
        ))
    }

    /// Whether these absent nodes may join, if [`may_outnumber`](Self::may_outnumber) limits their
    /// number.
    ///
    /// # Errors
    ///
    /// The reason why they may not.
    pub(in super::super) fn may_join(&self, nodes: &BTreeSet<NodeId>) -> Result<(), String> {
        self.check(&What::Join(nodes.clone()))?;
        self.may_outnumber(nodes.len())
    }

    /// Whether these members may leave, if [`may_outnumber`](Self::may_outnumber) limits the number
    /// of nodes that join: the nodes about to join must not outnumber those that stay.
    ///
    /// # Errors
    ///
    /// The reason why they may not.
    pub(in super::super) fn may_leave(&self, nodes: &BTreeSet<NodeId>) -> Result<(), String> {
        self.check(&What::Leave(nodes.clone()))?;
        let stay = self.staying().filter(|node| !nodes.contains(node)).count();
        let joining = self.joining();
        if joining <= stay {
            return Ok(());
        }
        let nodes = if joining == 1 { "node joins" } else { "nodes join" };
        Err(format!(
            "{joining} {nodes} at present, more than would stay; try again when they have joined"
        ))
    }

    /// The members that are not about to leave.
    fn staying(&self) -> impl Iterator<Item = NodeId> {
        let changes = &self.changes;
        let stays = move |node: &NodeId| !changes.is_leaving(*node) && !changes.is_joining(*node);
        self.left().into_iter().filter(stays)
    }

    /// Number of nodes that are about to join.
    fn joining(&self) -> usize {
        let all = (0..self.nodes.len()).map(NodeId::from);
        all.filter(|node| self.changes.is_joining(*node)).count()
    }

    /// Sets all nodes of the job. [`add_node`](Self::add_node) must have added the new ones.
    pub(in super::super) fn set_roster(&mut self, roster: Roster) {
        if let Some(recovery) = &mut self.recovery {
            recovery.runs.set_roster(roster);
        }
    }

    /// Adds the next node. `way`: how the launcher reaches it.
    pub(in super::super) fn add_node(&mut self, name: String, way: Option<Way>) {
        let node = Node::new(name);
        self.nodes.push(Node { way, is_left: true, is_over: true, ..node });
    }
}
