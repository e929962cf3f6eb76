//! The turns of the tasks of a rank that make communicators.

use std::collections::VecDeque;
use std::task::{Poll, Waker};

/// Lets one task at a time make a communicator, in the order in which the tasks have asked.
#[derive(Debug, Default)]
pub(crate) struct Makers {
    is_taken: bool,
    last: u64,
    /// The tasks that wait, by number.
    waiting: VecDeque<(u64, Waker)>,
}

impl Makers {
    /// Takes the turn, or lets the task wait for it. `number` is that of a task that waits, and
    /// `None` for one that does not.
    pub(crate) fn poll(&mut self, number: &mut Option<u64>, waker: &Waker) -> Poll<()> {
        let first = self.waiting.front().map(|(first, _)| *first);
        if !self.is_taken && first == *number {
            self.is_taken = true;
            if number.take().is_some() {
                self.waiting.pop_front();
            }
            return Poll::Ready(());
        }
        let known = self.waiting.iter_mut().find(|(other, _)| Some(*other) == *number);
        match known {
            Some((_, kept)) => kept.clone_from(waker),
            None => {
                self.last += 1;
                *number = Some(self.last);
                self.waiting.push_back((self.last, waker.clone()));
            }
        }
        Poll::Pending
    }

    /// Ends a turn.
    pub(crate) fn end(&mut self) {
        self.is_taken = false;
        self.wake_first();
    }

    /// Forgets a task that no longer waits.
    pub(crate) fn forget(&mut self, number: u64) {
        self.waiting.retain(|(other, _)| *other != number);
        if !self.is_taken {
            self.wake_first();
        }
    }

    fn wake_first(&self) {
        if let Some((_, waker)) = self.waiting.front() {
            waker.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_take_turns_in_the_order_of_asking_and_none_waits_for_one_that_was_dropped() {
        let mut makers = Makers::default();
        let (mut first, mut second, mut third, mut late) = (None, None, None, None);
        let poll = |makers: &mut Makers, number: &mut Option<u64>| {
            makers.poll(number, Waker::noop()).is_ready()
        };
        assert!(poll(&mut makers, &mut first));
        assert!(!poll(&mut makers, &mut second) && !poll(&mut makers, &mut third));
        makers.end();
        // A task that asks now does not overtake those that wait.
        assert!(!poll(&mut makers, &mut late) && !poll(&mut makers, &mut third));
        makers.forget(second.unwrap());
        assert!(!poll(&mut makers, &mut late) && poll(&mut makers, &mut third));
        assert!(!poll(&mut makers, &mut late));
        makers.end();
        assert!(poll(&mut makers, &mut late));
        makers.end();
        assert!(poll(&mut makers, &mut first) && makers.waiting.is_empty());
    }
}
