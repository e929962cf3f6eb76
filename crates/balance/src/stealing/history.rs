//! `shis` and `transitive`: ask first the node that last gave a task (Zhang, Mo, Yang and Zheng
//! (2007), "Dynamic Load-Balancing and High Performance Communication in Jcluster", section 3).

use super::command::{Amount, Grant};
use super::message::StealMessage;
use super::policy::{StealingPolicy, Turn};
use gridspan_topology::NodeId;

/// Random stealing that remembers the node from which a task came.
///
/// *Shis* asks the node from which a task last came, and random nodes once that node has no tasks.
///
/// *Transitive* random stealing (TRS) also passes on the remembered node: a node without tasks
/// answers a thief with the node that it would ask itself, and the thief remembers that node and
/// asks it next. Hints can lead in a circle; after max(floor(log2 n - 3), 1) hints in a row, where
/// n is the number of nodes, the thief forgets the node and asks a random one.
///
/// ```
/// use gridspan_balance::stealing::{HistoryPolicy, MakeStealingPolicy, StealingPolicy};
///
/// assert_eq!(HistoryPolicy::shis().make().name(), "shis");
/// ```
#[derive(Clone, Debug)]
pub struct HistoryPolicy {
    is_transitive: bool,
    /// The node remembered: the paper's `transId`.
    remembered: Option<NodeId>,
    asked: Option<NodeId>,
    /// Number of hints followed in a row.
    followed: u32,
}

impl HistoryPolicy {
    /// Creates the policy that does not pass on the remembered node.
    pub fn shis() -> Self {
        Self { is_transitive: false, remembered: None, asked: None, followed: 0 }
    }

    /// Creates the policy that passes on the remembered node to thieves.
    pub fn transitive() -> Self {
        Self { is_transitive: true, ..Self::shis() }
    }

    fn ask(&mut self, turn: &mut Turn<'_>) {
        self.asked = None;
        if turn.is_idle {
            self.asked = self.remembered.or_else(|| turn.any_other());
        }
        if let Some(victim) = self.asked {
            turn.send(victim, StealMessage::Request);
        }
    }

    fn refuse(&self, thief: NodeId, turn: &mut Turn<'_>) {
        let hint = self.remembered.filter(|&node| self.is_transitive && node != thief);
        turn.send(thief, StealMessage::NoTasks { hint });
    }

    fn refused(&mut self, hint: Option<NodeId>, turn: &mut Turn<'_>) {
        let hint = hint.filter(|&node| {
            self.is_transitive
                && node != turn.me
                && self.followed < limit(turn.places.nodes().len())
        });
        self.followed = if hint.is_some() { self.followed + 1 } else { 0 };
        self.remembered = hint;
        self.ask(turn);
    }
}

/// Returns the greatest number of hints followed in a row among `nodes` nodes.
fn limit(nodes: usize) -> u32 {
    nodes.checked_ilog2().unwrap_or(0).saturating_sub(3).max(1)
}

impl StealingPolicy for HistoryPolicy {
    fn name(&self) -> &'static str {
        if self.is_transitive { "transitive" } else { "shis" }
    }

    fn idle(&mut self, turn: &mut Turn<'_>) {
        if self.asked.is_none() {
            self.ask(turn);
        }
    }

    fn message(&mut self, from: NodeId, message: StealMessage, turn: &mut Turn<'_>) {
        match message {
            StealMessage::Request if turn.give(from, Amount::One, Grant::Answer) == 0 => {
                self.refuse(from, turn);
            }
            StealMessage::NoTasks { hint } if self.asked == Some(from) => self.refused(hint, turn),
            _ => {}
        }
    }

    fn received(&mut self, from: NodeId, _tasks: u64, _grant: Grant, turn: &mut Turn<'_>) {
        // A node that leaves hands on its tasks, and no longer takes part.
        self.remembered = Some(from).filter(|&node| turn.places.contains(node));
        self.followed = 0;
        self.asked = self.asked.filter(|&asked| asked != from);
    }

    fn given(&mut self, to: NodeId, tasks: u64, _grant: Grant, turn: &mut Turn<'_>) {
        if tasks == 0 {
            self.refuse(to, turn);
        }
    }

    fn places_changed(&mut self, _lost: Option<NodeId>, turn: &mut Turn<'_>) {
        self.remembered = self.remembered.filter(|&node| turn.places.contains(node));
        if self.asked.is_none_or(|asked| !turn.places.contains(asked)) {
            self.followed = 0;
            self.ask(turn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::limit;

    #[test]
    fn the_transition_limit_is_that_of_the_paper() {
        let limits = [2, 16, 31, 32, 64, 1023, 1024, 4096].map(limit);

        assert_eq!(limits, [1, 1, 1, 2, 3, 6, 7, 9]);
    }
}
