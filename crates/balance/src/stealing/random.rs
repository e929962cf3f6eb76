//! `random`: asks random other nodes until one gives work (RS in Zhang, Mo, Yang and Zheng (2007),
//! "Dynamic Load-Balancing and High Performance Communication in Jcluster", section 1).

use super::command::{Amount, Grant};
use super::message::StealMessage;
use super::policy::{StealingPolicy, Turn};
use gridspan_topology::NodeId;

/// Random stealing: an idle node asks a random other node, and another one after each refusal,
/// until it gets work. It remembers nothing.
///
/// ```
/// use gridspan_balance::stealing::{MakeStealingPolicy, RandomStealing, StealingPolicy};
///
/// assert_eq!(RandomStealing::half().make().name(), "random-half");
/// ```
#[derive(Clone, Debug)]
pub struct RandomStealing {
    name: &'static str,
    amount: Amount,
    asked: Option<NodeId>,
}

impl RandomStealing {
    /// Steals the oldest task, as in the paper.
    pub fn one() -> Self {
        Self { name: "random", amount: Amount::One, asked: None }
    }

    /// Steals half of the victim's tasks.
    pub fn half() -> Self {
        Self { name: "random-half", amount: Amount::Half, asked: None }
    }

    fn ask(&mut self, turn: &mut Turn<'_>) {
        self.asked = if turn.is_idle { turn.any_other() } else { None };
        if let Some(victim) = self.asked {
            turn.send(victim, StealMessage::Request);
        }
    }
}

impl StealingPolicy for RandomStealing {
    fn name(&self) -> &'static str {
        self.name
    }

    fn idle(&mut self, turn: &mut Turn<'_>) {
        // A request of an earlier idle time may still be unanswered.
        if self.asked.is_none() {
            self.ask(turn);
        }
    }

    fn message(&mut self, from: NodeId, message: StealMessage, turn: &mut Turn<'_>) {
        match message {
            StealMessage::Request if turn.give(from, self.amount, Grant::Answer) == 0 => {
                turn.send(from, StealMessage::NoTasks { hint: None });
            }
            StealMessage::NoTasks { .. } if self.asked == Some(from) => self.ask(turn),
            _ => {}
        }
    }

    fn received(&mut self, from: NodeId, _tasks: u64, _grant: Grant, _turn: &mut Turn<'_>) {
        self.asked = self.asked.filter(|&asked| asked != from);
    }

    fn given(&mut self, to: NodeId, tasks: u64, _grant: Grant, turn: &mut Turn<'_>) {
        if tasks == 0 {
            turn.send(to, StealMessage::NoTasks { hint: None });
        }
    }

    fn places_changed(&mut self, _lost: Option<NodeId>, turn: &mut Turn<'_>) {
        if self.asked.is_none_or(|asked| !turn.places.contains(asked)) {
            self.ask(turn);
        }
    }
}
