//! Where servers have data from, and what the client brings for those that do not reach each other.

use super::{Attempt, ExecutionState, State};
use gridspan_workflow::{DataId, Endpoint, ServerId, TaskId};
use std::collections::BTreeSet;

impl ExecutionState<'_> {
    /// An attempt came to nothing because its server does not reach others, which have this data.
    /// It does not count: each time two servers more are known to be apart, so that there is an end
    /// of it.
    pub(crate) fn unreached(&mut self, attempt: usize, data: &[(DataId, ServerId)]) {
        let Attempt { task, server, .. } = self.attempts[attempt];
        let count = &mut self.counts[task.index()];
        *count = count.saturating_sub(1);
        data.iter().for_each(|&(data, from)| self.relays.part(data, from, server));
        self.again(attempt);
    }

    /// Whether data goes from one to the other without the client between them.
    pub(crate) fn is_direct(&self, from: Endpoint, to: ServerId) -> bool {
        match from {
            Endpoint::Server(from) => from == to || !self.relays.are_apart(from, to),
            Endpoint::Client => true,
        }
    }

    /// Where a server has data from: itself, another server, or the client; nobody if it must come
    /// to the client first. Where one server with the data was not reached, no other is tried:
    /// those may be behind the same router, and each takes some seconds.
    pub(crate) fn source(&self, data: DataId, to: ServerId) -> Option<Endpoint> {
        let holders = &self.holders[data.index()];
        if holders.contains(&to) {
            return Some(Endpoint::Server(to));
        }
        if self.relays.is_unreached(data, to) {
            return self.is_at_client(data).then_some(Endpoint::Client);
        }
        let mut all = self.holders(data);
        all.find(|&from| self.is_direct(from, to))
    }

    /// What the client is to bring for others, and from which server; `bytes` says how large data
    /// is.
    pub(crate) fn take_relays(&mut self, bytes: impl Fn(DataId) -> u64) -> Vec<(DataId, ServerId)> {
        if self.relays.is_idle() {
            return Vec::new();
        }
        let (graph, holders, coming) = (self.graph, &self.holders, self.coming());
        let holder = |data: DataId| holders[data.index()].first().copied();
        let goes = |data| graph.datum(data).consumers.iter().any(|task| coming.contains(task));
        self.relays.take(holder, bytes, goes)
    }

    /// Tasks that are ordered of servers that may still ask for what these read.
    fn coming(&self) -> BTreeSet<TaskId> {
        let open = self.attempts.iter().filter(|attempt| attempt.is_open);
        open.filter(|attempt| attempt.begun_s.is_none()).map(|attempt| attempt.task).collect()
    }

    /// The client has data that it brings for others, of so many bytes.
    pub(crate) fn relayed(&mut self, data: DataId, bytes: u64) {
        self.relays.came(data, bytes);
        self.stir(data);
    }

    /// What the client has brought and nobody needs any more. Who computes has what it reads.
    pub(crate) fn take_spent(&mut self) -> Vec<DataId> {
        if self.relays.is_idle() {
            return Vec::new();
        }
        let (graph, states, coming) = (self.graph, &self.states, self.coming());
        let copies: BTreeSet<TaskId> = self.copies.iter().map(|(task, _)| *task).collect();
        let needs = |task: &TaskId| match states[task.index()] {
            State::Waiting => true,
            State::Ordered => coming.contains(task) || copies.contains(task),
            State::Done | State::Failed => false,
        };
        self.relays.take_spent(|data| !graph.datum(data).consumers.iter().any(needs))
    }
}
