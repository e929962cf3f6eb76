//! The treatment of slow servers: one policy, for simulated and real executions.
//!
//! The client compares the times that tasks took with the expected times. A task that has not
//! begun, or whose inputs are being made, may move to a server that is much faster by this measure,
//! has an idle core, and would end the task clearly earlier. The time that counts is the time until
//! the outputs are where they are needed; a transfer is estimated to take its time over idle links,
//! times the observed congestion. While no server is much slower than another, no task is moved,
//! because the mapping is based on more knowledge. With copies, a late task on a slow server is
//! begun a second time elsewhere under the same conditions.

mod watch;

use crate::graph::TaskGraph;
use crate::id::{ServerId, TaskId};
use crate::platform::Platform;
use std::time::Duration;
pub use watch::Watch;

/// Ratio of slowness at which a server is much slower than another, where slowness is the ratio of
/// actual to expected times of its tasks.
const MUCH_SLOWER: f64 = 1.5;
/// Fraction of a task's remaining time within which it must end elsewhere to be moved.
const CLEARLY_EARLIER: f64 = 0.8;
/// Number of tasks of mean size after which the observations of a server have the same weight as
/// its stated speed.
const BELIEF_TASKS: f64 = 1.0;
/// Maximum number of attempts queued on a server that are compared for each move, which makes the
/// cost of moves near-linear in the number of tasks of a slow server.
const CONSIDERED_MAX: usize = 32;

/// The measures against slow servers during an execution.
///
/// ```
/// # use gridspan_topology::GridSpec;
/// # use gridspan_workflow::heuristics::{Heft, Heuristic};
/// # use gridspan_workflow::simulate::{Perturbations, execute};
/// # use gridspan_workflow::{described, wfcommons::layered};
/// use gridspan_workflow::stragglers::StragglerPolicy;
///
/// # let graph = layered(40, 1).unwrap();
/// # let platform = described(&GridSpec::from_emulate("1x2").unwrap(), None);
/// # let mapping = Heft.map(&graph, &platform).unwrap();
/// // The first server turns out to be ten times slower than its speed says.
/// let slow = Perturbations::default().with_servers(vec![10.0]);
/// let makespan_s = |policy| execute(&graph, &platform, &mapping, &slow, policy).makespan_s;
/// assert!(makespan_s(StragglerPolicy::Steal) < makespan_s(StragglerPolicy::None) / 2.0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StragglerPolicy {
    /// None: tasks run where they were mapped.
    #[default]
    None,
    /// Idle servers take tasks from slow ones.
    Steal,
    /// Like [`Steal`](Self::Steal), and late tasks are begun a second time elsewhere; the attempt
    /// that ends first counts.
    StealAndCopy,
}

/// The progress of an attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum AttemptState {
    /// The last of its inputs are being made.
    Imminent,
    /// Its inputs are being transferred.
    Waiting,
    /// It could begin.
    Ready,
    /// It runs.
    Running {
        /// Start in seconds.
        since_s: f64,
    },
}

/// Number of checks for slow servers in the time of a mean task, if the servers are real.
const POLLS_PER_TASK: f64 = 4.0;
/// Maximum interval between checks, unless the minimum interval is longer.
const POLLING_INTERVAL_MAX: Duration = Duration::from_secs(1);
/// Minimum interval between checks, per task of the group. The cost of a check grows with the
/// number of tasks; if the interval grows too, checks take only a small part of the client's time.
const POLLING_INTERVAL_EACH: Duration = Duration::from_micros(5);

/// Returns the interval between checks for slow servers of a group: `least` if its tasks are few
/// and short.
pub fn polling_interval(graph: &TaskGraph, least: Duration) -> Duration {
    let tasks = graph.tasks().len().max(1);
    let interval_s = graph.work_s() / tasks as f64 / POLLS_PER_TASK;
    let polling_interval = Duration::try_from_secs_f64(interval_s).unwrap_or(POLLING_INTERVAL_MAX);
    let least =
        least.max(POLLING_INTERVAL_EACH.saturating_mul(tasks.min(u32::MAX as usize) as u32));
    polling_interval.min(POLLING_INTERVAL_MAX).max(least)
}

/// An attempt that is not over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OngoingAttempt {
    /// Its number, if its server has the order.
    pub number: Option<usize>,
    /// The task.
    pub task: TaskId,
    /// The server.
    pub server: ServerId,
    /// Its progress.
    pub state: AttemptState,
    /// Whether it is the only attempt at its task.
    pub is_alone: bool,
}

/// A possible move of a task to another server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reassignment {
    gain_s: f64,
    /// The number of the attempt, if its server has the order.
    pub attempt: Option<usize>,
    /// The task.
    pub task: TaskId,
    /// The server to which it could move.
    pub to: ServerId,
    /// Whether the old attempt continues beside the new one.
    pub is_copy: bool,
}

