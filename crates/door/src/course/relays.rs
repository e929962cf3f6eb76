//! Data that goes by way of the client, between servers of which one does not reach the other. Pure.

use super::Course;
use gridspan_rpc::{DataId, Endpoint, ServerId};
use std::collections::{BTreeMap, BTreeSet};

/// So much data is on its way to the client at the same time: more would share its link, and the first would come later.
const AT_ONCE: usize = 8;

/// Who does not reach whom, and what the client brings therefore.
#[derive(Debug, Default)]
pub(super) struct Relays {
    /// Servers, of which each second does not reach the first.
    apart: BTreeSet<(ServerId, ServerId)>,
    /// What tasks wait for, and the server that is asked for it.
    wanted: BTreeMap<DataId, Option<ServerId>>,
    /// What the client has.
    here: BTreeSet<DataId>,
}

impl Relays {
    pub(super) fn new(apart: &BTreeSet<(ServerId, ServerId)>) -> Self {
        Self { apart: apart.clone(), ..Self::default() }
    }

    pub(super) fn has(&self, data: DataId) -> bool {
        self.here.contains(&data)
    }

    /// What was wanted and is not asked for is not wanted any more, unless somebody says so again.
    pub(super) fn reconsider(&mut self) {
        self.wanted.retain(|_, asked| asked.is_some());
    }

    pub(super) fn want(&mut self, data: DataId) {
        self.wanted.entry(data).or_default();
    }

    /// A server was asked for data and does not give it.
    pub(super) fn missing(&mut self, data: DataId, from: ServerId) {
        if self.wanted.get(&data) == Some(&Some(from)) {
            self.wanted.remove(&data);
        }
    }

    pub(super) fn lost(&mut self, server: ServerId) {
        self.wanted.retain(|_, asked| *asked != Some(server));
    }
}

impl Course<'_> {
    /// A server does not reach another that has data.
    pub(crate) fn part(&mut self, from: ServerId, to: ServerId) {
        self.relays.apart.insert((from, to));
    }

    /// Whether data goes from one to the other without the client between them.
    pub(crate) fn is_direct(&self, from: Endpoint, to: ServerId) -> bool {
        match from {
            Endpoint::Server(from) => from == to || !self.relays.apart.contains(&(from, to)),
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
        let asked = self.relays.wanted.values().flatten().count();
        let open = self.relays.wanted.iter_mut().filter(|(_, asked)| asked.is_none());
        let mut taken = Vec::new();
        for (&data, asked_of) in open.take(AT_ONCE.saturating_sub(asked)) {
            *asked_of = self.holders[data.index()].first().copied();
            taken.extend(asked_of.map(|server| (data, server)));
        }
        taken
    }

    /// The client has data that it brings for others.
    pub(crate) fn relayed(&mut self, data: DataId) {
        self.relays.wanted.remove(&data);
        self.relays.here.insert(data);
    }

    /// What the client has brought and nobody needs any more.
    pub(crate) fn take_spent(&mut self) -> Vec<DataId> {
        let is_spent = |data: &DataId| {
            let mut readers = self.graph.datum(*data).consumers.iter();
            readers.all(|reader| self.is_settled(*reader))
        };
        let spent: Vec<DataId> = self.relays.here.iter().copied().filter(is_spent).collect();
        for data in &spent {
            self.relays.here.remove(data);
        }
        spent
    }
}
