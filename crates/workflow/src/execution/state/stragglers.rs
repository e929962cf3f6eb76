//! What is done about servers that turn out to be slow, as far as whoever ordered can tell.

use super::{ATTEMPTS_MAX, Attempt, ExecutionState, State};
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
    ) -> Option<Option<usize>> {
        self.note_ready(now_s, inputs_s);
        let (ongoing, mut free) = self.ongoing(now_s, platform);
        for (server, is_there) in self.is_there.iter().enumerate() {
            free[server] = if *is_there { free[server] } else { 0 };
        }
        // What waits for the client to bring its arguments has no order yet, and comes.
        let ready = self.stirred.iter().filter(|&&task| self.is_ready(task));
        let coming = ready.map(|task| self.servers[task.index()]);
        for to in coming.chain(self.copies.iter().map(|(_, to)| *to)) {
            free[to.index()] = free[to.index()].saturating_sub(1);
        }
        let of_input = |task, to| inputs_s(self, task, to);
        let (graph, inputs_s) = (self.graph, &of_input);
        let observations = Observations { graph, platform, watch, now_s, ongoing, free, inputs_s };
        let offer = observations.best_offer(&observations.slowness()?)?;
        if self.counts[offer.task.index()] >= ATTEMPTS_MAX {
            return None;
        }
        if offer.is_copy {
            self.copies.push((offer.task, offer.to));
            return Some(None);
        }
        self.withdraw(offer.attempt);
        self.set(offer.task, State::Waiting);
        self.send(offer.task, offer.to);
        Some(Some(offer.attempt))
    }

    /// Notes of attempts whose arguments exist by now when these are there, about.
    fn note_ready(&mut self, now_s: f64, inputs_s: &dyn Fn(&Self, TaskId, ServerId) -> f64) {
        for attempt in self.open.iter().copied().collect::<Vec<_>>() {
            let Attempt { task, server, ready_s, .. } = self.attempts[attempt];
            if ready_s.is_none() && self.has_inputs(task) {
                self.attempts[attempt].ready_s = Some(now_s + inputs_s(self, task, server));
            }
        }
    }

    /// The attempts that go on, and how many cores of each server have nothing to do. What a server
    /// should have begun, for it has cores, runs as far as anybody can tell: if it does something
    /// for others, that shows.
    fn ongoing(&self, now_s: f64, platform: &Platform) -> (Vec<OngoingAttempt>, Vec<u32>) {
        let mut free: Vec<u32> = platform.servers().iter().map(|server| server.cores).collect();
        let open = self.open.iter().map(|&number| (number, &self.attempts[number]));
        let mut open: Vec<(usize, &Attempt)> = open.collect();
        // Those that have begun first, and then as servers take them.
        open.sort_by_key(|(number, attempt)| {
            (attempt.begun_s.is_none(), self.places[attempt.task.index()], *number)
        });
        let mut ongoing = Vec::new();
        for (number, &Attempt { task, server, ready_s, begun_s, .. }) in open {
            let state = match (begun_s, ready_s) {
                (Some(since_s), _) => Some(AttemptState::Running { since_s }),
                (None, None) => None,
                (None, Some(ready_s)) if ready_s > now_s => Some(AttemptState::Waiting),
                (None, Some(_)) if free[server.index()] == 0 => Some(AttemptState::Ready),
                (None, Some(ready_s)) => {
                    let since_s = ready_s.max(self.last_end_s[server.index()]);
                    Some(AttemptState::Running { since_s })
                }
            };
            if let Some(AttemptState::Running { .. }) = state {
                free[server.index()] = free[server.index()].saturating_sub(1);
            }
            let is_copied = self.copies.iter().any(|(of, _)| *of == task);
            let is_alone = !is_copied && self.open_at(task).count() == 1;
            ongoing.push(OngoingAttempt { number, task, server, state, is_alone });
        }
        (ongoing, free)
    }
}
