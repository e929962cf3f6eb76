//! The interface between a node's machine and the policy that chooses victims.

use super::command::{Amount, Command, Grant};
use super::layout::StealingLayout;
use super::message::StealMessage;
use gridspan_topology::dice::Dice;
use gridspan_topology::{NodeId, Time};

/// Chooses victims for one node, and answers thieves.
///
/// The machine calls the policy for each event, and the policy acts through [`Turn`]. In a message
/// from another node, the machine only checks that all named nodes take part, and limits numbers
/// and lists; a policy must accept any other content.
///
/// A policy that asks one other node after the other, and takes one task:
///
/// ```
/// use gridspan_balance::stealing::{Amount, Grant, StealMessage, StealingPolicy, Turn};
/// use gridspan_topology::NodeId;
///
/// #[derive(Clone, Default)]
/// struct InTurn { asked: usize }
///
/// impl StealingPolicy for InTurn {
///     fn name(&self) -> &'static str { "in-turn" }
///
///     fn idle(&mut self, turn: &mut Turn<'_>) {
///         let nodes = turn.places.nodes();
///         self.asked = (self.asked + 1) % nodes.len();
///         let victim = nodes[self.asked];
///         turn.send(victim, StealMessage::Request); // dropped if it is this node
///     }
///
///     fn message(&mut self, from: NodeId, message: StealMessage, turn: &mut Turn<'_>) {
///         match message {
///             StealMessage::Request if turn.give(from, Amount::One, Grant::Answer) == 0 => {
///                 turn.send(from, StealMessage::NoTasks { hint: None });
///             }
///             StealMessage::NoTasks { .. } if turn.is_idle => self.idle(turn),
///             _ => {}
///         }
///     }
///
///     fn received(&mut self, _: NodeId, _tasks: u64, _: Grant, _: &mut Turn<'_>) {}
///
///     fn places_changed(&mut self, _lost: Option<NodeId>, turn: &mut Turn<'_>) {
///         if turn.is_idle {
///             self.idle(turn); // an answer may have been lost with the node
///         }
///     }
/// }
/// ```
pub trait StealingPolicy: Send {
    /// The name by which users select it.
    fn name(&self) -> &'static str;

    /// Called when the node has no tasks left, neither to run nor to be taken away.
    fn idle(&mut self, turn: &mut Turn<'_>);

    /// Called when the node has found work by itself, or the work that it could give has changed.
    fn stock(&mut self, _turn: &mut Turn<'_>) {}

    /// Called when a message arrives.
    fn message(&mut self, from: NodeId, message: StealMessage, turn: &mut Turn<'_>);

    /// Called when tasks arrive, at least one; `turn` already counts the node as busy.
    fn received(&mut self, from: NodeId, tasks: u64, grant: Grant, turn: &mut Turn<'_>);

    /// Called when `tasks` tasks, perhaps none, have left for `to`.
    fn given(&mut self, _to: NodeId, _tasks: u64, _grant: Grant, _turn: &mut Turn<'_>) {}

    /// Called when nodes have joined, left or moved to another site; `turn` has the new places.
    fn places_changed(&mut self, lost: Option<NodeId>, turn: &mut Turn<'_>);

    /// Called at the time set by [`Turn::wake_at`].
    fn woken(&mut self, _turn: &mut Turn<'_>) {}
}

/// Makes the stealing policy of each node of a job. Every [`StealingPolicy`] that can be cloned
/// makes copies of itself; a [`StealingPolicyName`](super::StealingPolicyName) makes the policy of
/// that name.
///
/// ```
/// use gridspan_balance::stealing::{Lifeline, MakeStealingPolicy, StealingPolicy};
/// use gridspan_balance::stealing::StealingPolicyName;
///
/// let chosen: StealingPolicyName = "lifeline".parse()?;
/// assert_eq!(chosen.make().name(), Lifeline::default().make().name());
/// # Ok::<(), gridspan_balance::stealing::UnknownStealingPolicy>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a stealing policy",
    label = "a policy is a value, not a name",
    note = "write a value such as `Lifeline::default()`; a name that a user gives becomes one by `name.parse::<StealingPolicyName>()?`"
)]
pub trait MakeStealingPolicy: Send + Sync + 'static {
    /// Returns the policy as it is before the first event.
    fn make(&self) -> Box<dyn StealingPolicy>;
}

#[diagnostic::do_not_recommend]
impl<P: StealingPolicy + Clone + Sync + 'static> MakeStealingPolicy for P {
    fn make(&self) -> Box<dyn StealingPolicy> {
        Box::new(self.clone())
    }
}

/// State and actions of a policy during one call.
#[derive(Debug)]
pub struct Turn<'a> {
    /// The present time.
    pub now: Time,
    /// The node itself.
    pub me: NodeId,
    /// Number of tasks that the node runs at once.
    pub workers: u32,
    /// Whether the node has nothing to do.
    pub is_idle: bool,
    /// Number of tasks that could be taken away, without those that have been promised.
    pub stock: u64,
    /// Number of tasks that the node has run so far.
    pub done: u64,
    /// The nodes that take part.
    pub places: &'a StealingLayout,
    pub(super) dice: &'a mut Dice,
    pub(super) promised: &'a mut Vec<(NodeId, u64)>,
    pub(super) commands: &'a mut Vec<Command>,
}

impl Turn<'_> {
    /// Sends a message. A message to the node itself, or to a node that does not take part, is
    /// dropped.
    pub fn send(&mut self, to: NodeId, message: StealMessage) {
        if to != self.me && self.places.contains(to) {
            self.commands.push(Command::Send { to, message });
        }
    }

    /// Gives tasks, if there are any and `to` is another node that takes part. Returns the number
    /// of tasks, which is exact if the stock has not changed since the host last reported it.
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

    /// Sets the time of the next call of [`StealingPolicy::woken`]; replaces an earlier request.
    pub fn wake_at(&mut self, time: Time) {
        self.commands.push(Command::WakeAt(time));
    }

    /// Returns a random number below `bound`, or 0 if `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        self.dice.below(bound)
    }

    /// Returns a random other node; `None` if this is the only one.
    pub fn any_other(&mut self) -> Option<NodeId> {
        other_than(self.me, self.places.nodes(), self.dice)
    }

    /// Returns a random other node of the node's site.
    pub fn any_near(&mut self) -> Option<NodeId> {
        let site = self.places.site_of(self.me)?;
        other_than(self.me, self.places.nodes_in(site), self.dice)
    }

    /// Returns a random node of another site.
    pub fn any_far(&mut self) -> Option<NodeId> {
        let site = self.places.site_of(self.me)?;
        let near = self.places.nodes_in(site);
        let nodes = self.places.nodes();
        let far = nodes.len().checked_sub(near.len()).filter(|&far| far > 0)?;
        let chosen = self.dice.below(far);
        // The nodes of a site may be scattered in the list: skip those of the node's site.
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

/// Returns a random one of `nodes`, which are sorted, except `me`.
fn other_than(me: NodeId, nodes: &[NodeId], dice: &mut Dice) -> Option<NodeId> {
    let Ok(place) = nodes.binary_search(&me) else {
        return (!nodes.is_empty()).then(|| nodes[dice.below(nodes.len())]);
    };
    let others = nodes.len() - 1;
    let chosen = (others > 0).then(|| dice.below(others))?;
    Some(nodes[chosen + usize::from(chosen >= place)])
}
