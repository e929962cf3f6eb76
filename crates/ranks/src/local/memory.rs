//! The memory that a rank exposes to others, and the locks on it.

use crate::content::Content;
use crate::element::Element;
use crate::error::CallSite;
use crate::packet::{Access, Answer};
use crate::runs::{Run, runs};
use std::any::Any;
use std::collections::{BTreeSet, VecDeque};

/// The call site of errors that cannot occur: ranks check their accesses before they send them.
const AT: CallSite =
    CallSite { call: "access to a window", peer: None, tag: None, communicator: 0 };

/// Largest number of ranks before a request for a lock that are looked up for the search for
/// deadlocks. Longer queues are seldom in a deadlock, and the lookup takes time.
const BEFORE_MAX: usize = 1000;

/// Combines elements of a window with others.
pub(crate) type Combine<T> = Box<dyn Fn(&mut [T], &[T]) + Send>;

/// The elements that a rank exposes.
pub(crate) struct Memory<T> {
    pub(crate) values: Vec<T>,
    combine: Combine<T>,
}

impl<T> Memory<T> {
    pub(crate) fn new(values: Vec<T>, combine: Combine<T>) -> Self {
        Self { values, combine }
    }
}

/// Memory of elements of some type.
trait Exposed: Send {
    fn put(&mut self, at: usize, content: &Content);
    fn accumulate(&mut self, at: usize, content: &Content);
    fn get(&self, at: usize, count: usize) -> Content;
    fn as_any(&mut self) -> &mut dyn Any;
}

impl<T: Element> Exposed for Memory<T> {
    fn put(&mut self, at: usize, content: &Content) {
        if let Some(target) = self.values.get_mut(at..) {
            let _ = content.copy_to(target, AT);
        }
    }

    fn accumulate(&mut self, at: usize, content: &Content) {
        let Ok(values) = content.to_vec::<T>(AT) else { return };
        let end = at.checked_add(values.len());
        if let Some(target) = end.and_then(|end| self.values.get_mut(at..end)) {
            (self.combine)(target, &values);
        }
    }

