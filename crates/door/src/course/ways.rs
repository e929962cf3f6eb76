//! Where servers have data from, and what the client brings for those that do not reach each other.

use super::{Course, State};
use gridspan_rpc::{DataId, Endpoint, ServerId, TaskId};

impl Course<'_> {
    /// A server does not reach another that has data.
    pub(crate) fn part(&mut self, from: ServerId, to: ServerId) {
        self.relays.part(from, to);
    }

    /// Whether data goes from one to the other without the client between them.
    pub(crate) fn is_direct(&self, from: Endpoint, to: ServerId) -> bool {
        match from {
            Endpoint::Server(from) => from == to || !self.relays.are_apart(from, to),
            Endpoint::Client => true,
        }
    }

    /// Where a server has data from: itself, another server, or the client; nobody if it must come to the client first.
    pub(crate) fn source(&self, data: DataId, to: ServerId) -> Option<Endpoint> {
        let holders = &self.holders[data.index()];
        if holders.contains(&to) {
            return Some(Endpoint::Server(to));
        }
        let mut all = self.holders(data);
        all.find(|&from| self.is_direct(from, to))
    }

    /// What the client is to bring for others, and from which server.
    pub(crate) fn take_relays(&mut self) -> Vec<(DataId, ServerId)> {
        let holders = &self.holders;
        self.relays.take(|data| holders[data.index()].first().copied())
    }

    /// The client has data that it brings for others.
    pub(crate) fn relayed(&mut self, data: DataId) {
        self.relays.came(data);
    }

    /// What the client has brought and nobody needs any more.
    pub(crate) fn take_spent(&mut self) -> Vec<DataId> {
        let (graph, states) = (self.graph, &self.states);
        let is_settled =
            |task: &TaskId| matches!(states[task.index()], State::Done | State::Failed);
        self.relays.take_spent(|data| graph.datum(data).consumers.iter().all(is_settled))
    }
}
