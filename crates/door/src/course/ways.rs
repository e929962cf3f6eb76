//! Where servers have data from, and what the client brings for those that do not reach each other.

use super::{Attempt, Course, State, Stuck};
use gridspan_rpc::{DataId, Endpoint, ServerId, TaskId};

impl Course<'_> {
    /// An attempt came to nothing because its server does not reach others, which have this data. It does not count: each
    /// time two servers more are known to be apart, so that there is an end of it.
    pub(crate) fn unreached(
        &mut self,
        attempt: usize,
        data: &[(DataId, ServerId)],
    ) -> Result<(), Stuck> {
        let Attempt { task, server, .. } = self.attempts[attempt];
        let count = &mut self.counts[task.index()];
        *count = count.saturating_sub(1);
        data.iter().for_each(|&(data, from)| self.relays.part(data, from, server));
        self.again(attempt)
    }

    /// Whether data goes from one to the other without the client between them.
    pub(crate) fn is_direct(&self, from: Endpoint, to: ServerId) -> bool {
        match from {
            Endpoint::Server(from) => from == to || !self.relays.are_apart(from, to),
            Endpoint::Client => true,
        }
    }

    /// Where a server has data from: itself, another server, or the client; nobody if it must come to the client first. Where one
    /// server with the data was not reached, no other is tried: those may be behind the same router, and each takes some seconds.
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
