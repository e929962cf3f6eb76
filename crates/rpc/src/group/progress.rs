//! How far the execution of a window is: attempts at tasks, and what became of them.

use crate::calls::RpcError;
use gridspan_workflow::TaskGraph;
use gridspan_workflow::stragglers::{AttemptState, OngoingAttempt};
use gridspan_workflow::{ServerId, TaskId};
use std::collections::BTreeSet;
use std::task::Waker;

/// A task is tried so many times at most, for servers that are lost.
const ATTEMPTS_MAX: usize = 8;

#[derive(Clone, Copy, Debug)]
struct Attempt {
    task: TaskId,
    server: ServerId,
    /// Since when its inputs exist, in seconds.
    possible_s: Option<f64>,
    is_over: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum State {
    Open,
    Done,
    Failed(RpcError),
}

/// Attempts and tasks.
#[derive(Debug)]
pub(super) struct Progress {
    attempts: Vec<Attempt>,
    /// The attempts at each task.
    of_task: Vec<Vec<usize>>,
    states: Vec<State>,
    /// How many tasks have not ended.
    open: usize,
    /// When each server ended its last task, in seconds.
    last_end_s: Vec<f64>,
    /// How many attempts each server has that are not over.
    loads: Vec<usize>,
    /// Attempts that are to begin.
    wanted: Vec<(TaskId, ServerId, usize)>,
    wakers: Vec<Waker>,
}

impl Progress {
    pub(super) fn new(tasks: usize, servers: usize) -> Self {
        let (states, last_end_s) = (vec![State::Open; tasks], vec![0.0; servers]);
        Self {
            attempts: Vec::new(),
            of_task: vec![Vec::new(); tasks],
            states,
            open: tasks,
            last_end_s,
            loads: vec![0; servers],
            wanted: Vec::new(),
            wakers: Vec::new(),
        }
    }

    /// An attempt begins; its number.
    pub(super) fn begin(&mut self, task: TaskId, server: ServerId) -> usize {
        self.of_task[task.index()].push(self.attempts.len());
        self.attempts.push(Attempt { task, server, possible_s: None, is_over: false });
        self.loads[server.index()] += 1;
        self.attempts.len() - 1
    }

    /// Asks for an attempt at a task, if there were not too many already.
    pub(super) fn want(&mut self, task: TaskId, server: ServerId) -> bool {
        let may = self.of_task[task.index()].len() < ATTEMPTS_MAX;
        if may {
            let number = self.begin(task, server);
            self.wanted.push((task, server, number));
            self.changed();
        }
        may
    }

    pub(super) fn take_wanted(&mut self) -> Vec<(TaskId, ServerId, usize)> {
        std::mem::take(&mut self.wanted)
    }

    /// An attempt is over.
    pub(super) fn end(&mut self, number: usize, now_s: f64) {
        let attempt = &mut self.attempts[number];
        let server = attempt.server.index();
        if !std::mem::replace(&mut attempt.is_over, true) {
            self.last_end_s[server] = now_s;
            self.loads[server] -= 1;
        }
        self.changed();
    }

    /// An attempt is taken from its server, which does not seem to have begun; the server.
    pub(super) fn take_from(&mut self, number: usize) -> ServerId {
        let attempt = &mut self.attempts[number];
        let server = attempt.server;
        if !std::mem::replace(&mut attempt.is_over, true) {
            self.loads[server.index()] -= 1;
        }
        server
    }

    /// The server of an attempt.
    pub(super) fn server_of(&self, number: usize) -> ServerId {
        self.attempts[number].server
    }

    /// A task is done; whether it was not before.
    pub(super) fn done(&mut self, task: TaskId) -> bool {
        let state = self.set(task, State::Done);
        self.changed();
        state != State::Done
    }

    /// A task failed for good; whether it had not ended before.
    pub(super) fn fail(&mut self, task: TaskId, failure: RpcError) -> bool {
        let is_news = !self.has_ended(task);
        if is_news {
            self.set(task, State::Failed(failure));
        }
        self.changed();
        is_news
    }

    /// What a task made is lost: it is to be done again.
    pub(super) fn undo(&mut self, task: TaskId) {
        self.set(task, State::Open);
    }

    /// Notes what has become of a task; what was noted before.
    fn set(&mut self, task: TaskId, state: State) -> State {
        let is_open = usize::from(state == State::Open);
        let before = std::mem::replace(&mut self.states[task.index()], state);
        self.open = self.open + is_open - usize::from(before == State::Open);
        before
    }

    pub(super) fn has_ended(&self, task: TaskId) -> bool {
        self.states[task.index()] != State::Open
    }

    pub(super) fn is_done(&self, task: TaskId) -> bool {
        self.states[task.index()] == State::Done
    }

    pub(super) fn failure(&self, task: TaskId) -> Option<&RpcError> {
        match &self.states[task.index()] {
            State::Failed(failure) => Some(failure),
            State::Open | State::Done => None,
        }
    }

    /// What all tasks came to, once they have ended: the first failure, if there is one.
    pub(super) fn outcome(&self) -> Option<Result<(), RpcError>> {
        if self.open > 0 {
            return None;
        }
        let failed = self.states.iter().find_map(|state| match state {
            State::Failed(failure) => Some(failure.clone()),
            State::Open | State::Done => None,
        });
        Some(failed.map_or(Ok(()), Err))
    }

