//! The treatment of servers that appear slow to the client.

use super::ExecutionState;
use crate::execution::AttemptId;
use crate::execution::input_waits::TransferTime;
use crate::execution::task_states::TaskState;
use crate::id::{ServerId, TaskId};
use crate::platform::Platform;
use crate::stragglers::{AttemptState, Observations, OngoingAttempt, Reassignment, Watch};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of waiting attempts of a server that are examined to see whether it should have
/// begun them: those that it begins first.
const BELIEVED_MAX: usize = 32;

impl ExecutionState<'_> {
    /// Handles the beginning of an attempt.
    pub(in crate::execution) fn begun(&mut self, attempt: AttemptId, now_s: f64) {
        self.attempts.begun(attempt, now_s);
        self.note_wait(attempt, now_s);
        self.note_inputs_of(attempt);
    }

    /// Moves or copies a task of a slow server to another, if that gains time. The caller repeats
    /// this until it returns `None`.
    pub(in crate::execution) fn reassign_straggler(
        &mut self,
        now_s: f64,
        platform: &Platform,
        watch: &Watch,
        transfer_s: TransferTime<'_>,
    ) -> Option<Reassignment> {
        self.note_possible(transfer_s);
        let (mut reserved, data) = (std::mem::take(&mut self.tasks.reserved), &self.data);
        reserved.retain(|task, _| !data.has_inputs(*task) && !self.tasks.is_settled(*task));
        self.tasks.reserved = reserved;
        let cores: Vec<usize> =
            platform.servers().iter().map(|server| server.cores as usize).collect();
        // A task goes only to a server with an idle core and no other work. In the middle of a
        // large group, there is hardly any such server.
        let idle = self.idle_cores(&cores);
        if idle.iter().all(|cores| *cores == 0) {
            return None;
        }
        let ongoing = self.ongoing(now_s, &cores, BELIEVED_MAX);
        let congestion = self.waits.congestion();
        let inputs_s = |task, to| self.inputs_s(task, to, transfer_s) * congestion;
        let outputs_s = |task, from| self.outputs_s(task, from, transfer_s) * congestion;
        let (graph, inputs_s, outputs_s) = (self.graph, &inputs_s, &outputs_s);
        let mut reserved = vec![0; cores.len()];
        self.tasks.reserved.values().for_each(|to| reserved[to.index()] += 1);
        let mut observations = Observations {
            graph,
            platform,
            watch,
            now_s,
            ongoing,
            idle,
            reserved,
            inputs_s,
            outputs_s,
        };
        let slowness = observations.slowness()?;
        observations.ongoing = self.ongoing(now_s, &cores, usize::MAX);
        let imminent = self.imminent(&observations.ongoing);
        observations.ongoing.extend(imminent);
        let offer = observations.best_offer(&slowness)?;
        if self.tasks.has_no_attempts_left(offer.task) {
            return None;
        }
        self.reassign(&offer);
        Some(offer)
    }

    /// Returns the number of idle cores of each server, which has `cores` in all; 0 for a lost
    /// server. The tasks that a server is about to receive occupy cores.
    fn idle_cores(&self, cores: &[usize]) -> Vec<usize> {
        // A task whose arguments the client still has to fetch has no order yet, but will get one.
        let ready = self.tasks.changed.iter().filter(|&&task| self.is_ready(task));
        let ready = ready.map(|&task| self.tasks.server(task));
        let mut coming = vec![0; cores.len()];
        for to in ready.chain(self.tasks.copies.iter().map(|(_, to)| *to)) {
            coming[to.index()] += 1;
        }
        let idle = |(server, &cores): (ServerId, &usize)| match self.is_there(server) {
            true => cores.saturating_sub(self.attempts.busy(server) + coming[server.index()]),
            false => 0,
        };
        (0..).map(ServerId).zip(cores).map(idle).collect()
    }

    /// Moves or copies a task.
    fn reassign(&mut self, offer: &Reassignment) {
        if offer.is_copy {
            self.tasks.copies.push((offer.task, offer.to));
            return;
        }
        if !self.data.has_inputs(offer.task) {
            self.tasks.reserved.insert(offer.task, offer.to);
        }
        offer.attempt.into_iter().for_each(|attempt| self.withdraw(attempt));
        self.tasks.set(offer.task, TaskState::Waiting);
        self.tasks.send(offer.task, offer.to);
    }

    /// Returns the open attempts whose arguments exist. An attempt that its server should have
    /// begun, because the server has a free core, counts as running and occupies a core: a server
    /// that works for other clients instead appears slow. At most `waiting_max` attempts per server
    /// that have not begun are included.
    fn ongoing(&self, now_s: f64, cores: &[usize], waiting_max: usize) -> Vec<OngoingAttempt> {
        let mut ongoing = Vec::new();
        for (server, &cores) in (0..).map(ServerId).zip(cores) {
            let mut free = cores;
            // Attempts that have begun come first, then the others in the order in which the server
            // begins them.
            let running = self.attempts.running(server);
            let possible = self.attempts.possible(server).take(waiting_max);
            let believed = running.len() + BELIEVED_MAX;
            for (place, number) in running.chain(possible).enumerate() {
                let attempt = self.attempts.at(number);
                let (task, begun_s) = (attempt.task, attempt.begun_s);
                let ready_s = self.waits.ready_s(attempt);
                let state = match begun_s {
                    Some(since_s) => AttemptState::Running { since_s },
                    None if ready_s > now_s => AttemptState::Waiting,
                    None if free == 0 || place >= believed => AttemptState::Ready,
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
                let number = Some(number);
                ongoing.push(OngoingAttempt { number, task, server, state, is_alone });
            }
        }
        #[cfg(test)]
        self.looked_at.set(self.looked_at.get() + ongoing.len());
        ongoing
    }

    /// Returns the tasks whose last missing arguments are being made and that can still be moved.
    /// Once the arguments exist, a server with a free core begins them before they can be moved.
    fn imminent(&self, ongoing: &[OngoingAttempt]) -> Vec<OngoingAttempt> {
        let is_running =
            |attempt: &&OngoingAttempt| matches!(attempt.state, AttemptState::Running { .. });
        let running = ongoing.iter().filter(is_running).map(|attempt| attempt.task);
        let mut made: BTreeMap<TaskId, usize> = BTreeMap::new();
        for task in running.collect::<BTreeSet<TaskId>>() {
            let outputs = self.graph.task(task).outputs.iter();
            for &data in outputs.filter(|data| !self.data.exists(**data)) {
                for &reader in &self.graph.datum(data).consumers {
                    *made.entry(reader).or_default() += 1;
                }
            }
        }
        let mut imminent = Vec::new();
        for (task, made) in made {
            let is_last = made == self.data.missing[task.index()];
            if !is_last || self.tasks.is_settled(task) || self.tasks.reserved.contains_key(&task) {
                continue;
            }
            let mut open = self.attempts.open_at(task);
            let (number, other) = (open.next(), open.next());
            let server = self.tasks.server(task);
            let has_begun = number.is_some_and(|number| self.attempts.at(number).begun_s.is_some());
            if other.is_none() && !has_begun {
                let (state, is_alone) = (AttemptState::Imminent, true);
                imminent.push(OngoingAttempt { number, task, server, state, is_alone });
            }
        }
        imminent
    }
}
