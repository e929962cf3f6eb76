//! Where the data of a group is: which servers have it, who is to be sent it, and what the client
//! has and wants.

use super::relays::Relays;
use crate::graph::{Data, TaskGraph};
use crate::id::{DataId, Endpoint, ServerId, TaskId};
use std::collections::{BTreeMap, BTreeSet};

/// Where a result is that the client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResultRequest {
    Open,
    Asked(ServerId),
    Granted,
}

/// The servers that have data, or that it was sent to: who had it first is sure to have it.
#[derive(Clone, Debug, Default)]
struct Copies {
    first: Option<ServerId>,
    all: BTreeSet<ServerId>,
}

impl Copies {
    fn insert(&mut self, server: ServerId) {
        self.first.get_or_insert(server);
        self.all.insert(server);
    }

    fn remove(&mut self, server: ServerId) -> bool {
        let was_there = self.all.remove(&server);
        if self.first == Some(server) {
            self.first = self.all.first().copied();
        }
        was_there
    }
}

/// All data of a group.
#[derive(Debug)]
pub(super) struct DataCopies<'a> {
    graph: &'a TaskGraph,
    holders: Vec<Copies>,
    relays: Relays,
    /// How many arguments of each task are nowhere; and the tasks for which that has come to be
    /// none since somebody asked.
    missing: Vec<u32>,
    complete: Vec<TaskId>,
    /// Data that a server waits for and nobody was told to send there; and of that what may be sent
    /// now.
    due: BTreeSet<(DataId, ServerId)>,
    stirred_due: BTreeSet<(DataId, ServerId)>,
    /// Data that a server was told to send to another, which has not said whether it has it.
    sending: BTreeSet<(DataId, ServerId)>,
    /// For data that the client wants and does not have from the beginning.
    wishes: Vec<Option<ResultRequest>>,
    /// How many of them are not granted, of data that may still be.
    ungranted: usize,
    /// Data whose wish may be asked for.
    wished: BTreeSet<DataId>,
    /// Who has taken over from each server.
    heirs: BTreeMap<ServerId, ServerId>,
}

fn at_all(data: DataId) -> std::ops::RangeInclusive<(DataId, ServerId)> {
    (data, ServerId(0))..=(data, ServerId(u32::MAX))
}

impl<'a> DataCopies<'a> {
    /// As the graph says, among servers of which each second of those that are `apart` does not
    /// reach the first.
    pub(super) fn new(graph: &'a TaskGraph, apart: BTreeSet<(ServerId, ServerId)>) -> Self {
        let wish = |data: &Data| {
            (data.is_wanted && data.producer.is_some()).then_some(ResultRequest::Open)
        };
        let holders = graph.data().iter().map(|data| {
            let mut copies = Copies::default();
            for holder in &data.held_by {
                if let Endpoint::Server(server) = *holder {
                    copies.insert(server);
                }
            }
            copies
        });
        let wishes: Vec<Option<ResultRequest>> = graph.data().iter().map(wish).collect();
        let mut missing = vec![0; graph.tasks().len()];
        for datum in graph.data().iter().filter(|datum| datum.held_by.is_empty()) {
            datum.consumers.iter().for_each(|reader| missing[reader.index()] += 1);
        }
        Self {
            graph,
            holders: holders.collect(),
            relays: Relays::new(apart),
            missing,
            complete: Vec::new(),
            due: BTreeSet::new(),
            stirred_due: BTreeSet::new(),
            sending: BTreeSet::new(),
            ungranted: wishes.iter().flatten().count(),
            wishes,
            wished: BTreeSet::new(),
            heirs: BTreeMap::new(),
        }
    }

    pub(super) fn is_at_client(&self, data: DataId) -> bool {
        self.graph.datum(data).held_by.contains(&Endpoint::Client) || self.relays.has(data)
    }

    /// Whether data was made, or was there before.
    pub(super) fn exists(&self, data: DataId) -> bool {
        self.is_held(data) || self.is_at_client(data)
    }

    /// Whether a server has data, or was sent it.
    pub(super) fn is_held(&self, data: DataId) -> bool {
        self.holders[data.index()].first.is_some()
    }

    pub(super) fn is_held_by(&self, data: DataId, server: ServerId) -> bool {
        self.holders[data.index()].all.contains(&server)
    }

    /// Whether all arguments of a task exist.
    pub(super) fn has_inputs(&self, task: TaskId) -> bool {
        self.missing[task.index()] == 0
    }

    /// The tasks whose last argument has come to exist since this was called.
    pub(super) fn take_complete(&mut self) -> Vec<TaskId> {
        std::mem::take(&mut self.complete)
    }

