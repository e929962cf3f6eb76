//! The time of a task, as observed by one node.

use gridspan_topology::Time;

/// Estimate from the tasks that are done while the node is not idle. Tasks that they spawn count
/// like any others.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TaskTime {
    known_ns: u64,
    spell: Option<Spell>,
}

/// A period in which the node is not idle.
#[derive(Clone, Copy, Debug)]
struct Spell {
    since: Time,
    /// Number of tasks that were done before it.
    done: u64,
}

impl TaskTime {
    /// Returns the nanoseconds of a task; 0 while they are not known.
    pub(super) fn nanos(&self) -> u64 {
        self.known_ns
    }

    /// Records that the node has work and that `done` tasks are done in total. Returns whether this
    /// gives the first estimate, which needs more tasks than workers: roots differ from the tasks
    /// that they spawn.
    pub(super) fn works(&mut self, now: Time, done: u64, workers: u32) -> bool {
        let spell = *self.spell.get_or_insert(Spell { since: now, done });
        let roots = spell.done.saturating_add(workers.into());
        let is_first = self.known_ns == 0 && done > roots;
        if is_first {
            self.known_ns = spell.sample(now, done, workers);
        }
        is_first
    }

    /// Records that the node has become idle.
    pub(super) fn ended(&mut self, now: Time, done: u64, workers: u32) {
        if let Some(spell) = self.spell.take().filter(|spell| done > spell.done) {
            self.known_ns = blend(self.known_ns, spell.sample(now, done, workers));
        }
    }
}

impl Spell {
    /// Returns the average nanoseconds of the tasks done in this period.
    fn sample(&self, now: Time, done: u64, workers: u32) -> u64 {
        let nanos = u128::from(now.0.saturating_sub(self.since.0)) * u128::from(workers);
        let tasks = u128::from(done.saturating_sub(self.done).max(1));
        u64::try_from(nanos / tasks).unwrap_or(u64::MAX).max(1)
    }
}

/// Moves an estimate a quarter of the way to a sample; returns the sample if there was no estimate.
pub(super) fn blend(known: u64, sample: u64) -> u64 {
    if known == 0 { sample } else { known - known / 4 + sample / 4 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn four_tasks_done_in_forty_ms_take_ten_each() {
        let mut time = TaskTime::default();
        assert_eq!(time.nanos(), 0);

        assert!(!time.works(Time(MS), 7, 1));
        time.ended(Time(41 * MS), 11, 1);

        assert_eq!(time.nanos(), 10 * MS);
    }

    #[test]
    fn the_first_estimate_needs_more_tasks_than_workers() {
        let mut time = TaskTime::default();

        assert!(!time.works(Time(0), 0, 2));
        assert!(!time.works(Time(20 * MS), 2, 2));
        assert!(time.works(Time(30 * MS), 3, 2));
        assert!(!time.works(Time(40 * MS), 4, 2));

        assert_eq!(time.nanos(), 20 * MS);
    }

    #[test]
    fn a_period_without_finished_tasks_gives_no_estimate() {
        let mut time = TaskTime::default();

        time.works(Time(0), 5, 1);
        time.ended(Time(30 * MS), 5, 1);

        assert_eq!(time.nanos(), 0);
    }

    #[test]
    fn later_samples_move_the_estimate_slowly() {
        assert_eq!(blend(0, 400), 400);
        assert_eq!(blend(400, 800), 500);
    }
}
