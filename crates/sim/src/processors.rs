//! The processors of one node, which its PEs and other users' processes share fairly.
//!
//! Each computing process gets an equal share of the node's processors, but at most one: with `c`
//! processors and `n` processes, `c / n` (Iskra, Hendrikse, van Albada, Overeinder and Sloot
//! (2000), "Performance Measurements on Dynamite/DPVM", section 3.3: three tasks and one foreign
//! process get a quarter each). Since all shares are equal, one clock that counts the time that
//! each has got is enough, and a PE is done when that clock reaches a mark.

use gridspan_runtime::{PeId, Time};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// The processors of a node, and the PEs that compute on them.
#[derive(Debug)]
pub(crate) struct Processors {
    count: u64,
    /// Number of other users' processes that compute.
    foreign: u64,
    /// Future numbers of other users' processes, with the times from which they apply.
    changes: VecDeque<(Time, u32)>,
    now: Time,
    /// Processor time in nanoseconds of a process that has computed since the start.
    got: u64,
    /// Computing PEs, by the mark at which they are done.
    running: BTreeSet<(u64, PeId)>,
}

impl Processors {
    /// `count` processors. `changes` gives the number of foreign processes by time; there are none
    /// at first.
    pub(crate) fn new(count: u32, changes: impl IntoIterator<Item = (Time, u32)>) -> Self {
        Self {
            count: u64::from(count.max(1)),
            foreign: 0,
            changes: changes.into_iter().collect(),
            now: Time::ZERO,
            got: 0,
            running: BTreeSet::new(),
        }
    }

    /// Whether this number of PEs never has to share processors.
    pub(crate) fn are_ample_for(&self, pes: usize) -> bool {
        self.count >= pes as u64 && self.changes.is_empty() && self.foreign == 0
    }

    /// Starts `work` of a PE that does not compute yet.
    pub(crate) fn begin(&mut self, now: Time, pe: PeId, work: Duration) {
        self.advance(now);
        let work_ns = u64::try_from(work.as_nanos()).unwrap_or(u64::MAX);
        self.running.insert((self.got.saturating_add(work_ns), pe));
    }

    /// Takes one of the PEs that are done by now.
    pub(crate) fn take_done(&mut self, now: Time) -> Option<PeId> {
        self.advance(now);
        let &(mark, pe) = self.running.first()?;
        (mark <= self.got).then(|| {
            self.running.pop_first();
            pe
        })
    }

    /// The time at which the next PE will be done or the shares will change. `None` while no PE
    /// computes.
    pub(crate) fn next(&self) -> Option<Time> {
        let &(mark, _) = self.running.first()?;
        let left = u128::from(mark.saturating_sub(self.got));
        let (count, all) = self.part();
        let takes = (left * u128::from(all)).div_ceil(u128::from(count));
        let done = Time(self.now.0.saturating_add(u64::try_from(takes).unwrap_or(u64::MAX)));
        Some(self.changes.front().map_or(done, |&(at, _)| done.min(at.max(self.now))))
    }

    /// The share of a processor that each process gets, as a fraction.
    fn part(&self) -> (u64, u64) {
        let all = self.running.len() as u64 + self.foreign;
        if all > self.count { (self.count, all) } else { (1, 1) }
    }

    fn advance(&mut self, to: Time) {
        while let Some(&(at, foreign)) = self.changes.front().filter(|&&(at, _)| at <= to) {
            self.let_pass(at);
            self.foreign = u64::from(foreign);
            self.changes.pop_front();
        }
        self.let_pass(to);
    }

    fn let_pass(&mut self, to: Time) {
        let (count, all) = self.part();
        let passed = u128::from(to.since(self.now).as_nanos() as u64);
        // Rounded down here and up in `next`, so that a PE is done at the time that `next` returns.
        self.got += (passed * u128::from(count) / u128::from(all)) as u64;
        self.now = self.now.max(to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(millis: u64) -> Time {
        Time(millis * 1_000_000)
    }

    /// Starts a PE at 0 for each of `works` in ms. Returns the PEs in the order in which they are
    /// done, with the time in ms.
    fn ends(processors: &mut Processors, works: &[u32]) -> Vec<(u32, f64)> {
        for (pe, &work) in works.iter().enumerate() {
            processors.begin(at(0), PeId(pe as u32), MS * work);
        }
        let mut ends = Vec::new();
        while let Some(now) = processors.next() {
            while let Some(pe) = processors.take_done(now) {
                ends.push((pe.0, now.0 as f64 * 1e-6));
            }
        }
        ends
    }

    #[test]
    fn pes_that_do_not_share_take_as_long_as_their_work() {
        let mut processors = Processors::new(2, []);
        assert!(processors.are_ample_for(2) && !processors.are_ample_for(3));
        assert_eq!(ends(&mut processors, &[5, 7]), [(0, 5.0), (1, 7.0)]);
    }

    #[test]
    fn three_tasks_and_a_foreign_process_get_a_quarter_each() {
        let mut processors = Processors::new(1, [(at(0), 1)]);
        // Until 40 ms each of the four gets 10 ms; then three are left, and then two.
        assert_eq!(ends(&mut processors, &[10, 20, 30]), [(0, 40.0), (1, 70.0), (2, 90.0)]);
    }

    #[test]
    fn temporary_foreign_load_takes_half_of_a_processor() {
        let mut processors = Processors::new(1, [(at(10), 1), (at(30), 0)]);
        assert_eq!(ends(&mut processors, &[25]), [(0, 35.0)]);
    }

    #[test]
    fn foreign_load_that_has_ended_does_not_count() {
        let mut processors = Processors::new(1, [(at(10), 1), (at(30), 0)]);
        processors.begin(at(40), PeId(0), MS);
        assert_eq!(processors.next(), Some(at(41)));
    }

    #[test]
    fn work_beyond_the_range_of_time_does_not_end_early() {
        let mut processors = Processors::new(1, [(at(0), 1)]);
        processors.begin(at(7), PeId(0), MS);
        processors.begin(at(7), PeId(1), Duration::MAX);
        assert_eq!(processors.next(), Some(at(10)));
        assert_eq!(processors.take_done(at(10)), Some(PeId(0)));
        assert_eq!(processors.take_done(at(1 << 40)), None);
        assert_eq!(processors.next(), Some(Time::MAX));
    }

    #[test]
    fn work_ends_although_shares_are_fractions_of_nanoseconds() {
        let mut processors = Processors::new(2, [(Time(5), 4), (Time(11), 1), (Time(1000), 0)]);
        let works = (1..=7).map(|pe| Duration::from_nanos(331 * pe));
        works.enumerate().for_each(|(pe, work)| processors.begin(at(0), PeId(pe as u32), work));

        let mut done = 0;
        for _ in 0..100 {
            let Some(now) = processors.next() else { break };
            done += std::iter::from_fn(|| processors.take_done(now)).count();
        }

        assert_eq!(done, 7);
    }
}
