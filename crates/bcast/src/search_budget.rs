//! The budget of a search: a number of evaluations, or a time by the caller's clock.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

/// The limit of a search, and how much of it is spent. It counts in evaluations of a tree, which
/// makes a run repeatable, or in seconds of the caller's clock.
#[derive(Clone)]
pub struct SearchBudget<'a> {
    evaluations: Rc<Cell<u64>>,
    clock: Option<&'a dyn Fn() -> Duration>,
    begin: f64,
    limit: Option<f64>,
}

impl<'a> SearchBudget<'a> {
    /// No limit: each search ends by its own rules. In Gupta and Vadhiyar (2006) this is an
    /// unspecified `time_duration`.
    pub fn unlimited() -> Self {
        Self { evaluations: Rc::default(), clock: None, begin: 0.0, limit: None }
    }

    /// About `limit` evaluations.
    pub fn evaluations(limit: u64) -> Self {
        Self { limit: Some(limit as f64), ..Self::unlimited() }
    }

    /// About this long by `clock`, which may start anywhere but has to advance evenly.
    pub fn time(limit: Duration, clock: &'a dyn Fn() -> Duration) -> Self {
        Self {
            evaluations: Rc::default(),
            clock: Some(clock),
            begin: clock().as_secs_f64(),
            limit: Some(limit.as_secs_f64()),
        }
    }

    /// A part of this budget that begins now, with a separate limit; evaluations count for both.
    pub fn part(&self, limit: Option<f64>) -> Self {
        Self {
            evaluations: Rc::clone(&self.evaluations),
            clock: self.clock,
            begin: self.now(),
            limit,
        }
    }

    /// A part of the remaining budget, `0.0..=1.0`.
    pub fn fraction(&self, share: f64) -> Self {
        self.part(self.limit.map(|_| self.remaining() * share))
    }

    /// Counts one evaluation of a tree.
    #[inline]
    pub fn spend(&self) {
        self.evaluations.set(self.evaluations.get() + 1);
    }

    /// Number of trees evaluated, including those outside this part.
    pub fn spent(&self) -> u64 {
        self.evaluations.get()
    }

    /// Evaluations or seconds spent since this budget began.
    pub fn elapsed(&self) -> f64 {
        self.now() - self.begin
    }

    /// The whole budget, in evaluations or seconds; `None` if it is unlimited.
    pub fn limit(&self) -> Option<f64> {
        self.limit
    }

    /// The remaining evaluations or seconds: at least zero, infinite without a limit.
    pub fn remaining(&self) -> f64 {
        self.limit.map_or(f64::INFINITY, |limit| (limit - self.elapsed()).max(0.0))
    }

    /// Whether nothing is left.
    pub fn is_over(&self) -> bool {
        self.remaining() <= 0.0
    }

    fn now(&self) -> f64 {
        self.clock.map_or(self.evaluations.get() as f64, |clock| clock().as_secs_f64())
    }
}

impl fmt::Debug for SearchBudget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SearchBudget")
            .field("evaluations", &self.evaluations.get())
            .field("limit", &self.limit)
            .field("is_timed", &self.clock.is_some())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evaluations_are_counted_and_a_part_begins_where_it_is_made() {
        let budget = SearchBudget::evaluations(10);
        (0..4).for_each(|_| budget.spend());
        let half = budget.fraction(0.5);

        assert_eq!((budget.elapsed(), budget.remaining()), (4.0, 6.0));
        assert_eq!((half.elapsed(), half.remaining()), (0.0, 3.0));

        (0..3).for_each(|_| half.spend());

        assert!(half.is_over() && !budget.is_over());
        assert_eq!(budget.remaining(), 3.0);
        assert!(!SearchBudget::unlimited().is_over());
    }

    #[test]
    fn the_clock_of_the_caller_ends_the_budget() {
        let now = Cell::new(5);
        let clock = || Duration::from_secs(now.get());
        let budget = SearchBudget::time(Duration::from_secs(3), &clock);

        assert_eq!(budget.remaining(), 3.0);
        now.set(8);
        assert!(budget.is_over());
    }
}