    fn get(&self, at: usize, count: usize) -> Content {
        let end = at.checked_add(count);
        Content::copied(end.and_then(|end| self.values.get(at..end)).unwrap_or_default())
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// A window of one rank.
pub(crate) struct Window {
    memory: Box<dyn Exposed>,
    locks: Locks,
}

impl Window {
    pub(crate) fn new<T: Element>(memory: Memory<T>) -> Self {
        Self { memory: Box::new(memory), locks: Locks::default() }
    }

    pub(crate) fn values<T: Element>(&mut self) -> Option<&mut Vec<T>> {
        Some(&mut self.memory.as_any().downcast_mut::<Memory<T>>()?.values)
    }

    /// Carries out an access of a rank of the job. Returns the answers, with their receivers.
    pub(crate) fn access(&mut self, from: u32, token: u32, access: &Access) -> Vec<(u32, Answer)> {
        let done = |content| vec![(from, Answer { token, content })];
        match access {
            Access::Put { at, content } => {
                self.memory.put(*at as usize, content);
                done(None)
            }
            Access::Accumulate { at, content } => {
                self.memory.accumulate(*at as usize, content);
                done(None)
            }
            Access::Get { at, count } => done(Some(self.memory.get(*at as usize, *count as usize))),
            Access::FetchAndAccumulate { at, content, count } => {
                let before = self.memory.get(*at as usize, *count as usize);
                self.memory.accumulate(*at as usize, content);
                done(Some(before))
            }
            Access::Lock { is_exclusive } => {
                self.locks.ask(LockRequest { from, token, is_exclusive: *is_exclusive })
            }
            Access::Unlock => self.locks.release(from),
            Access::Withdraw { lock } => self.locks.withdraw(from, *lock),
        }
    }

    /// Notes that the rank of a request for a lock wants to know when the ranks before it become
    /// fewer.
    pub(crate) fn watch(&mut self, from: u32, lock: u32) {
        self.locks.watched.insert((from, lock));
    }

    /// Removes and returns these requests: the rank, and the number of the request. Some may have
    /// the lock by now.
    pub(crate) fn take_watched(&mut self) -> BTreeSet<(u32, u32)> {
        std::mem::take(&mut self.locks.watched)
    }

    /// The ranks before a request for a lock: those that hold it and those that have asked earlier.
    /// One of them must act before the lock is granted, and others never come before the request.
    /// `None` if it does not wait, or if they are too many or more than `most` runs.
    pub(crate) fn before(&self, from: u32, lock: u32, most: usize) -> Option<Vec<Run>> {
        runs(self.locks.before(from, lock)?, most)
    }

    /// Releases the locks that a failed rank holds, and drops its requests. Returns the answers to
    /// the ranks that now get a lock.
    pub(crate) fn forget(&mut self, rank: u32) -> Vec<(u32, Answer)> {
        self.locks.forget(rank)
    }
}

/// A request of a rank for a lock, with the number of the access.
struct LockRequest {
    from: u32,
    token: u32,
    is_exclusive: bool,
}

/// The locks on a window: one exclusive, or any number of shared ones, in the order of asking.
#[derive(Default)]
struct Locks {
    /// The ranks that hold a lock, each with the number of its request; several only if the lock is
    /// shared.
    holders: Vec<(u32, u32)>,
    is_exclusive: bool,
    waiting: VecDeque<LockRequest>,
    /// The requests whose ranks want to know when the ranks before them become fewer.
    watched: BTreeSet<(u32, u32)>,
}

impl Locks {
    fn ask(&mut self, request: LockRequest) -> Vec<(u32, Answer)> {
        self.waiting.push_back(request);
        self.grant()
    }

    fn release(&mut self, from: u32) -> Vec<(u32, Answer)> {
        if let Some(at) = self.holders.iter().position(|(holder, _)| *holder == from) {
            self.holders.swap_remove(at);
        }
        self.grant()
    }

    /// Drops a request whose rank no longer waits for it, or releases the lock if it was granted.
    fn withdraw(&mut self, from: u32, lock: u32) -> Vec<(u32, Answer)> {
        self.holders.retain(|holder| *holder != (from, lock));
        self.waiting.retain(|request| (request.from, request.token) != (from, lock));
        self.grant()
    }

    /// The ranks that hold the lock, and those that have asked before this request.
    fn before(&self, from: u32, lock: u32) -> Option<BTreeSet<u32>> {
        let waiting_max = BEFORE_MAX.checked_sub(self.holders.len())?;
        let is_this = |asker: &LockRequest| (asker.from, asker.token) == (from, lock);
        let earlier = self.waiting.iter().take(waiting_max + 1).position(is_this)?;
        let holders = self.holders.iter().map(|(holder, _)| *holder);
        Some(holders.chain(self.waiting.iter().take(earlier).map(|asker| asker.from)).collect())
    }

    fn forget(&mut self, rank: u32) -> Vec<(u32, Answer)> {
        self.holders.retain(|(holder, _)| *holder != rank);
        self.waiting.retain(|asker| asker.from != rank);
        self.grant()
    }

    fn grant(&mut self) -> Vec<(u32, Answer)> {
        let mut answers = Vec::new();
        while let Some(next) = self.waiting.front() {
            let is_free = self.holders.is_empty() || !(self.is_exclusive || next.is_exclusive);
            if !is_free {
                break;
            }
            let Some(LockRequest { from, token, is_exclusive }) = self.waiting.pop_front() else {
                break;
            };
            self.holders.push((from, token));
            self.is_exclusive = is_exclusive;
            answers.push((from, Answer { token, content: None }));
        }
        answers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(answers: &[(u32, Answer)]) -> Vec<u32> {
        answers.iter().map(|(from, _)| *from).collect()
    }

    #[test]
    fn locks_are_granted_in_the_order_of_asking() {
        let mut locks = Locks::default();
        let mut ask = |from, is_exclusive| {
            granted(&locks.ask(LockRequest { from, token: from, is_exclusive }))
        };
        assert_eq!((ask(1, false), ask(2, false), ask(3, true)), (vec![1], vec![2], vec![]));
        // A shared one waits behind an exclusive one.
        assert_eq!((ask(4, false), ask(5, false)), (vec![], vec![]));
        assert!(locks.release(1).is_empty());
        assert_eq!(granted(&locks.release(2)), [3]);
        assert_eq!(granted(&locks.release(3)), [4, 5]);
        assert!(locks.release(9).is_empty());
    }

    #[test]
    fn a_lock_that_is_no_longer_wanted_holds_up_no_other() {
        let mut locks = Locks::default();
        let mut ask =
            |from, token| granted(&locks.ask(LockRequest { from, token, is_exclusive: true }));
        assert_eq!((ask(1, 7), ask(2, 7), ask(3, 9)), (vec![1], vec![], vec![]));
        assert!(locks.withdraw(2, 7).is_empty());
        assert!(locks.withdraw(3, 8).is_empty());
        assert_eq!(granted(&locks.withdraw(1, 7)), [3]);
        assert!(granted(&locks.release(3)).is_empty());
    }

    #[test]
    fn before_a_request_are_the_holders_and_the_earlier_requests() {
        let mut locks = Locks::default();
        for (from, is_exclusive) in [(4, false), (1, false), (2, true), (4, false), (3, true)] {
            locks.ask(LockRequest { from, token: 10 + from, is_exclusive });
        }
        let before = |locks: &Locks, from| {
            locks.before(from, 10 + from).map(|ranks| ranks.into_iter().collect::<Vec<_>>())
        };
        // Rank 4 also waits behind itself.
        assert_eq!([2, 4].map(|from| before(&locks, from)), [vec![1, 4], vec![1, 2, 4]].map(Some));
        // Rank 1 has the lock, and rank 5 has not asked.
        assert_eq!([1, 5].map(|from| before(&locks, from)), [None, None]);
        locks.release(1);
        locks.withdraw(2, 12);
        // Rank 4 has both of its shared locks.
        assert_eq!([4, 3].map(|from| before(&locks, from)), [None, Some(vec![4])]);
        for from in 100..100 + BEFORE_MAX as u32 {
            locks.ask(LockRequest { from, token: 10 + from, is_exclusive: true });
        }
        let last = 100 + BEFORE_MAX as u32 - 1;
        assert!(before(&locks, last - 2).is_some() && before(&locks, last).is_none());
    }

    #[test]
    fn the_locks_of_a_failed_rank_go_to_the_next_ones() {
        let mut locks = Locks::default();
        let mut ask =
            |from| granted(&locks.ask(LockRequest { from, token: from, is_exclusive: true }));
        assert_eq!((ask(1), ask(2), ask(3)), (vec![1], vec![], vec![]));
        assert!(locks.forget(2).is_empty());
        assert_eq!(granted(&locks.forget(1)), [3]);
    }

    #[test]
    fn accesses_change_and_return_elements() {
        let combine = |left: &mut [i64], right: &[i64]| left[0] += right[0];
        let mut window = Window::new(Memory::new(vec![1_i64, 2, 3], Box::new(combine)));
        let content = Content::copied(&[10_i64]);
        window.access(0, 1, &Access::Put { at: 2, content: content.clone() });
        let answers = window.access(0, 2, &Access::FetchAndAccumulate { at: 1, content, count: 1 });
        assert_eq!(answers[0].1.content, Some(Content::copied(&[2_i64])));
        assert_eq!(window.values::<i64>(), Some(&mut vec![1, 12, 10]));
        assert!(window.values::<u64>().is_none());
    }

    #[test]
    fn an_access_beyond_the_elements_changes_and_returns_nothing() {
        let combine = |left: &mut [i64], right: &[i64]| left[0] += right[0];
        let mut window = Window::new(Memory::new(vec![1_i64, 2, 3], Box::new(combine)));
        let content = Content::copied(&[10_i64, 20]);
        for at in [2, u64::MAX - 1, u64::MAX] {
            window.access(0, 1, &Access::Put { at, content: content.clone() });
            window.access(0, 2, &Access::Accumulate { at, content: content.clone() });
            for count in [2, u64::MAX] {
                let answers = window.access(0, 3, &Access::Get { at, count });
                assert_eq!(answers[0].1.content, Some(Content::copied::<i64>(&[])));
            }
        }
        assert_eq!(window.values::<i64>(), Some(&mut vec![1, 2, 3]));
    }
}
