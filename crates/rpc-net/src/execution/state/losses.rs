//! What is done again, or elsewhere, when servers are lost or refuse tasks, or data is gone.

use super::{ATTEMPTS_MAX, Attempt, ExecutionState, ResultRequest, State, Stuck, is_settled};
use gridspan_workflow::{DataId, Endpoint, ServerId, TaskId};
use std::collections::BTreeMap;

impl ExecutionState<'_> {
    /// Data is not where it was said to be.
    pub(crate) fn missing(&mut self, data: DataId, from: Endpoint) {
        if let Endpoint::Server(server) = from {
            self.holders[data.index()].remove(&server);
            self.relays.missing(data, server);
        }
        if let Some(wish @ ResultRequest::Asked(_)) = &mut self.wishes[data.index()] {
            *wish = ResultRequest::Open;
            self.wished.insert(data);
        }
        self.doubtful.insert(data);
        self.make_up();
    }

    /// An attempt came to nothing; if there is no other, the task is ordered again.
    pub(crate) fn again(&mut self, attempt: usize) {
        self.ends_in_vain(attempt);
        self.make_up();
    }

    /// What an attempt that has not begun may be waiting for is elsewhere than it was told: it is
    /// ordered anew, which does not count. Whether it has not begun.
    pub(crate) fn renew(&mut self, attempt: usize) -> bool {
        let Attempt { task, begun_s, is_open, .. } = self.attempts[attempt];
        let is_waiting = is_open && begun_s.is_none();
        if is_waiting {
            let count = &mut self.counts[task.index()];
            *count = count.saturating_sub(1);
            self.again(attempt);
        }
        is_waiting
    }

    /// A server does not execute an attempt; another may, which has refused it less often.
    pub(crate) fn refused(&mut self, attempt: usize) {
        let Attempt { task, server, .. } = self.attempts[attempt];
        let refusals = self.refusals.entry(task).or_default().entry(server).or_default();
        *refusals += 1;
        if *refusals == 1 {
            let count = &mut self.counts[task.index()];
            *count = count.saturating_sub(1);
        }
        self.ends_in_vain(attempt);
        if self.states[task.index()] == State::Waiting {
            self.send_elsewhere(task);
        }
        self.make_up();
    }

    /// Whether a server is not lost.
    pub(crate) fn is_there(&self, server: ServerId) -> bool {
        self.is_there[server.index()]
    }

    /// A server is lost, with all it had and had to do.
    pub(crate) fn lost(&mut self, server: ServerId) {
        // Whoever was lost before may have been ordered something since.
        self.is_there[server.index()] = false;
        for (data, holders) in (0..).map(DataId).zip(&mut self.holders) {
            if holders.remove(&server) {
                self.doubtful.insert(data);
            }
        }
        for (data, wish) in (0..).map(DataId).zip(&mut self.wishes) {
            if *wish == Some(ResultRequest::Asked(server)) {
                *wish = Some(ResultRequest::Open);
                self.wished.insert(data);
            }
        }
        self.relays.lost(server);
        self.copies.retain(|(_, to)| *to != server);
        let of_server =
            |(_, attempt): &(usize, &Attempt)| attempt.is_open && attempt.server == server;
        let given = self.attempts.iter().enumerate().filter(of_server);
        let given: Vec<usize> = given.map(|(attempt, _)| attempt).collect();
        given.into_iter().for_each(|attempt| self.ends_in_vain(attempt));
        let is_homeless = |task: &TaskId| {
            self.states[task.index()] == State::Waiting && self.servers[task.index()] == server
        };
        let homeless: Vec<TaskId> = self.tasks().filter(is_homeless).collect();
        homeless.into_iter().for_each(|task| self.send_elsewhere(task));
        self.make_up();
    }

    /// The tasks that cannot be executed any more, which are to fail.
    pub(crate) fn take_stuck(&mut self) -> BTreeMap<TaskId, Stuck> {
        std::mem::take(&mut self.stuck)
    }

    /// The tasks that are neither done nor failed.
    pub(crate) fn open_tasks(&self) -> Vec<TaskId> {
        self.tasks().filter(|&task| !self.is_settled(task)).collect()
    }

    fn ends_in_vain(&mut self, attempt: usize) {
        self.attempts[attempt].is_open = false;
        let task = self.attempts[attempt].task;
        if self.states[task.index()] == State::Ordered && self.open_at(task).next().is_none() {
            self.wait(task);
        }
    }

    /// A task is to be ordered again, on a server that is there.
    fn wait(&mut self, task: TaskId) {
        self.set(task, State::Waiting);
        self.doubtful.extend(&self.graph.task(task).inputs);
        if self.counts[task.index()] >= ATTEMPTS_MAX {
            self.stuck.insert(task, Stuck::Tried);
        }
        if !self.is_there[self.servers[task.index()].index()] {
            self.send_elsewhere(task);
        }
    }

    fn send_elsewhere(&mut self, task: TaskId) {
        match self.next_for(task) {
            Some(server) => self.send(task, server),
            None => drop(self.stuck.insert(task, Stuck::Alone)),
        }
    }

    /// The server that has refused a task least often, and has least to do, of those that could
    /// execute it.
    fn next_for(&self, task: TaskId) -> Option<ServerId> {
        let able = (0..self.is_there.len() as u32).map(ServerId).filter(|&server| {
            self.is_there[server.index()] && self.graph.task(task).can_run_on(server)
        });
        let refusals = self.refusals.get(&task);
        let refused =
            |server: &ServerId| refusals.and_then(|of| of.get(server)).copied().unwrap_or(0);
        able.min_by_key(|server| (refused(server), self.loads[server.index()]))
    }

    /// Has tasks done again whose results are needed and lost. Costs what has changed, and not what
    /// the group has.
    fn make_up(&mut self) {
        let graph = self.graph;
        while let Some(data) = self.doubtful.pop_first() {
            if !self.holders[data.index()].is_empty() {
                continue;
            }
            let datum = graph.datum(data);
            let producer = datum.producer.map(|task| (task, self.states[task.index()]));
            match producer {
                // What it needs itself is in doubt then.
                Some((task, State::Done)) if self.is_needed(data) => self.wait(task),
                Some((_, State::Waiting | State::Ordered | State::Done)) => {}
                None | Some((_, State::Failed)) if self.is_at_client(data) => {}
                None | Some((_, State::Failed)) => {
                    let readers = datum.consumers.iter();
                    let waiting =
                        readers.filter(|task| self.states[task.index()] == State::Waiting);
                    let stuck = waiting.map(|&task| (task, Stuck::MissingInput(data)));
                    self.stuck.extend(stuck);
                }
            }
        }
    }

    /// Whether somebody needs data that no server has.
    fn is_needed(&self, data: DataId) -> bool {
        let mut readers = self.graph.datum(data).consumers.iter();
        let is_read = readers.any(|reader| !is_settled(self.states[reader.index()]));
        let is_wished =
            self.wishes[data.index()].is_some_and(|wish| wish != ResultRequest::Granted);
        (is_read && !self.relays.has(data)) || is_wished || self.kept[data.index()]
    }
}
