//! What is done in a simulated execution about servers that turn out to be slow.

use super::TaskRun;
use super::attempt::{ServerState, Stage};
use super::copies::AttemptId;
use super::engine::{Engine, What};
use crate::id::{Endpoint, ServerId, TaskId};
use crate::stragglers::{AttemptState, Observations, OngoingAttempt, Watch};
use std::collections::BTreeSet;

impl Engine<'_> {
    /// A task has ended, or was given up: then it says something only if it was late.
    pub(super) fn observe(&mut self, run: &TaskRun, has_ended: bool) {
        let expected_s = self.platform.time_s(self.graph.task(run.task).work_s, run.server);
        if let Some(watch) = &mut self.watch {
            watch.observe(run.server, run.end_s - run.start_s, expected_s, has_ended);
        }
    }

    /// Moves what should be moved.
    pub(super) fn reassign(&mut self) {
        let Some(watch) = &self.watch else { return };
        // Whoever gets a task has a core for it, and nothing else to do. This is looked at whenever
        // a task ends, and in the course of a large group hardly anybody has.
        if !self.servers_state.iter().any(ServerState::is_idle) {
            return;
        }
        let slowness = self.observations(watch, &self.running, &|_, _| 0.0).slowness();
        let Some(slowness) = slowness else { return };
        loop {
            let Some(watch) =
                self.watch.as_ref().filter(|_| self.servers_state.iter().any(ServerState::is_idle))
            else {
                return;
            };
            let inputs_s = |task, to| self.inputs_s(task, to);
            let offer = self.observations(watch, &self.possible, &inputs_s).best_offer(&slowness);
            let Some(offer) = offer else { return };
            if !offer.is_copy {
                self.give_up(offer.attempt as AttemptId);
                self.execution.moved += 1;
            }
            self.attempt(offer.task, offer.to);
        }
    }

    /// A task that runs has not ended when it should have.
    pub(super) fn late(&mut self, attempt: AttemptId) {
        if let Stage::Running { since_s } = self.attempts[attempt as usize].stage {
            self.reassign();
            let ran_s = self.now_s - since_s;
            self.at(self.now_s + Watch::look_again_s(ran_s), What::Late(attempt));
        }
    }

    fn observations<'a>(
        &'a self,
        watch: &'a Watch,
        attempts: &BTreeSet<AttemptId>,
        inputs_s: &'a dyn Fn(TaskId, ServerId) -> f64,
    ) -> Observations<'a> {
        let mut ongoing = Vec::new();
        for &number in attempts {
            let attempt = &self.attempts[number as usize];
            let (task, server) = (attempt.task, attempt.server);
            let state = match attempt.stage {
                Stage::Over => continue,
                Stage::Running { since_s } => AttemptState::Running { since_s },
                Stage::Queued(number) => {
                    let queue = &self.servers_state[attempt.server.index()].queue;
                    if queue.is_ready(number) { AttemptState::Ready } else { AttemptState::Waiting }
                }
            };
            let is_alone = self.current[task.index()].len() == 1;
            let number = number as usize;
            ongoing.push(OngoingAttempt { number, task, server, state, is_alone });
        }
        #[cfg(test)]
        self.looked_at.set(self.looked_at.get() + ongoing.len());
        let idle = |state: &ServerState| state.free.saturating_sub(state.waiting) as usize;
        let idle = self.servers_state.iter().map(idle).collect();
        let (graph, platform, now_s) = (self.graph, self.platform, self.now_s);
        Observations { graph, platform, watch, now_s, ongoing, idle, inputs_s }
    }

    /// How long the inputs of a task take to a server, over idle links, in seconds.
    fn inputs_s(&self, task: TaskId, to: ServerId) -> f64 {
        let to = Endpoint::Server(to);
        let nearest_s = |&data: &crate::id::DataId| {
            let bytes = self.graph.datum(data).bytes;
            let holders = self.copies.holders(data).iter();
            let times = holders.map(|&from| self.platform.transfer_s(bytes, from, to));
            times.fold(f64::INFINITY, f64::min)
        };
        self.graph.task(task).inputs.iter().map(nearest_s).fold(0.0, f64::max)
    }
}
