//! Estimates how long waiting tasks will last, in a site or on one node.

use gridspan_topology::Time;

/// Time since which tasks have waited, and the number that has come since.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backlog {
    since: Option<Time>,
    queued: u64,
    /// Number of tasks that waited at first, plus those that came from elsewhere since.
    came: u64,
}

impl Backlog {
    /// Records that `queued` tasks wait now. An increase came from elsewhere.
    pub(super) fn observe(&mut self, now: Time, queued: u64) {
        let more = queued.saturating_sub(self.queued);
        let is_new = self.since.is_none();
        self.observe_spawned(now, queued);
        self.expect(if is_new { 0 } else { more });
    }

    /// Records that `queued` tasks wait now. An increase was spawned by other tasks.
    pub(super) fn observe_spawned(&mut self, now: Time, queued: u64) {
        if self.since.is_none() && queued > 0 {
            (self.since, self.came) = (Some(now), queued);
        }
        self.queued = queued;
    }

    /// Records that `tasks` tasks come from elsewhere.
    pub(super) fn expect(&mut self, tasks: u64) {
        if self.since.is_some() {
            self.came = self.came.saturating_add(tasks);
        }
    }

    /// Records that `tasks` tasks leave; the time for which the backlog has lasted shrinks in
    /// proportion.
    pub(super) fn gave(&mut self, now: Time, tasks: u64) {
        if let Some(since) = &mut self.since {
            let part = tasks as f64 / self.queued.max(tasks).max(1) as f64;
            let lasted = now.0.saturating_sub(since.0) as f64;
            since.0 = since.0.saturating_add((lasted * part) as u64);
            self.queued = self.queued.saturating_sub(tasks);
        }
    }

    /// Returns the nanoseconds for which tasks have waited.
    pub(super) fn lasted_ns(&self, now: Time) -> u64 {
        self.since.map_or(0, |since| now.0.saturating_sub(since.0))
    }

    /// Returns whether other tasks must have spawned the waiting ones: if each task took `observed`
    /// nanoseconds, `workers` workers would have done all tasks that came from elsewhere by now.
    pub(super) fn is_replenished(&self, now: Time, workers: u64, observed: u64) -> bool {
        self.outlasts_at(workers, observed).is_some_and(|time| time <= now)
    }

    /// Returns the time from which [`Backlog::is_replenished`] will hold if tasks wait until then.
    pub(super) fn outlasts_at(&self, workers: u64, observed: u64) -> Option<Time> {
        // The tasks may have waited for the end of one that was already running.
        let rounds = self.came as f64 / workers.max(1) as f64 + 1.0;
        let plausible = DOUBT * rounds * observed as f64;
        self.since.map(|since| Time(since.0.saturating_add(plausible as u64).saturating_add(1)))
    }

    /// Returns the nanoseconds that each of `queued` waiting tasks takes one of `workers` workers;
    /// 0 while there is no data.
    ///
    /// This is the observed time, unless tasks spawn others. In that case, the time of finished
    /// tasks says nothing about waiting ones, and the backlog is expected to last as long again as
    /// it has lasted, even if no time was observed.
    pub(super) fn task_ns(&self, now: Time, queued: u64, workers: u64, observed: u64) -> f64 {
        if self.is_replenished(now, workers, observed) {
            self.lasted_ns(now) as f64 * workers as f64 / queued.max(1) as f64
        } else {
            observed as f64
        }
    }
}

/// Factor by which reported numbers may be off.
const DOUBT: f64 = 2.0;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn tasks_take_the_observed_time_while_it_explains_their_wait() {
        let mut backlog = Backlog::default();
        backlog.observe(Time(0), 64);
        backlog.observe(Time(150 * MS), 2);

        // 64 tasks of 10 ms are done by 4 workers after 160 ms.
        assert_eq!(backlog.task_ns(Time(155 * MS), 2, 4, 10 * MS), 10e6);
        assert!(!backlog.is_replenished(Time(160 * MS), 4, 10 * MS));
    }

    #[test]
    fn a_backlog_that_outlasts_its_tasks_is_expected_to_last_as_long_again() {
        let mut backlog = Backlog::default();
        backlog.observe(Time(0), 50);

        // A tree has 50 waiting nodes of 100 ns each, and 40 after a second.
        backlog.observe(Time(1000 * MS), 40);

        assert!(backlog.is_replenished(Time(1000 * MS), 2, 100));
        assert_eq!(backlog.task_ns(Time(1000 * MS), 40, 2, 100), 1e9 * 2.0 / 40.0);
    }

    #[test]
    fn arriving_tasks_explain_that_some_still_wait() {
        let (mut alone, mut fed) = (Backlog::default(), Backlog::default());
        for time in [0, 40, 80, 120, 160] {
            alone.observe(Time(time * MS), 4);
            fed.observe(Time(time * MS), 4);
            fed.observe(Time((time + 35) * MS), 1);
        }

        let after = Time(200 * MS);

        assert!(alone.is_replenished(after, 1, 10 * MS));
        assert!(!fed.is_replenished(after, 1, 10 * MS));
    }

    #[test]
    fn half_of_the_tasks_last_for_half_as_long() {
        let mut backlog = Backlog::default();
        backlog.observe(Time(0), 40);
        let before = backlog.task_ns(Time(800 * MS), 40, 1, 100);

        backlog.gave(Time(800 * MS), 20);

        assert_eq!(backlog.lasted_ns(Time(800 * MS)), 400 * MS);
        assert_eq!(backlog.task_ns(Time(800 * MS), 20, 1, 100), before);
    }
}
