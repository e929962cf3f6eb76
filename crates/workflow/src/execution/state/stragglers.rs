//! What is done about servers that turn out to be slow, as far as whoever ordered can tell.

use super::ExecutionState;
use crate::execution::AttemptId;
use crate::execution::attempts::Attempt;
use crate::execution::task_states::TaskState;
use crate::id::{ServerId, TaskId};
use crate::platform::Platform;
use crate::stragglers::{AttemptState, Observations, OngoingAttempt, Watch};

impl ExecutionState<'_> {
    /// Has a task of a slow server done elsewhere, if that gains something; the attempt that is
    /// taken back for it, if there is one. Call it until it gives nothing.
    pub(in crate::execution) fn rescue(
        &mut self,
        now_s: f64,
        platform: &Platform,
        watch: &Watch,
        inputs_s: &dyn Fn(&Self, TaskId, ServerId) -> f64,
    ) -> Option<Option<AttemptId>> {
        self.note_possible(now_s, inputs_s);
        let cores: Vec<usize> =
            platform.servers().iter().map(|server| server.cores as usize).collect();
        // What waits for the client to bring its arguments has no order yet, and comes.
        let ready = self.tasks.stirred.iter().filter(|&&task| self.is_ready(task));
        let ready = ready.map(|&task| self.tasks.server(task));
        let mut coming = vec![0; cores.len()];
        for to in ready.chain(self.tasks.copies.iter().map(|(_, to)| *to)) {
            coming[to.index()] += 1;
        }
        // Whoever gets a task has a core for it, and nothing else to do. In the course of a large
        // group hardly anybody has.
        let idle = |server: ServerId| match self.is_there(server) {
            true => cores[server.index()]
                .saturating_sub(self.attempts.busy(server) + coming[server.index()]),
            false => 0,
        };
        let idle: Vec<usize> = platform.server_ids().map(idle).collect();
        if idle.iter().all(|cores| *cores == 0) {
            return None;
        }
        let ongoing = self.ongoing(now_s, &cores);
        let of_input = |task, to| inputs_s(self, task, to);
        let (graph, inputs_s) = (self.graph, &of_input);
        let observations = Observations { graph, platform, watch, now_s, ongoing, idle, inputs_s };
        let offer = observations.best_offer(&observations.slowness()?)?;
        if self.tasks.is_tired(offer.task) {
            return None;
        }
        if offer.is_copy {
            self.tasks.copies.push((offer.task, offer.to));
            return Some(None);
        }
        self.withdraw(offer.attempt);
        self.tasks.set(offer.task, TaskState::Waiting);
        self.tasks.send(offer.task, offer.to);
        Some(Some(offer.attempt))
    }

    /// Notes of attempts whose arguments exist by now when these are there, about.
    fn note_possible(&mut self, now_s: f64, inputs_s: &dyn Fn(&Self, TaskId, ServerId) -> f64) {
        for task in self.data.take_complete() {
            let open: Vec<AttemptId> = self.attempts.open_at(task).collect();
            for attempt in open {
                let ready_s = now_s + inputs_s(self, task, self.attempts.at(attempt).server);
                self.attempts.is_possible(attempt, ready_s);
            }
        }
    }

    /// The attempts that go on and whose arguments exist; those that seem to compute take a free
    /// core each. What a server should have begun, for it has cores, runs as far as anybody can
    /// tell: if it does something for others, that shows.
    fn ongoing(&self, now_s: f64, cores: &[usize]) -> Vec<OngoingAttempt> {
        let mut ongoing = Vec::new();
        for (server, &cores) in (0..).map(ServerId).zip(cores) {
            let mut free = cores;
            // Those that have begun first, and then as the server takes them.
            let running = self.attempts.running(server);
            for number in running.chain(self.attempts.possible(server)) {
                let Attempt { task, ready_s, begun_s, .. } = *self.attempts.at(number);
                let ready_s = ready_s.unwrap_or(now_s);
                let state = match begun_s {
                    Some(since_s) => AttemptState::Running { since_s },
                    None if ready_s > now_s => AttemptState::Waiting,
                    None if free == 0 => AttemptState::Ready,
                    None => {
                        let since_s = ready_s.max(self.last_end_s[server.index()]);
                        AttemptState::Running { since_s }
                    }
                };
                if let AttemptState::Running { .. } = state {
                    free = free.saturating_sub(1);
                }
                let is_copied = self.tasks.copies.iter().any(|(of, _)| *of == task);
                let is_alone = !is_copied && self.attempts.open_at(task).count() == 1;
                ongoing.push(OngoingAttempt { number, task, server, state, is_alone });
            }
        }
        #[cfg(test)]
        self.looked_at.set(self.looked_at.get() + ongoing.len());
        ongoing
    }
}
