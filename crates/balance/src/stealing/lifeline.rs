//! `lifeline`: asks a few random victims, then sleeps until one of log2 n neighbours sends work.

use super::command::{Amount, Grant};
use super::message::StealMessage;
use super::policy::{StealingPolicy, Turn};
use gridspan_topology::NodeId;
use std::collections::BTreeSet;

/// Lifeline-based global load balancing: Saraswat, Kambadur, Kodali, Grove and Krishnamoorthy,
/// PPoPP 2011.
///
/// An idle node asks `attempts` random nodes one after the other, then notifies its neighbours in a
/// hypercube (the nodes whose place in the order of nodes differs in one bit) and sleeps. A
/// neighbour that has tasks, now or later, sends half of them. The hypercube does not take sites
/// into account.
///
/// ```
/// use gridspan_balance::stealing::{Lifeline, MakeStealingPolicy, StealingPolicy};
///
/// assert_eq!(Lifeline::default().make().name(), "lifeline");
/// ```
#[derive(Clone, Debug)]
pub struct Lifeline {
    attempts: u32,
    failed: u32,
    asked: Option<NodeId>,
    /// Neighbours that have been notified and have not yet sent tasks.
    told: BTreeSet<NodeId>,
    /// Nodes that have notified this node; at most as many as there are nodes.
    waiting: BTreeSet<NodeId>,
}

impl Default for Lifeline {
    fn default() -> Self {
        Self::new(Self::ATTEMPTS)
    }
}

impl Lifeline {
    /// Number of random victims before sleep that the paper's experiments chose.
    pub const ATTEMPTS: u32 = 2;

    /// Creates the policy with `attempts` random victims before sleep.
    pub fn new(attempts: u32) -> Self {
        let (told, waiting) = Default::default();
        Self { attempts, failed: 0, asked: None, told, waiting }
    }

    fn ask(&mut self, turn: &mut Turn<'_>) {
        self.asked = None;
        if !turn.is_idle {
            return;
        }
        if self.failed < self.attempts {
            self.asked = turn.any_other();
            self.asked.iter().for_each(|&node| turn.send(node, StealMessage::Request));
            return;
        }
        for neighbour in neighbours(turn) {
            if self.told.insert(neighbour) {
                turn.send(neighbour, StealMessage::Lifeline);
            }
        }
    }

    /// Shares the tasks with the nodes that wait.
    fn share(&mut self, turn: &mut Turn<'_>) {
        while turn.stock > 0 {
            let Some(thief) = self.waiting.pop_first() else { break };
            turn.give(thief, Amount::Half, Grant::Lifeline);
        }
    }
}

/// Returns the nodes whose place differs from that of this node in one bit.
fn neighbours(turn: &Turn<'_>) -> Vec<NodeId> {
    let nodes = turn.places.nodes();
    let Ok(place) = nodes.binary_search(&turn.me) else { return Vec::new() };
    let bits = usize::BITS - nodes.len().saturating_sub(1).leading_zeros();
    (0..bits).filter_map(|bit| nodes.get(place ^ (1 << bit)).copied()).collect()
}

impl StealingPolicy for Lifeline {
    fn name(&self) -> &'static str {
        "lifeline"
    }

    fn idle(&mut self, turn: &mut Turn<'_>) {
        self.failed = 0;
        if self.asked.is_none() {
            self.ask(turn);
        }
    }

    fn stock(&mut self, turn: &mut Turn<'_>) {
        self.share(turn);
    }

    fn message(&mut self, from: NodeId, message: StealMessage, turn: &mut Turn<'_>) {
        match message {
            StealMessage::Request if turn.give(from, Amount::Half, Grant::Answer) == 0 => {
                turn.send(from, StealMessage::NoTasks { hint: None });
            }
            StealMessage::NoTasks { .. } if self.asked == Some(from) => {
                self.failed += 1;
                self.ask(turn);
            }
            // It may come from any node: others may have learned of a change of places earlier.
            StealMessage::Lifeline => {
                self.waiting.insert(from);
                self.share(turn);
            }
            _ => {}
        }
    }

    fn received(&mut self, from: NodeId, _tasks: u64, grant: Grant, turn: &mut Turn<'_>) {
        match grant {
            Grant::Lifeline => drop(self.told.remove(&from)),
            _ => self.asked = self.asked.filter(|&asked| asked != from),
        }
        self.share(turn);
    }

    fn given(&mut self, to: NodeId, tasks: u64, grant: Grant, turn: &mut Turn<'_>) {
        match grant {
            _ if tasks > 0 => {}
            Grant::Lifeline => drop(self.waiting.insert(to)),
            _ => turn.send(to, StealMessage::NoTasks { hint: None }),
        }
    }

    fn places_changed(&mut self, lost: Option<NodeId>, turn: &mut Turn<'_>) {
        self.waiting.retain(|&node| turn.places.contains(node));
        let neighbours = neighbours(turn);
        if let Some(lost) = lost {
            self.told.remove(&lost);
        }
        // Places in the order of nodes have shifted, and so have neighbours.
        self.told.retain(|node| neighbours.contains(node));
        if self.asked.is_none_or(|asked| !turn.places.contains(asked)) {
            self.ask(turn);
        }
    }
}
