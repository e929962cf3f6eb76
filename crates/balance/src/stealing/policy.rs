//! The seam between a node's machine and the policy that chooses victims.

use super::command::{Amount, Command, Grant};
use super::layout::StealingLayout;
use super::message::StealMessage;
use gridspan_topology::dice::Dice;
use gridspan_topology::{NodeId, Time};

/// Chooses victims for one node, and answers thieves.
///
/// It is told what happens and says through [`Turn`] what is to be done. What comes from other
/// nodes has been checked only so far that every node named takes part; a policy must bear any of
/// it.
pub trait StealingPolicy: Send {
    /// The name by which users ask for it.
    fn name(&self) -> &'static str;

    /// The node has nothing to run and nothing to take, and did before.
    fn idle(&mut self, turn: &mut Turn<'_>);

    /// The node has found work by itself, or the work that it could give changed.
    fn stock(&mut self, _turn: &mut Turn<'_>) {}

    /// A message came.
    fn message(&mut self, from: NodeId, message: StealMessage, turn: &mut Turn<'_>);

    /// Tasks came, at least one; `turn` counts the node as busy already.
    fn received(&mut self, from: NodeId, tasks: u64, grant: Grant, turn: &mut Turn<'_>);

    /// So many tasks left for `to`, perhaps none.
    fn given(&mut self, _to: NodeId, _tasks: u64, _grant: Grant, _turn: &mut Turn<'_>) {}

    /// Nodes came, left or were found to be elsewhere; `turn` shows the new places.
    fn places_changed(&mut self, lost: Option<NodeId>, turn: &mut Turn<'_>);

    /// The time has come that [`Turn::wake_at`] named.
    fn woken(&mut self, _turn: &mut Turn<'_>) {}
}

/// What a policy sees and can do while it is asked.
#[derive(Debug)]
pub struct Turn<'a> {
    /// The time.
    pub now: Time,
    /// The node itself.
    pub me: NodeId,
    /// How many tasks the node runs at once.
    pub workers: u32,
    /// Whether the node has nothing to do.
    pub is_idle: bool,
    /// How many tasks could be taken away; what was promised in this turn is gone already.
    pub stock: u64,
    /// How many tasks the node has run so far.
    pub done: u64,
    /// Who takes part.
    pub places: &'a StealingLayout,
    pub(super) dice: &'a mut Dice,
    pub(super) promised: &'a mut Vec<(NodeId, u64)>,
    pub(super) commands: &'a mut Vec<Command>,
}

impl Turn<'_> {
    /// Sends a message. One to the node itself or to one that does not take part is dropped.
    pub fn send(&mut self, to: NodeId, message: StealMessage) {
        if to != self.me && self.places.contains(to) {
            self.commands.push(Command::Send { to, message });
        }
    }

    /// Gives tasks, if there are any and `to` is another node that takes part; how many if the host
    /// still has what it last said.
    pub fn give(&mut self, to: NodeId, amount: Amount, grant: Grant) -> u64 {
        let tasks = amount.of(self.stock);
        if tasks == 0 || to == self.me || !self.places.contains(to) {
            return 0;
        }
        self.stock -= tasks;
        self.promised.push((to, tasks));
        self.commands.push(Command::Grant { to, amount, grant });
        tasks
    }

    /// Asks to be woken at this time, and no more at an earlier one that was asked for.
    pub fn wake_at(&mut self, time: Time) {
        self.commands.push(Command::WakeAt(time));
    }

    /// A number below `bound`, or 0 if that is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        self.dice.below(bound)
    }

    /// Any other node; `None` if this one is alone.
    pub fn any_other(&mut self) -> Option<NodeId> {
        other_than(self.me, self.places.nodes(), self.dice)
    }

    /// Any other node of the own site.
    pub fn any_near(&mut self) -> Option<NodeId> {
        let site = self.places.site_of(self.me)?;
        other_than(self.me, self.places.nodes_in(site), self.dice)
    }

    /// Any node of any other site.
    pub fn any_far(&mut self) -> Option<NodeId> {
        let site = self.places.site_of(self.me)?;
        let near = self.places.nodes_in(site);
        let nodes = self.places.nodes();
        let far = nodes.len().checked_sub(near.len()).filter(|&far| far > 0)?;
        let chosen = self.dice.below(far);
        // Nodes of a site need not follow each other: skip those of the own one.
        let (mut low, mut high) = (0, nodes.len());
        while low < high {
            let middle = (low + high) / 2;
            let is_near_up_to = near.partition_point(|&node| node <= nodes[middle]);
            if middle + 1 - is_near_up_to > chosen {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        nodes.get(low).copied()
    }
}

/// Any of `nodes`, which are in order, but `me`.
fn other_than(me: NodeId, nodes: &[NodeId], dice: &mut Dice) -> Option<NodeId> {
    let Ok(place) = nodes.binary_search(&me) else {
        return (!nodes.is_empty()).then(|| nodes[dice.below(nodes.len())]);
    };
    let others = nodes.len() - 1;
    let chosen = (others > 0).then(|| dice.below(others))?;
    Some(nodes[chosen + usize::from(chosen >= place)])
}
