//! The outcomes of orders, and the tasks that are repeated or moved when servers or data are lost.

use super::ExecutionState;
use crate::execution::task_states::{Stuck, TaskState};
use crate::execution::{AttemptId, Delivery};
use crate::id::{DataId, Endpoint, ServerId, TaskId};

impl ExecutionState<'_> {
    /// Completes an attempt whose server fetched the data `fetched` for it. Returns the other
    /// attempts at the task, which are no longer needed.
    pub(in crate::execution) fn done(
        &mut self,
        attempt: AttemptId,
        now_s: f64,
        fetched: impl IntoIterator<Item = DataId>,
    ) -> Vec<AttemptId> {
        let (task, server) = self.attempt(attempt);
        if self.attempts.at(attempt).begun_s.is_none() {
            self.note_inputs_of(attempt);
        }
        self.last_end_s[server.index()] = now_s;
        self.tasks.set(task, TaskState::Done);
        let made = self.graph.task(task).outputs.iter().copied();
        let there: Vec<DataId> = made.chain(fetched).collect();
        if self.is_there(server) {
            there.iter().for_each(|&data| self.data.add(data, server, true));
        }
        for (data, servers) in self.attempts.take_readers(attempt) {
            for server in servers.into_iter().filter(|server| self.is_there[server.index()]) {
                self.data.add(data, server, false);
            }
        }
        self.close(attempt);
        self.tasks.copies.retain(|(of, _)| *of != task);
        let others: Vec<AttemptId> = self.attempts.open_at(task).collect();
        for &other in &others {
            self.close(other);
        }
        for data in there {
            self.note_new_location(data);
            if !self.data.exists(data) {
                self.doubtful.insert(data);
            }
        }
        self.make_up();
        others
    }

    /// Handles the report that a server has sent data to others, or does not have it.
    pub(in crate::execution) fn sent(
        &mut self,
        data: DataId,
        from: ServerId,
        to: &[ServerId],
        is_sent: bool,
    ) {
        for &to in to {
            let to = self.data.successor_of(to);
            self.data.end_send(data, to);
            match is_sent {
                true if self.is_there(to) => self.data.add(data, to, false),
                true => {}
                false => self.require(data, to),
            }
        }
        match is_sent {
            true => self.note_new_location(data),
            false => {
                self.missing(data, Endpoint::Server(from));
                // The server counted as a holder, but may wait for the data itself.
                self.require(data, self.data.successor_of(from));
            }
        }
    }

    /// Handles data that may not reach servers to which it is sent, because a lost server had to
    /// pass it on: another holder sends it to them again, if they wait for it. Returns the servers
    /// that do not count as holders any more, and the servers that have to be asked whether they
    /// have the data, because no endpoint is known to have it.
    pub(in crate::execution) fn stranded(
        &mut self,
        data: DataId,
        to: &[ServerId],
    ) -> (Vec<ServerId>, Vec<ServerId>) {
        let (mut lacking, mut unsure) = (Vec::new(), Vec::new());
        for &to in to {
            let to = self.data.successor_of(to);
            let was_sending = self.data.end_send(data, to);
            let producer = self.graph.datum(data).producer;
            let was_reader = producer.is_some_and(|task| self.attempts.drop_reader(task, data, to));
            let was_holder = self.data.remove_unsure(data, to);
            if was_holder {
                lacking.push(to);
            } else if self.data.is_only_sent(data, to) {
                unsure.push(to);
            }
            if was_sending || was_reader || was_holder {
                self.require(data, to);
            }
        }
        (lacking, unsure)
    }

    /// Handles an attempt that failed because its server cannot reach the servers that have this
    /// data. The attempt does not count against the bound on attempts: each such failure reveals at
    /// least one more pair of servers that cannot connect, so their number is bounded too.
    pub(in crate::execution) fn unreached(
        &mut self,
        attempt: AttemptId,
        data: &[(DataId, ServerId)],
    ) {
        let (task, server) = self.attempt(attempt);
        self.tasks.forgive(task);
        data.iter().for_each(|&(data, from)| self.data.relays.part(data, from, server));
        self.again(attempt);
    }

    /// Handles data that was not found where it was expected.
    pub(in crate::execution) fn missing(&mut self, data: DataId, from: Endpoint) {
        self.data.missing(data, from);
        self.doubtful.insert(data);
        self.make_up();
    }

    /// Handles an attempt that failed. If the task has no other open attempt, it is ordered again.
    pub(in crate::execution) fn again(&mut self, attempt: AttemptId) {
        self.ends_in_vain(attempt);
        self.make_up();
    }

    /// Repeats the order of an attempt that has not begun, because the data for which it may be
    /// waiting is at another place. The repeated order does not count against the bound on
    /// attempts.
    pub(in crate::execution) fn renew(&mut self, attempt: AttemptId) {
        let at = self.attempts.at(attempt);
        if at.is_open && at.begun_s.is_none() {
            self.tasks.forgive(at.task);
            self.withdrawn.push(attempt);
            self.again(attempt);
        }
    }

    /// Handles a refused attempt: the task goes to the server that has refused it least often.
    pub(in crate::execution) fn refused(&mut self, attempt: AttemptId) {
        let (task, server) = self.attempt(attempt);
        if self.tasks.refused(task, server) {
            self.tasks.forgive(task);
        }
        self.ends_in_vain(attempt);
        if self.tasks.state(task) == TaskState::Waiting {
            self.send_elsewhere(task);
        }
        self.make_up();
    }

    /// Handles the loss of a server with all its data and orders.
    pub(in crate::execution) fn lost(&mut self, server: ServerId) {
        self.gone(server, None);
        self.tasks.copies.retain(|(_, to)| *to != server);
        let given = self.attempts.open_on(server);
        given.into_iter().for_each(|attempt| self.ends_in_vain(attempt));
        let is_homeless = |task: &TaskId| {
            self.tasks.state(*task) == TaskState::Waiting && self.tasks.server(*task) == server
        };
        let homeless: Vec<TaskId> = self.tasks.all().filter(is_homeless).collect();
        homeless.into_iter().for_each(|task| self.send_elsewhere(task));
        self.make_up();
    }

    /// Handles the takeover of a server's data and orders by another server, which is unknown to
    /// the group if `successor` is `None`.
    pub(in crate::execution) fn handed_over(
        &mut self,
        server: ServerId,
        successor: Option<ServerId>,
    ) {
        self.gone(server, successor);
        if let Some(successor) = successor {
            self.attempts.hand_over(server, successor);
            for (_, to) in &mut self.tasks.copies {
                *to = if *to == server { successor } else { *to };
            }
            let is_moved =
                |task: &TaskId| !self.tasks.is_settled(*task) && self.tasks.server(*task) == server;
            let moved: Vec<TaskId> = self.tasks.all().filter(is_moved).collect();
            moved.into_iter().for_each(|task| self.tasks.send(task, successor));
        }
        self.make_up();
    }

    /// Removes a server that has left. Its successor, if it has one, has the data.
    fn gone(&mut self, server: ServerId, successor: Option<ServerId>) {
        self.is_there[server.index()] = false;
        self.doubtful.extend(self.data.gone(server, successor));
    }

    fn ends_in_vain(&mut self, attempt: AttemptId) {
        self.close(attempt);
        let task = self.attempts.at(attempt).task;
        let is_ordered = self.tasks.state(task) == TaskState::Ordered;
        if is_ordered && self.attempts.open_at(task).next().is_none() {
            self.wait(task);
        }
    }

    /// Makes a task wait for another order, on a server that is present.
    fn wait(&mut self, task: TaskId) {
        self.tasks.set(task, TaskState::Waiting);
        self.doubtful.extend(&self.graph.task(task).inputs);
        if self.tasks.has_no_attempts_left(task) {
            self.tasks.stuck.insert(task, Stuck::Tried);
        }
        if !self.is_there(self.tasks.server(task)) {
            self.send_elsewhere(task);
        }
    }

    fn send_elsewhere(&mut self, task: TaskId) {
        match self.next_for(task) {
            Some(server) if self.is_refused_once && self.tasks.refusals(task, server) > 0 => {
                self.tasks.stuck.insert(task, Stuck::Tried);
            }
            Some(server) => self.tasks.send(task, server),
            None => drop(self.tasks.stuck.insert(task, Stuck::Alone)),
        }
    }

    /// Returns, of the servers that can execute a task, the one that has refused it least often. Of
    /// several such servers, returns the one that would end the task first according to its load.
    fn next_for(&self, task: TaskId) -> Option<ServerId> {
        let able = (0..self.is_there.len() as u32).map(ServerId).filter(|&server| {
            self.is_there[server.index()] && self.graph.task(task).can_run_on(server)
        });
        let refused = |server: &ServerId| self.tasks.refusals(task, *server);
        let end_s =
            |server: &ServerId| (self.tasks.load(*server) + 1) as f64 * self.unit_s[server.index()];
        able.min_by(|one, other| {
            refused(one).cmp(&refused(other)).then(end_s(one).total_cmp(&end_s(other)))
        })
    }

    /// Repeats the tasks whose results are needed and lost. The cost grows with the number of
    /// changes, not with the size of the group.
    pub(super) fn make_up(&mut self) {
        let graph = self.graph;
        while let Some(data) = self.doubtful.pop_first() {
            // A server that has been asked to send the data will report whether it has the data.
            if self.data.is_held(data) || self.data.is_sent(data) {
                continue;
            }
            let datum = graph.datum(data);
            let producer = datum.producer.map(|task| (task, self.tasks.state(task)));
            match producer {
                // The arguments of this task are then in doubt.
                Some((task, TaskState::Done)) if self.is_needed(data) => self.wait(task),
                Some((_, TaskState::Waiting | TaskState::Ordered | TaskState::Done)) => {}
                None | Some((_, TaskState::Failed)) if self.data.is_at_client(data) => {}
                None | Some((_, TaskState::Failed)) => {
                    let is_waiting = |task: &&TaskId| match self.tasks.state(**task) {
                        TaskState::Waiting => true,
                        TaskState::Ordered => self.delivery == Delivery::Sent,
                        TaskState::Done | TaskState::Failed => false,
                    };
                    let waiting = datum.consumers.iter().filter(is_waiting);
                    let stuck: Vec<_> = waiting.map(|&task| (task, Stuck::MissingInput)).collect();
                    self.tasks.stuck.extend(stuck);
                }
            }
        }
    }

    /// Whether data that no server has is still needed.
    fn is_needed(&self, data: DataId) -> bool {
        let mut readers = self.graph.datum(data).consumers.iter();
        let is_read = readers.any(|&reader| !self.tasks.is_settled(reader));
        (is_read && !self.data.relays.has(data))
            || self.data.is_awaited(data)
            || self.kept[data.index()]
    }
}
