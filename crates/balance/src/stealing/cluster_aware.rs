//! `cluster-aware`: asks near nodes one after the other, while one request is on its way to a far
//! node.

use super::command::{Amount, Grant};
use super::message::StealMessage;
use super::policy::{StealingPolicy, Turn};
use gridspan_topology::NodeId;

/// Cluster-aware random stealing (CRS), as in Satin: Van Nieuwpoort, Kielmann and Bal, "Efficient
/// load balancing for wide-area divide-and-conquer applications", PPoPP 2001.
///
/// An idle node asks a random node of another site, and does not wait for the answer. Meanwhile it
/// asks random nodes of its site, one after the other, until one has tasks. At most one
/// wide-area request is on its way. If it is refused, the node sends another one when the next near
/// node refuses.
///
/// ```
/// use gridspan_balance::stealing::{ClusterAware, MakeStealingPolicy, StealingPolicy};
///
/// assert_eq!(ClusterAware::one().make().name(), "cluster-aware");
/// ```
#[derive(Clone, Debug)]
pub struct ClusterAware {
    name: &'static str,
    amount: Amount,
    near: Option<NodeId>,
    far: Option<NodeId>,
}

impl ClusterAware {
    /// Steals the oldest task, as Satin does.
    pub fn one() -> Self {
        Self { name: "cluster-aware", amount: Amount::One, near: None, far: None }
    }

    /// Steals half of the victim's tasks.
    pub fn half() -> Self {
        Self { name: "cluster-aware-half", amount: Amount::Half, ..Self::one() }
    }

    fn ask(&mut self, turn: &mut Turn<'_>) {
        if !turn.is_idle {
            return;
        }
        if self.far.is_none() {
            self.far = turn.any_far();
            self.far.iter().for_each(|&node| turn.send(node, StealMessage::Request));
        }
        if self.near.is_none() {
            self.near = turn.any_near();
            self.near.iter().for_each(|&node| turn.send(node, StealMessage::Request));
        }
    }

    /// Records the answer of a node; returns whether that node had been asked.
    fn answered(&mut self, from: NodeId) -> bool {
        let asked = [&mut self.near, &mut self.far].into_iter().find(|asked| **asked == Some(from));
        asked.map(|asked| *asked = None).is_some()
    }
}

impl StealingPolicy for ClusterAware {
    fn name(&self) -> &'static str {
        self.name
    }

    fn idle(&mut self, turn: &mut Turn<'_>) {
        self.ask(turn);
    }

    fn message(&mut self, from: NodeId, message: StealMessage, turn: &mut Turn<'_>) {
        match message {
            StealMessage::Request if turn.give(from, self.amount, Grant::Answer) == 0 => {
                turn.send(from, StealMessage::NoTasks { hint: None });
            }
            StealMessage::NoTasks { .. } if self.answered(from) => {
                // A node without near nodes also asks again here, since no near node will refuse
                // its request.
                let was_near = self.near.is_none();
                if was_near {
                    self.ask(turn);
                }
            }
            _ => {}
        }
    }

    fn received(&mut self, from: NodeId, _tasks: u64, _grant: Grant, _turn: &mut Turn<'_>) {
        self.answered(from);
    }

    fn given(&mut self, to: NodeId, tasks: u64, _grant: Grant, turn: &mut Turn<'_>) {
        if tasks == 0 {
            turn.send(to, StealMessage::NoTasks { hint: None });
        }
    }

    fn places_changed(&mut self, _lost: Option<NodeId>, turn: &mut Turn<'_>) {
        for asked in [&mut self.near, &mut self.far] {
            *asked = asked.filter(|&node| turn.places.contains(node));
        }
        self.ask(turn);
    }
}