    /// The servers of attempts at a task that are not over.
    pub(super) fn servers_of(&self, task: TaskId) -> impl Iterator<Item = ServerId> + '_ {
        let all = self.of_task[task.index()].iter().map(|&number| &self.attempts[number]);
        all.filter(|attempt| !attempt.is_over).map(|attempt| attempt.server)
    }

    /// The servers that have tried a task.
    pub(super) fn tried_on(&self, task: TaskId) -> Vec<ServerId> {
        let all = self.of_task[task.index()].iter().map(|&number| self.attempts[number].server);
        all.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// How many attempts a server has that are not over.
    pub(super) fn load(&self, server: ServerId) -> usize {
        self.loads[server.index()]
    }

    /// Wakes whoever waits for something to change, then.
    pub(super) fn watch(&mut self, waker: &Waker) {
        self.wakers.push(waker.clone());
    }

    fn changed(&mut self) {
        self.wakers.drain(..).for_each(Waker::wake);
    }

    /// The attempts that are not over, as far as the client can tell: servers execute what can
    /// begin in the order of places, one after the other. And which servers have nothing that can
    /// begin.
    pub(super) fn ongoing(
        &mut self,
        graph: &TaskGraph,
        places: &[u32],
        now_s: f64,
        inputs_s: &dyn Fn(TaskId, ServerId) -> f64,
    ) -> (Vec<OngoingAttempt>, Vec<u32>) {
        let states = &self.states;
        let is_possible =
            |task| graph.parents(task).all(|(parent, _)| states[parent.index()] == State::Done);
        for attempt in self.attempts.iter_mut().filter(|attempt| !attempt.is_over) {
            if attempt.possible_s.is_none() && is_possible(attempt.task) {
                attempt.possible_s = Some(now_s + inputs_s(attempt.task, attempt.server));
            }
        }
        let open = self.attempts.iter().enumerate().filter(|(_, attempt)| !attempt.is_over);
        let mut ongoing: Vec<OngoingAttempt> = Vec::new();
        let mut front: Vec<Option<(u32, usize, f64)>> = vec![None; self.last_end_s.len()];
        for (number, &Attempt { task, server, possible_s, .. }) in open {
            let state = possible_s.map(|since_s| match since_s > now_s {
                true => AttemptState::Waiting,
                false => AttemptState::Ready,
            });
            if let (Some(AttemptState::Ready), Some(possible_s)) = (state, possible_s) {
                let since_s = possible_s.max(self.last_end_s[server.index()]);
                let candidate = (places[task.index()], ongoing.len(), since_s);
                let front = &mut front[server.index()];
                if front.is_none_or(|(place, ..)| candidate.0 < place) {
                    *front = Some(candidate);
                }
            }
            let is_alone = self.servers_of(task).count() == 1;
            ongoing.push(OngoingAttempt { number, task, server, state, is_alone });
        }
        let free = front.iter().map(|front| u32::from(front.is_none())).collect();
        for (_, at, since_s) in front.into_iter().flatten() {
            ongoing[at].state = Some(AttemptState::Running { since_s });
        }
        (ongoing, free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_workflow::GraphBuilder;

    /// Two tasks on one server, and one that reads what the first writes, on another.
    fn fork() -> TaskGraph {
        let mut graph = GraphBuilder::default();
        let [first, _, last] = ["first", "second", "last"].map(|name| graph.task(name, 1.0));
        let data = graph.write(first, "data", 8);
        graph.read(last, data);
        graph.build().unwrap()
    }

    fn standings(progress: &mut Progress, now_s: f64) -> (Vec<Option<AttemptState>>, Vec<u32>) {
        let (ongoing, free) = progress.ongoing(&fork(), &[1, 0, 2], now_s, &|_, _| 0.0);
        (ongoing.iter().map(|attempt| attempt.state).collect(), free)
    }

    #[test]
    fn a_server_runs_what_has_the_lowest_place_since_it_ended_the_one_before() {
        let mut progress = Progress::new(3, 2);
        for (task, server) in [(0, 0), (1, 0), (2, 1)] {
            progress.begin(TaskId(task), ServerId(server));
        }
        let running = |since_s| Some(AttemptState::Running { since_s });
        let at_first = standings(&mut progress, 0.0);
        assert_eq!(at_first, (vec![Some(AttemptState::Ready), running(0.0), None], vec![0, 1]));

        progress.done(TaskId(1));
        progress.end(1, 3.0);
        assert_eq!(standings(&mut progress, 4.0), (vec![running(3.0), None], vec![0, 1]));

        progress.done(TaskId(0));
        progress.end(0, 5.0);
        assert_eq!(standings(&mut progress, 6.0), (vec![running(6.0)], vec![1, 0]));
    }

    #[test]
    fn a_task_is_not_tried_without_end() {
        let mut progress = Progress::new(1, 1);

        let wanted = (0..20).filter(|_| progress.want(TaskId(0), ServerId(0))).count();

        assert_eq!(wanted, ATTEMPTS_MAX);
    }
}
