//! Decides for how long a node keeps all its tasks, where stealing costs more than it saves.
//!
//! A tree of tasks may consist of a long trunk with few branches. A thief that takes the oldest
//! task takes the trunk, and the holder has nothing left. Then nodes have work for less time than a
//! steal takes, steal the trunk from each other, and wait for messages. A node that had work for
//! such a short time keeps its next tasks for about as long as a steal takes, and offers them only
//! if they last until then.

use gridspan_topology::Time;
use std::time::Duration;

/// Periods in which one node has work.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Holdback {
    since: Option<Time>,
    was_brief: bool,
}

impl Holdback {
    /// Records that the node has work, where `steal` is the time that a steal takes. Returns the
    /// time until which the node keeps its tasks, if it does.
    pub(super) fn keeps_until(&mut self, now: Time, steal: Duration) -> Option<Time> {
        let until = *self.since.get_or_insert(now) + steal;
        (self.was_brief && now < until).then_some(until)
    }

    /// Records that the node has run out of work.
    pub(super) fn ended(&mut self, now: Time, steal: Duration) {
        if let Some(since) = self.since.take() {
            self.was_brief = now.since(since) < steal;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEAL: Duration = Duration::from_micros(100);

    fn at(micros: u64) -> Time {
        Time(micros * 1000)
    }

    #[test]
    fn a_node_with_brief_work_keeps_its_next_tasks_for_the_time_of_a_steal() {
        let mut brief = Holdback::default();
        assert_eq!(brief.keeps_until(at(0), STEAL), None);
        brief.ended(at(20), STEAL);

        assert_eq!(brief.keeps_until(at(500), STEAL), Some(at(600)));
        assert_eq!(brief.keeps_until(at(550), STEAL), Some(at(600)));
        assert_eq!(brief.keeps_until(at(600), STEAL), None);

        brief.ended(at(700), STEAL);
        assert_eq!(brief.keeps_until(at(900), STEAL), None);
    }
}