    /// Who has data: who had it first, then the others, and then the client.
    pub(super) fn holders(&self, data: DataId) -> impl Iterator<Item = Endpoint> + '_ {
        let Copies { first, all } = &self.holders[data.index()];
        let others = all.iter().copied().filter(|server| Some(*server) != *first);
        let client = self.is_at_client(data).then_some(Endpoint::Client);
        first.iter().copied().chain(others).map(Endpoint::Server).chain(client)
    }

    /// Changes where data is, and notes what exists then for its readers.
    fn change<T>(&mut self, data: DataId, how: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.exists(data);
        let result = how(self);
        let after = self.exists(data);
        if before != after {
            for reader in &self.graph.datum(data).consumers {
                let missing = &mut self.missing[reader.index()];
                *missing = if after { *missing - 1 } else { *missing + 1 };
                if *missing == 0 {
                    self.complete.push(*reader);
                }
            }
        }
        result
    }

    /// A server has data, or is sure to be sent it.
    pub(super) fn add(&mut self, data: DataId, server: ServerId) {
        self.change(data, |copies| copies.holders[data.index()].insert(server));
    }

    /// A server does not have data.
    pub(super) fn remove(&mut self, data: DataId, server: ServerId) -> bool {
        self.change(data, |copies| copies.holders[data.index()].remove(server))
    }

    /// Data is where it was not: servers may get it, and the client may have what it wants.
    pub(super) fn stir(&mut self, data: DataId) {
        self.stirred_due.extend(self.due.range(at_all(data)));
        if self.wishes[data.index()] == Some(ResultRequest::Open) {
            self.wished.insert(data);
        }
    }

    /// A server waits for data, unless it has it.
    pub(super) fn require(&mut self, data: DataId, at: ServerId) {
        if !self.is_held_by(data, at) {
            self.due.insert((data, at));
            self.stirred_due.insert((data, at));
        }
    }

    /// What may be sent now.
    pub(super) fn take_stirred_due(&mut self) -> BTreeSet<(DataId, ServerId)> {
        std::mem::take(&mut self.stirred_due)
    }

    /// Whether a server waits for data that nobody was told to send there.
    pub(super) fn is_due(&self, data: DataId, at: ServerId) -> bool {
        self.due.contains(&(data, at))
    }

    /// A server does not wait for data any more, or somebody is told to send it; whether it did.
    pub(super) fn settle_due(&mut self, data: DataId, at: ServerId) -> bool {
        self.due.remove(&(data, at))
    }

    /// Data that a server waits for must come to the client first; it is looked at again then.
    pub(super) fn want_for(&mut self, data: DataId, at: ServerId) {
        self.relays.want(data);
        self.stirred_due.insert((data, at));
    }

    /// Data is being sent.
    pub(super) fn sending(&mut self, data: DataId, from: Endpoint, to: &[ServerId]) {
        match from {
            Endpoint::Client => to.iter().for_each(|&to| self.add(data, to)),
            Endpoint::Server(_) => self.sending.extend(to.iter().map(|&to| (data, to))),
        }
    }

    /// A server has said whether it has sent data.
    pub(super) fn has_said(&mut self, data: DataId, to: ServerId) {
        self.sending.remove(&(data, to));
    }

    /// Whether a server was told to send data to this one, and has not said whether it did.
    pub(super) fn is_sent_to(&self, data: DataId, to: ServerId) -> bool {
        self.sending.contains(&(data, to))
    }

    /// Whether a server was told to send data to anybody, and has not said whether it did.
    pub(super) fn is_sent(&self, data: DataId) -> bool {
        self.sending.range(at_all(data)).next().is_some()
    }

    /// What the client wants and can have, and from which server.
    pub(super) fn take_wishes(&mut self) -> Vec<(DataId, ServerId)> {
        let mut taken = Vec::new();
        for data in std::mem::take(&mut self.wished) {
            let wish = &mut self.wishes[data.index()];
            // What nobody has any more is made again.
            if let (Some(ResultRequest::Open), Some(server)) =
                (*wish, self.holders[data.index()].first)
            {
                *wish = Some(ResultRequest::Asked(server));
                taken.push((data, server));
            }
        }
        taken
    }

    /// Whether the client wants data and does not have it.
    pub(super) fn is_wished(&self, data: DataId) -> bool {
        self.wishes[data.index()].is_some_and(|wish| wish != ResultRequest::Granted)
    }

    /// Data that the client wants has come, and `is_lost` if nothing waits for it any more.
    pub(super) fn granted(&mut self, data: DataId, is_lost: bool) {
        let before = self.wishes[data.index()].replace(ResultRequest::Granted);
        if before.is_some_and(|wish| wish != ResultRequest::Granted) && !is_lost {
            self.ungranted -= 1;
        }
    }

    /// Data will never be.
    pub(super) fn failed(&mut self, data: DataId) {
        self.ungranted -= usize::from(self.is_wished(data));
    }

    /// Whether the client has all it wants of what may be.
    pub(super) fn are_granted(&self) -> bool {
        self.ungranted == 0
    }

    /// What the client has asked of a server is to be asked for again.
    fn ask_again(&mut self, data: DataId, of: impl Fn(ServerId) -> bool) {
        if let Some(wish @ ResultRequest::Asked(_)) = &mut self.wishes[data.index()]
            && matches!(*wish, ResultRequest::Asked(asked) if of(asked))
        {
            *wish = ResultRequest::Open;
            self.wished.insert(data);
        }
    }

    /// Whether data goes from one to the other without the client between them.
    pub(super) fn is_direct(&self, from: Endpoint, to: ServerId) -> bool {
        match from {
            Endpoint::Server(from) => from == to || !self.relays.are_apart(from, to),
            Endpoint::Client => true,
        }
    }

    /// Where a server has data from: itself, another server, or the client; nobody if it must come
    /// to the client first. Where one server with the data was not reached, no other is tried:
    /// those may be behind the same router, and each takes some seconds.
    pub(super) fn source(&self, data: DataId, to: ServerId) -> Option<Endpoint> {
        if self.is_held_by(data, to) {
            return Some(Endpoint::Server(to));
        }
        if self.relays.is_unreached(data, to) {
            return self.is_at_client(data).then_some(Endpoint::Client);
        }
        let mut all = self.holders(data);
        all.find(|&from| self.is_direct(from, to))
    }

    /// A server does not reach another that has data.
    pub(super) fn part(&mut self, data: DataId, from: ServerId, to: ServerId) {
        self.relays.part(data, from, to);
    }

    /// What was wanted of the client is not any more, unless somebody says so again.
    pub(super) fn reconsider(&mut self) {
        self.relays.reconsider();
    }

    /// A task waits for data that the client is to bring.
    pub(super) fn want(&mut self, data: DataId) {
        self.relays.want(data);
    }

    /// What the client is to bring for others, and from which server; `bytes` says how large data
    /// is, and `goes` whether some that is at the client will go without any more.
    pub(super) fn take_relays(
        &mut self,
        bytes: impl Fn(DataId) -> u64,
        goes: impl Fn(DataId) -> bool,
    ) -> Vec<(DataId, ServerId)> {
        if self.relays.is_idle() {
            return Vec::new();
        }
        let holders = &self.holders;
        self.relays.take(|data| holders[data.index()].first, bytes, goes)
    }

    /// The client has data that it brings for others, of so many bytes.
    pub(super) fn relayed(&mut self, data: DataId, bytes: u64) {
        self.change(data, |copies| copies.relays.came(data, bytes));
    }

    /// Whether the client has brought data for others, and not let go of it.
    pub(super) fn is_relayed(&self, data: DataId) -> bool {
        self.relays.has(data)
    }

    /// What the client has brought and nobody needs any more: no server that waits for it, and
    /// nobody of whom `needs` says so.
    pub(super) fn take_spent(&mut self, needs: impl Fn(DataId) -> bool) -> Vec<DataId> {
        let is_due = |data| self.due.range(at_all(data)).next().is_some();
        let spent = self.relays.spent(|data| !is_due(data) && !needs(data));
        spent.iter().for_each(|&data| self.change(data, |copies| copies.relays.let_go(data)));
        spent
    }

    /// Data is not where it was said to be.
    pub(super) fn missing(&mut self, data: DataId, from: Endpoint) {
        if let Endpoint::Server(server) = from {
            let server = self.heir_of(server);
            self.remove(data, server);
            self.relays.missing(data, server);
        }
        self.ask_again(data, |_| true);
    }

    /// A server is not there any more; what it had is with its heir, if it has one. The data it had.
    pub(super) fn gone(&mut self, server: ServerId, heir: Option<ServerId>) -> Vec<DataId> {
        let mut had = Vec::new();
        for data in (0..self.holders.len() as u32).map(DataId) {
            if self.remove(data, server) {
                heir.into_iter().for_each(|heir| self.add(data, heir));
                had.push(data);
            }
            self.ask_again(data, |asked| asked == server);
        }
        self.relays.lost(server);
        if let Some(heir) = heir {
            self.heirs.insert(server, heir);
            for set in [&mut self.due, &mut self.stirred_due, &mut self.sending] {
                let all = std::mem::take(set).into_iter();
                set.extend(all.map(|(data, to)| (data, if to == server { heir } else { to })));
            }
        }
        had
    }

    /// Who has what a server had: itself, or who took over from it.
    pub(super) fn heir_of(&self, mut server: ServerId) -> ServerId {
        while let Some(&heir) = self.heirs.get(&server) {
            server = heir;
        }
        server
    }
}
