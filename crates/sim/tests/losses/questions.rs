//! The questions of an actor, and those of others that it has not answered.

use gridspan_runtime::Reply;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};

/// Questions in both directions.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Questions {
    /// Number of questions asked, and those of them that have no answer.
    asked: u64,
    open: BTreeSet<u64>,
    /// Questions of others, each with its value.
    waiting: VecDeque<(u64, Reply<u64>)>,
}

impl Questions {
    /// Opens a question and returns its number.
    pub(crate) fn open(&mut self) -> u64 {
        self.asked += 1;
        self.open.insert(self.asked);
        self.asked
    }

    /// Closes the question of this number. Returns whether it was open.
    pub(crate) fn close(&mut self, number: u64) -> bool {
        self.open.remove(&number)
    }

    /// Keeps a question of another actor.
    pub(crate) fn keep(&mut self, value: u64, reply: Reply<u64>) {
        self.waiting.push_back((value, reply));
    }

    /// Removes the question of another actor that has waited for the longest time.
    pub(crate) fn take(&mut self) -> Option<(u64, Reply<u64>)> {
        self.waiting.pop_front()
    }
}
