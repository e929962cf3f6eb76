//! What is done about servers that turn out to be slow.
//!
//! Servers are watched: how long tasks took, beside how long they should have. One that is much slower than
//! another, in what was seen, may lose tasks that have not begun to it, if that has an idle core and would end
//! them clearly earlier. While nobody is much slower nothing is moved, because the mapping knew better. With
//! copies, a task that is late and runs on a slow server is begun again elsewhere on the same terms.

use super::TaskRun;
use super::engine::{Attempt, Engine, Stage};
use super::stock::AttemptId;
use super::watch::Watch;
use crate::id::{Endpoint, ServerId, TaskId};

/// A server is much slower than another if its tasks take so many times as long as they should, measured by
/// how long those of the other take.
const MUCH_SLOWER: f64 = 1.5;
/// A task must end within this part of the time that is left to it where it is.
const CLEARLY_EARLIER: f64 = 0.8;
/// What is seen of a server counts as much as the belief that it is as it was said to be once it has computed for so many
/// tasks of mean size.
const BELIEF_TASKS: f64 = 1.0;

/// A task that could run elsewhere.
struct Offer {
    gain_s: f64,
    attempt: AttemptId,
    to: ServerId,
    is_copy: bool,
}

impl Engine<'_> {
    /// A task has ended, or was given up: then it says something only if it was late.
    pub(super) fn observe(&mut self, run: &TaskRun, has_ended: bool) {
        let expected_s = self.expected_s(run.task, run.server);
        let says = has_ended || run.end_s - run.start_s > expected_s;
        if let Some(watch) = self.watch.as_mut().filter(|_| says) {
            let (took_s, should_s) = &mut watch.seen_s[run.server.index()];
            *took_s += run.end_s - run.start_s;
            *should_s += expected_s;
        }
    }

    fn expected_s(&self, task: TaskId, server: ServerId) -> f64 {
        self.platform.time_s(self.graph.task(task).work_s, server)
    }

    /// How many times as long as they should tasks take on each server, with what those that run show already.
    fn slowness(&self, watch: &Watch) -> Vec<f64> {
        let mut seen_s = watch.seen_s.clone();
        for attempt in &self.attempts {
            if let Stage::Running { since_s } = attempt.stage {
                let expected_s = self.expected_s(attempt.task, attempt.server);
                let (took_s, should_s) = &mut seen_s[attempt.server.index()];
                if self.now_s - since_s > expected_s {
                    *took_s += self.now_s - since_s;
                    *should_s += expected_s;
                }
            }
        }
        let belief_s = watch.mean_s.iter().map(|mean_s| mean_s * BELIEF_TASKS);
        let seen = seen_s.iter().zip(belief_s);
        let ratio = |((took_s, should_s), belief_s): (&(f64, f64), f64)| {
            let both = should_s + belief_s;
            if both > 0.0 { (took_s + belief_s) / both } else { 1.0 }
        };
        seen.map(ratio).collect()
    }

    /// Moves what should be moved.
    pub(super) fn rescue(&mut self) {
        let Some(watch) = &self.watch else { return };
        let slowness = self.slowness(watch);
        let fastest = slowness.iter().copied().fold(f64::INFINITY, f64::min);
        if slowness.iter().all(|&slow| slow < fastest * MUCH_SLOWER) {
            return;
        }
        while let Some(offer) = self.best_offer(&slowness) {
            let Attempt { task, .. } = self.attempts[offer.attempt as usize];
            if !offer.is_copy {
                self.give_up(offer.attempt);
                self.execution.moved += 1;
            }
            self.attempt(task, offer.to);
        }
    }

    /// Cores of a server for which nothing is there or on its way.
    fn idle_cores(&self) -> Vec<u32> {
        let mut idle: Vec<u32> = self.floors.iter().map(|floor| floor.free).collect();
        for attempt in &self.attempts {
            let is_coming = match attempt.stage {
                Stage::Waiting(_) => self.unmade[attempt.task.index()] == 0,
                Stage::Ready => true,
                Stage::Running { .. } | Stage::Over => false,
            };
            if is_coming {
                idle[attempt.server.index()] = idle[attempt.server.index()].saturating_sub(1);
            }
        }
        idle
    }

    /// The move that gains most.
    fn best_offer(&self, slowness: &[f64]) -> Option<Offer> {
        let idle = self.idle_cores();
        let waits_s = self.waits_s(slowness);
        let is_copying = self.watch.as_ref().is_some_and(|watch| watch.is_copying);
        let mut best: Option<Offer> = None;
        for (number, attempt) in (0..).zip(&self.attempts) {
            let from = attempt.server.index();
            let expected_s = self.expected_s(attempt.task, attempt.server) * slowness[from];
            let (left_s, is_copy) = match attempt.stage {
                Stage::Over => continue,
                Stage::Waiting(_) | Stage::Ready if self.unmade[attempt.task.index()] > 0 => {
                    continue;
                }
                Stage::Waiting(_) | Stage::Ready => (waits_s[from] + expected_s, false),
                Stage::Running { since_s } => {
                    let ran_s = self.now_s - since_s;
                    let is_alone = self.current[attempt.task.index()].len() == 1;
                    let is_late = ran_s >= Watch::patience_s(expected_s / slowness[from]) * 0.999;
                    if !(is_copying && is_alone && is_late) {
                        continue;
                    }
                    // What is late without end is expected to take half as long again as it did.
                    ((expected_s - ran_s).max(ran_s / 2.0), true)
                }
            };
            for to in self.platform.server_ids() {
                let is_slower = slowness[from] >= slowness[to.index()] * MUCH_SLOWER;
                let can = self.graph.task(attempt.task).can_run_on(to);
                if idle[to.index()] == 0 || !is_slower || !can {
                    continue;
                }
                let there_s = self.inputs_s(attempt.task, to)
                    + self.expected_s(attempt.task, to) * slowness[to.index()];
                let gain_s = left_s - there_s;
                let is_better = best.as_ref().is_none_or(|best| gain_s > best.gain_s);
                if there_s < left_s * CLEARLY_EARLIER && is_better {
                    best = Some(Offer { gain_s, attempt: number, to, is_copy });
                }
            }
        }
        best
    }

    /// How long what can begin on each server waits for a core, about, in seconds.
    fn waits_s(&self, slowness: &[f64]) -> Vec<f64> {
        let mut waits_s = vec![0.0; slowness.len()];
        let mut queued = vec![0_u32; slowness.len()];
        for attempt in &self.attempts {
            let server = attempt.server.index();
            let expected_s = self.expected_s(attempt.task, attempt.server) * slowness[server];
            match attempt.stage {
                Stage::Ready => {
                    waits_s[server] += expected_s;
                    queued[server] += 1;
                }
                Stage::Running { since_s } => {
                    waits_s[server] += (expected_s - (self.now_s - since_s)).max(0.0);
                    queued[server] += 1;
                }
                Stage::Waiting(_) | Stage::Over => {}
            }
        }
        let cores = self.platform.servers().iter().map(|server| server.cores);
        let has_room = |queued: &u32, cores: u32| *queued < cores;
        let all = waits_s.iter().zip(&queued).zip(cores);
        all.map(|((wait_s, queued), cores)| match has_room(queued, cores) {
            true => 0.0,
            false => wait_s / f64::from(cores) / 2.0,
        })
        .collect()
    }

    /// How long the inputs of a task take to a server, over idle links, in seconds.
    fn inputs_s(&self, task: TaskId, to: ServerId) -> f64 {
        let to = Endpoint::Server(to);
        let nearest_s = |&data: &crate::id::DataId| {
            let bytes = self.graph.datum(data).bytes;
            let holders = self.stock.holders(data).iter();
            let times = holders.map(|&from| self.platform.transfer_s(bytes, from, to));
            times.fold(f64::INFINITY, f64::min)
        };
        self.graph.task(task).inputs.iter().map(nearest_s).fold(0.0, f64::max)
    }
}
