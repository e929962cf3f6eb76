//! A task that alternates between computing and communicating with all others, as the NAS kernels
//! do in their transposes and sums. Its memory moves with it.
//!
//! In each round one task, a different one each time, receives from all others and then answers all
//! of them.

use gridspan_runtime::{Actor, Context, Ix1, Numbers, Op, To};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// The parameters that all tasks share.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) tasks: u32,
    /// Computation of each task in a round.
    pub(crate) work: Duration,
    pub(crate) rounds: u64,
    /// Whether the tasks never communicate.
    pub(crate) is_silent: bool,
    /// Size of a task in bytes.
    pub(crate) bytes: usize,
    /// Size of a message in bytes.
    pub(crate) message_bytes: usize,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Task {
    plan: Plan,
    memory: Numbers<u8>,
    /// Number of rounds in which it has computed.
    done: u64,
    /// Number of tasks that have reported the end of their computation, by round.
    ready: BTreeMap<u64, u32>,
    heard: u64,
}

/// The messages of a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Message {
    /// Start or continue computing.
    Compute,
    /// Another task has computed in this round.
    Ready(u64, Numbers<u8>),
    /// All tasks have computed in this round.
    All(u64, Numbers<u8>),
}

impl Plan {
    /// Returns the task that receives from all others in a round.
    fn root(&self, round: u64) -> Ix1 {
        Ix1((round % u64::from(self.tasks)) as i32)
    }

    /// Returns the number of messages between tasks.
    pub(crate) fn messages(&self) -> u64 {
        if self.is_silent { 0 } else { 2 * u64::from(self.tasks - 1) * self.rounds }
    }

    pub(crate) fn memory_sum(&self, task: i32) -> u64 {
        memory(self, task).iter().map(|&byte| u64::from(byte)).sum()
    }
}

fn memory(plan: &Plan, task: i32) -> Vec<u8> {
    (0..plan.bytes).map(|at| (at as u64 * 31 + task as u64) as u8).collect()
}

impl Actor for Task {
    type Index = Ix1;
    type Init = Plan;
    type Message = Message;

    fn create(plan: Plan, cx: &mut Context<'_, Self>) -> Self {
        let memory = Numbers::from(memory(&plan, cx.index().0));
        Self { plan, memory, done: 0, ready: BTreeMap::new(), heard: 0 }
    }

    fn handle(&mut self, message: Message, cx: &mut Context<'_, Self>) {
        match message {
            Message::Compute => self.compute(cx),
            Message::Ready(round, data) => {
                self.check(round >= self.done.saturating_sub(1), &data, cx);
                self.note_ready(round, cx);
            }
            Message::All(round, data) => {
                self.check(round + 1 == self.done, &data, cx);
                self.compute(cx);
            }
        }
    }

    fn heap_bytes(message: &Message) -> usize {
        match message {
            Message::Compute => 0,
            Message::Ready(_, data) | Message::All(_, data) => data.len(),
        }
    }
}

impl Task {
    fn compute(&mut self, cx: &mut Context<'_, Self>) {
        if self.done == self.plan.rounds {
            let sum = self.memory.iter().map(|&byte| u64::from(byte)).sum::<u64>();
            return cx.contribute(Op::Sum, vec![sum, self.done, self.heard], To::main());
        }
        cx.charge(self.plan.work);
        self.done += 1;
        let round = self.done - 1;
        if self.plan.is_silent {
            let me = cx.me();
            return cx.send(&me, Message::Compute);
        }
        let root = self.plan.root(round);
        if root == cx.index() {
            return self.note_ready(round, cx);
        }
        let data = self.data(cx);
        cx.send(&cx.collection().at(root), Message::Ready(round, data));
    }

    /// Counts the tasks that have computed, including this one. Answers once all have.
    fn note_ready(&mut self, round: u64, cx: &mut Context<'_, Self>) {
        let ready = self.ready.entry(round).or_default();
        *ready += 1;
        if *ready < self.plan.tasks {
            return;
        }
        self.ready.remove(&round);
        let me = cx.index();
        for other in (0..self.plan.tasks as i32).map(Ix1).filter(|other| *other != me) {
            let data = self.data(cx);
            cx.send(&cx.collection().at(other), Message::All(round, data));
        }
        let me = cx.me();
        cx.send(&me, Message::Compute);
    }

    fn data(&self, cx: &Context<'_, Self>) -> Numbers<u8> {
        Numbers::from(vec![cx.index().0 as u8; self.plan.message_bytes])
    }

    fn check(&mut self, is_due: bool, data: &Numbers<u8>, cx: &mut Context<'_, Self>) {
        self.heard += 1;
        if !is_due || data.len() != self.plan.message_bytes {
            cx.fail("verified: no (a message came twice, out of turn or changed)");
        }
    }
}
