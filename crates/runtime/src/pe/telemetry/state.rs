//! Counts of a PE's work, for samples of the job.

use crate::address::id::KindId;

/// Counts since the start of the run. They affect no decision.
#[derive(Default)]
pub(crate) struct WorkCounts {
    /// Messages handled, by actor type.
    handled: Vec<u64>,
    /// One more than the newest step of which a message was handled; 0 if there is none.
    newest_step: u64,
    tasks_done: u64,
    tasks_waiting: u64,
}

impl WorkCounts {
    /// Counts for a job with this number of actor types.
    pub(crate) fn new(types: usize) -> Self {
        Self { handled: vec![0; types], ..Self::default() }
    }

    /// Notes that messages of one type were handled.
    #[inline]
    pub(crate) fn note_handled(&mut self, kind: KindId, messages: u32) {
        if let Some(handled) = self.handled.get_mut(kind.index()) {
            *handled += u64::from(messages);
        }
    }

    /// Notes that messages of a step were handled.
    #[inline]
    pub(crate) fn note_step(&mut self, step: u64) {
        self.newest_step = self.newest_step.max(step + 1);
    }

    /// Notes that a worker has run tasks. `before` and `now`: the number of its waiting tasks at
    /// the last call, and now.
    pub(crate) fn note_tasks(&mut self, done: u64, before: u64, now: u64) {
        self.tasks_done += done;
        self.tasks_waiting = (self.tasks_waiting + now).saturating_sub(before);
    }

    /// Number of messages handled, of one type.
    pub(crate) fn handled(&self, kind: KindId) -> u64 {
        self.handled.get(kind.index()).copied().unwrap_or_default()
    }

    /// One more than the newest step; 0 if there is none.
    pub(crate) fn newest_step(&self) -> u64 {
        self.newest_step
    }

    /// Number of tasks done, and of those that wait.
    pub(crate) fn tasks(&self) -> (u64, u64) {
        (self.tasks_done, self.tasks_waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_sums_and_the_newest_step_a_maximum() {
        let mut counts = WorkCounts::new(2);
        counts.note_handled(KindId(1), 3);
        counts.note_handled(KindId(1), 4);
        counts.note_handled(KindId(9), 1);
        assert_eq!([KindId(0), KindId(1), KindId(9)].map(|kind| counts.handled(kind)), [0, 7, 0]);
        assert_eq!(counts.newest_step(), 0);
        [5, 2].into_iter().for_each(|step| counts.note_step(step));
        assert_eq!(counts.newest_step(), 6);
    }

    #[test]
    fn waiting_tasks_of_several_workers_add_up() {
        let mut counts = WorkCounts::new(0);
        counts.note_tasks(10, 0, 4);
        counts.note_tasks(1, 0, 7);
        counts.note_tasks(2, 4, 1);
        assert_eq!(counts.tasks(), (13, 8));
        counts.note_tasks(0, 1, 0);
        counts.note_tasks(0, 7, 0);
        assert_eq!(counts.tasks(), (13, 0));
    }
}