/// A snapshot of an execution.
pub struct Observations<'a> {
    /// The tasks.
    pub graph: &'a TaskGraph,
    /// The servers.
    pub platform: &'a Platform,
    /// The observations of the servers.
    pub watch: &'a Watch,
    /// Current time in seconds.
    pub now_s: f64,
    /// The open attempts whose inputs exist or will soon, those of a server in the order in which
    /// it begins them.
    pub ongoing: Vec<OngoingAttempt>,
    /// Number of cores of each server with no task present or coming.
    pub idle: Vec<usize>,
    /// Number of cores of each server that are reserved for tasks moved there whose inputs are
    /// being made: other tasks may use them meanwhile, but no more such tasks may be moved there.
    pub reserved: Vec<usize>,
    /// Transfer time of the inputs of a task to a server, in seconds.
    pub inputs_s: &'a dyn Fn(TaskId, ServerId) -> f64,
    /// Transfer time of the outputs of a task from a server to where they are needed, in seconds.
    pub outputs_s: &'a dyn Fn(TaskId, ServerId) -> f64,
}

impl Observations<'_> {
    fn expected_s(&self, task: TaskId, server: ServerId) -> f64 {
        self.platform.time_s(self.graph.task(task).work_s, server)
    }

    /// Returns the slowness of each server, the ratio of actual to expected times of its tasks,
    /// including running tasks that are already over their time; `None` if no server is much slower
    /// than another.
    pub fn slowness(&self) -> Option<Vec<f64>> {
        let mut seen_s = self.watch.seen_s.clone();
        for attempt in &self.ongoing {
            if let AttemptState::Running { since_s } = attempt.state {
                let expected_s = self.expected_s(attempt.task, attempt.server);
                let (seen_took_s, seen_expected_s) = &mut seen_s[attempt.server.index()];
                if self.now_s - since_s > expected_s {
                    *seen_took_s += self.now_s - since_s;
                    *seen_expected_s += expected_s;
                }
            }
        }
        let belief_s = self.watch.mean_s.iter().map(|mean_s| mean_s * BELIEF_TASKS);
        let seen = seen_s.iter().zip(belief_s);
        let ratio = |((took_s, expected_s), belief_s): (&(f64, f64), f64)| {
            let both = expected_s + belief_s;
            if both > 0.0 { (took_s + belief_s) / both } else { 1.0 }
        };
        let slowness: Vec<f64> = seen.map(ratio).collect();
        let fastest = slowness.iter().copied().fold(f64::INFINITY, f64::min);
        slowness.iter().any(|&slow| slow >= fastest * MUCH_SLOWER).then_some(slowness)
    }

    /// Returns the move that gains most time.
    pub fn best_offer(&self, slowness: &[f64]) -> Option<Reassignment> {
        let idle: Vec<ServerId> =
            self.platform.server_ids().filter(|server| self.idle[server.index()] > 0).collect();
        if idle.is_empty() {
            return None;
        }
        let waits_s = self.waits_s(slowness);
        let mut best: Option<Reassignment> = None;
        for attempt in self.considered() {
            let Some((left_s, is_copy)) = self.left_s(attempt, slowness, &waits_s) else {
                continue;
            };
            let from = attempt.server.index();
            let outputs_left_s = (self.outputs_s)(attempt.task, attempt.server);
            let is_imminent = attempt.state == AttemptState::Imminent;
            for &to in &idle {
                if is_imminent && self.idle[to.index()] <= self.reserved[to.index()] {
                    continue;
                }
                let is_slower = slowness[from] >= slowness[to.index()] * MUCH_SLOWER;
                let can = self.graph.task(attempt.task).can_run_on(to);
                if !is_slower || !can {
                    continue;
                }
                // The transfer time of outputs that is common to both servers does not count.
                let outputs_there_s = (self.outputs_s)(attempt.task, to);
                let common_s = outputs_left_s.min(outputs_there_s);
                let left_s = left_s + outputs_left_s - common_s;
                let there_s = (self.inputs_s)(attempt.task, to)
                    + self.expected_s(attempt.task, to) * slowness[to.index()]
                    + outputs_there_s
                    - common_s;
                let gain_s = left_s - there_s;
                let is_better = best.as_ref().is_none_or(|best| gain_s > best.gain_s);
                if there_s < left_s * CLEARLY_EARLIER && is_better {
                    let (task, attempt) = (attempt.task, attempt.number);
                    best = Some(Reassignment { gain_s, attempt, task, to, is_copy });
                }
            }
        }
        best
    }

    /// Iterates over the attempts that might be moved: of those queued on a server only the last
    /// ones, because they wait longest.
    fn considered(&self) -> impl Iterator<Item = &OngoingAttempt> {
        let is_waiting =
            |attempt: &OngoingAttempt| !matches!(attempt.state, AttemptState::Running { .. });
        let mut before = vec![0_usize; self.idle.len()];
        for attempt in self.ongoing.iter().filter(|attempt| is_waiting(attempt)) {
            before[attempt.server.index()] += 1;
        }
        self.ongoing.iter().filter(move |attempt| {
            if !is_waiting(attempt) {
                return true;
            }
            let before = &mut before[attempt.server.index()];
            *before -= 1;
            *before < CONSIDERED_MAX
        })
    }

    /// Returns the remaining time in seconds of an attempt that might be moved, and whether it
    /// would be copied.
    fn left_s(
        &self,
        attempt: &OngoingAttempt,
        slowness: &[f64],
        waits_s: &[f64],
    ) -> Option<(f64, bool)> {
        let from = attempt.server.index();
        let expected_s = self.expected_s(attempt.task, attempt.server) * slowness[from];
        let since_s = match attempt.state {
            AttemptState::Imminent => {
                let inputs_s = (self.inputs_s)(attempt.task, attempt.server);
                return Some((inputs_s + expected_s, false));
            }
            AttemptState::Waiting | AttemptState::Ready => {
                return Some((waits_s[from] + expected_s, false));
            }
            AttemptState::Running { since_s } => since_s,
        };
        let ran_s = self.now_s - since_s;
        let is_late = ran_s >= Watch::patience_s(expected_s / slowness[from]) * 0.999;
        // An attempt that is already over its expected time is estimated to take half as long again
        // as it has run.
        let left_s = (expected_s - ran_s).max(ran_s / 2.0);
        (self.watch.is_copying && attempt.is_alone && is_late).then_some((left_s, true))
    }

    /// Returns the approximate time in seconds that an attempt waits for a core of each server.
    fn waits_s(&self, slowness: &[f64]) -> Vec<f64> {
        let mut waits_s = vec![0.0; slowness.len()];
        let mut queued = vec![0_u32; slowness.len()];
        for attempt in &self.ongoing {
            let server = attempt.server.index();
            let expected_s = self.expected_s(attempt.task, attempt.server) * slowness[server];
            let wait_s = match attempt.state {
                AttemptState::Ready => expected_s,
                AttemptState::Running { since_s } => (expected_s - (self.now_s - since_s)).max(0.0),
                AttemptState::Waiting | AttemptState::Imminent => continue,
            };
            waits_s[server] += wait_s;
            queued[server] += 1;
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::GraphBuilder;

    #[test]
    fn the_cost_of_an_offer_does_not_grow_with_the_waiting_tasks() {
        let mut graph = GraphBuilder::default();
        let tasks: Vec<_> = (0..10_000).map(|n| graph.task(n.to_string(), 1.0)).collect();
        let graph = graph.build().unwrap();
        let spec = gridspan_topology::GridSpec::from_emulate("2x1,wan=1ms").unwrap();
        let platform = crate::described(&spec, None);
        let servers: Vec<_> = platform.server_ids().collect();
        let waiting = |(number, &task): (usize, &TaskId)| OngoingAttempt {
            number: Some(number),
            task,
            server: servers[0],
            state: AttemptState::Ready,
            is_alone: true,
        };
        let asked = std::cell::Cell::new(0);
        let inputs_s = |_, _| {
            asked.set(asked.get() + 1);
            0.1
        };
        let watch = Watch::new(&graph, &platform, false);
        let ongoing = tasks.iter().enumerate().map(waiting).collect();
        let (graph, platform, watch, inputs_s) = (&graph, &platform, &watch, &inputs_s);
        let observations = Observations {
            graph,
            platform,
            watch,
            now_s: 0.0,
            ongoing,
            idle: vec![0, 1],
            reserved: vec![0; 2],
            inputs_s,
            outputs_s: &|_, _| 0.0,
        };

        let offer = observations.best_offer(&[3.0, 1.0]).unwrap();

        assert!(
            offer.attempt.unwrap() >= tasks.len() - CONSIDERED_MAX,
            "of those that wait longest"
        );
        assert_eq!((offer.to, asked.get()), (servers[1], CONSIDERED_MAX));
    }

    fn polling_interval_of(tasks: u32, work_s: f64) -> Duration {
        let mut graph = GraphBuilder::default();
        for number in 0..tasks {
            graph.task(number.to_string(), work_s);
        }
        polling_interval(&graph.build().unwrap(), Duration::from_millis(1))
    }

    #[test]
    fn the_polling_interval_grows_with_task_times_and_group_size() {
        let [few, long, many] = [(10, 0.1), (10, 1e9), (100_000, 0.001)]
            .map(|(tasks, work_s)| polling_interval_of(tasks, work_s));

        assert_eq!(
            [few, long, many].map(|polling_interval| polling_interval.as_millis()),
            [25, 1000, 500]
        );
    }
}
