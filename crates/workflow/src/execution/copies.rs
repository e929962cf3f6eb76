//! The location of a group's data: the servers that have it, the servers that wait for it, and the
//! data that the client has or wants.

use super::relays::Relays;
use crate::graph::{Data, TaskGraph};
use crate::id::{DataId, Endpoint, ServerId, TaskId};
use std::collections::{BTreeMap, BTreeSet};

/// The state of a result that the client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResultRequest {
    Open,
    Asked(ServerId),
    Granted,
}

/// The servers that have data or to which it was sent, in order, and whether each is known to have
/// it.
#[derive(Clone, Debug, Default)]
struct Copies(Vec<(ServerId, bool)>);

impl Copies {
    fn find(&self, server: ServerId) -> Result<usize, usize> {
        self.0.binary_search_by_key(&server, |(holder, _)| *holder)
    }

    fn contains(&self, server: ServerId) -> bool {
        self.find(server).is_ok()
    }

    fn is_sure(&self, server: ServerId) -> bool {
        self.find(server).is_ok_and(|place| self.0[place].1)
    }

    fn insert(&mut self, server: ServerId, is_sure: bool) {
        match self.find(server) {
            Ok(place) => self.0[place].1 |= is_sure,
            Err(place) => self.0.insert(place, (server, is_sure)),
        }
    }

    fn remove(&mut self, server: ServerId) -> bool {
        self.find(server).map(|place| self.0.remove(place)).is_ok()
    }

    /// Iterates over the servers that are known to have the data, or over the others.
    fn those(&self, are_sure: bool) -> impl Iterator<Item = ServerId> + '_ {
        let all = self.0.iter().filter(move |(_, is_sure)| *is_sure == are_sure);
        all.map(|(server, _)| *server)
    }

    /// Returns a server that is known to have the data, or else one to which it was sent.
    fn first(&self) -> Option<ServerId> {
        self.those(true).chain(self.those(false)).next()
    }
}

/// All data of a group.
#[derive(Debug)]
pub(super) struct DataCopies<'a> {
    graph: &'a TaskGraph,
    holders: Vec<Copies>,
    pub(super) relays: Relays,
    /// The site of each server.
    sites: Vec<usize>,
    /// Number of arguments of each task that do not exist anywhere.
    pub(super) missing: Vec<usize>,
    /// Tasks whose number of missing arguments has become zero since the last
    /// [`Self::take_complete`].
    complete: Vec<TaskId>,
    /// Data that a server waits for, and that no other has been asked to send to it.
    due: BTreeSet<(DataId, ServerId)>,
    /// The part of `due` that may be sendable now.
    maybe_sendable: BTreeSet<(DataId, ServerId)>,
    /// The part of `due` that must first come to the client and was not requested yet.
    far: BTreeSet<DataId>,
    /// Data that a server has the order to send, with the receiver, until the sender reports on it.
    sending: BTreeSet<(DataId, ServerId)>,
    /// The requests for data that the client wants and does not have from the beginning.
    requests: Vec<Option<ResultRequest>>,
    /// Number of requests that are not granted and that can still be granted.
    ungranted: usize,
    /// Data that can be requested now.
    requestable: BTreeSet<DataId>,
    /// The server that has taken over from each server.
    successors: BTreeMap<ServerId, ServerId>,
}

fn at_all(data: DataId) -> std::ops::RangeInclusive<(DataId, ServerId)> {
    (data, ServerId(0))..=(data, ServerId(u32::MAX))
}

impl<'a> DataCopies<'a> {
    /// Creates the initial state from the graph, with the site of each server, and the pairs of
    /// servers of which the second does not reach the first.
    pub(super) fn new(
        graph: &'a TaskGraph,
        sites: Vec<usize>,
        apart: BTreeSet<(ServerId, ServerId)>,
    ) -> Self {
        let request = |data: &Data| {
            (data.is_wanted && data.producer.is_some()).then_some(ResultRequest::Open)
        };
        let holders = graph.data().iter().map(|data| {
            let mut copies = Copies::default();
            data.servers().for_each(|server| copies.insert(server, true));
            copies
        });
        let requests: Vec<Option<ResultRequest>> = graph.data().iter().map(request).collect();
        let mut missing = vec![0; graph.tasks().len()];
        for datum in graph.data().iter().filter(|datum| datum.held_by.is_empty()) {
            datum.consumers.iter().for_each(|reader| missing[reader.index()] += 1);
        }
        Self {
            graph,
            holders: holders.collect(),
            relays: Relays::new(apart),
            sites,
            missing,
            complete: Vec::new(),
            due: BTreeSet::new(),
            maybe_sendable: BTreeSet::new(),
            far: BTreeSet::new(),
            sending: BTreeSet::new(),
            ungranted: requests.iter().flatten().count(),
            requests,
            requestable: BTreeSet::new(),
            successors: BTreeMap::new(),
        }
    }

    pub(super) fn is_at_client(&self, data: DataId) -> bool {
        self.graph.datum(data).held_by.contains(&Endpoint::Client) || self.relays.has(data)
    }

    /// Whether a copy of data exists.
    pub(super) fn exists(&self, data: DataId) -> bool {
        self.is_held(data) || self.is_at_client(data)
    }

    /// Whether any server has data, or data was sent to it.
    pub(super) fn is_held(&self, data: DataId) -> bool {
        !self.holders[data.index()].0.is_empty()
    }

    pub(super) fn is_held_by(&self, data: DataId, server: ServerId) -> bool {
        self.holders[data.index()].contains(server)
    }

    /// Whether all arguments of a task exist.
    pub(super) fn has_inputs(&self, task: TaskId) -> bool {
        self.missing[task.index()] == 0
    }

    /// Takes the tasks whose last argument has come to exist since the last call.
    pub(super) fn take_complete(&mut self) -> Vec<TaskId> {
        std::mem::take(&mut self.complete)
    }

    /// Iterates over the holders of data: servers known to have it, then those to which it was
    /// sent, then the client.
    pub(super) fn holders(&self, data: DataId) -> impl Iterator<Item = Endpoint> + '_ {
        let copies = &self.holders[data.index()];
        let client = self.is_at_client(data).then_some(Endpoint::Client);
        let servers = copies.those(true).chain(copies.those(false));
        servers.map(Endpoint::Server).chain(client)
    }

    /// Iterates over the endpoints that are known to have data, or else over those to which it was
    /// sent.
    pub(super) fn sure_holders(&self, data: DataId) -> impl Iterator<Item = Endpoint> + '_ {
        let copies = &self.holders[data.index()];
        let client = self.is_at_client(data).then_some(Endpoint::Client);
        let are_sure = client.is_some() || copies.those(true).next().is_some();
        copies.those(are_sure).map(Endpoint::Server).chain(client)
    }

    /// Changes the location of data, and updates its readers if it comes to exist or ceases to.
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

    /// Adds a server that has data, or to which data was sent; `is_sure` if the server is known to
    /// have it.
    pub(super) fn add(&mut self, data: DataId, server: ServerId, is_sure: bool) {
        let insert = |copies: &mut Self| copies.holders[data.index()].insert(server, is_sure);
        match self.is_held(data) {
            true => insert(self),
            false => self.change(data, insert),
        }
    }

    /// Removes a server that does not have data.
    pub(super) fn remove(&mut self, data: DataId, server: ServerId) -> bool {
        self.change(data, |copies| copies.holders[data.index()].remove(server))
    }

    /// Notes that data has a new location: it may be sent to servers, and requested for the client.
    pub(super) fn note_new_location(&mut self, data: DataId) {
        self.maybe_sendable.extend(self.due.range(at_all(data)));
        if self.requests[data.index()] == Some(ResultRequest::Open) {
            self.requestable.insert(data);
        }
    }

    /// Adds a server that waits for data, unless the server has the data.
    pub(super) fn require(&mut self, data: DataId, at: ServerId) {
        if !self.is_held_by(data, at) {
            self.due.insert((data, at));
            self.maybe_sendable.insert((data, at));
        }
    }

    /// Takes the data that servers and the client are to send now, with the receivers. Data that
    /// cannot be sent is queued for a relay through the client. For data and a receiver, `tried`
    /// returns the servers on which the receiver's task was tried before. It returns `None` if no
    /// task of the receiver waits for the data, or if the server that makes the data already has
    /// the order to send it there.
    pub(super) fn take_sends(
        &mut self,
        tried: impl Fn(DataId, ServerId) -> Option<Vec<ServerId>>,
    ) -> BTreeMap<(DataId, Endpoint), Vec<ServerId>> {
        let mut sends: BTreeMap<(DataId, Endpoint), Vec<ServerId>> = BTreeMap::new();
        for (data, to) in std::mem::take(&mut self.maybe_sendable) {
            let is_here = self.is_held_by(data, to) || self.sending.contains(&(data, to));
            let Some(tried) = tried(data, to).filter(|_| !is_here) else {
                self.due.remove(&(data, to));
                continue;
            };
            // A server on which the task was tried before is the last choice: it may not answer.
            match self.source(data, to, |server| tried.contains(&server)) {
                Some(from) if self.due.remove(&(data, to)) => {
                    sends.entry((data, from)).or_default().push(to);
                }
                None if self.exists(data) => drop(self.far.insert(data)),
                // It is examined again once the data exists.
                Some(_) | None => {}
            }
        }
        for ((data, from), to) in &sends {
            match from {
                Endpoint::Client => to.iter().for_each(|&to| self.add(*data, to, false)),
                Endpoint::Server(_) => self.sending.extend(to.iter().map(|&to| (*data, to))),
            }
        }
        sends
    }

    /// Notes that a server has reported on a command to send data. Returns whether one had the
    /// command.
    pub(super) fn end_send(&mut self, data: DataId, to: ServerId) -> bool {
        self.sending.remove(&(data, to))
    }

    /// Removes a server to which data was sent and that is not known to have it, if another
    /// endpoint is known to have the data. Returns whether it did.
    pub(super) fn remove_unsure(&mut self, data: DataId, server: ServerId) -> bool {
        let is_unsure = !self.holders[data.index()].is_sure(server);
        self.is_certain(data) && is_unsure && self.remove(data, server)
    }

    /// Whether data was sent to a server, and no endpoint is known to have the data.
    pub(super) fn is_only_sent(&self, data: DataId, server: ServerId) -> bool {
        self.is_held_by(data, server) && !self.is_certain(data)
    }

    /// Whether an endpoint is known to have data.
    fn is_certain(&self, data: DataId) -> bool {
        self.is_at_client(data) || self.holders[data.index()].those(true).next().is_some()
    }

    /// Whether a server has been asked to send data, and has not reported on it.
    pub(super) fn is_sent(&self, data: DataId) -> bool {
        self.sending.range(at_all(data)).next().is_some()
    }

    /// Takes the data that the client wants and can request, with the server to request it from.
    pub(super) fn take_requests(&mut self) -> Vec<(DataId, ServerId)> {
        let mut taken = Vec::new();
        for data in std::mem::take(&mut self.requestable) {
            let request = &mut self.requests[data.index()];
            // Data without a holder is produced again.
            if let (Some(ResultRequest::Open), Some(server)) =
                (*request, self.holders[data.index()].first())
            {
                *request = Some(ResultRequest::Asked(server));
                taken.push((data, server));
            }
        }
        taken
    }

    /// Whether the client wants data that it does not have.
    pub(super) fn is_awaited(&self, data: DataId) -> bool {
        self.requests[data.index()].is_some_and(|request| request != ResultRequest::Granted)
    }

    /// Notes that data that the client wants has arrived; `is_lost` if the task that makes it has
    /// failed, so that the request was no longer counted.
    pub(super) fn granted(&mut self, data: DataId, is_lost: bool) {
        let before = self.requests[data.index()].replace(ResultRequest::Granted);
        if before.is_some_and(|request| request != ResultRequest::Granted) && !is_lost {
            self.ungranted -= 1;
        }
    }

    /// Notes that data can no longer be produced.
    pub(super) fn failed(&mut self, data: DataId) {
        self.ungranted -= usize::from(self.is_awaited(data));
    }

    /// Whether the client has all wanted data that can be produced.
    pub(super) fn are_granted(&self) -> bool {
        self.ungranted == 0
    }

    /// Reopens the client's request for data if it went to a server for which `of` is true.
    fn ask_again(&mut self, data: DataId, of: impl Fn(ServerId) -> bool) {
        if let Some(request @ ResultRequest::Asked(_)) = &mut self.requests[data.index()]
            && matches!(*request, ResultRequest::Asked(asked) if of(asked))
        {
            *request = ResultRequest::Open;
            self.requestable.insert(data);
        }
    }

    /// Whether data travels from `from` to `to` without passing the client.
    pub(super) fn is_direct(&self, from: Endpoint, to: ServerId) -> bool {
        match from {
            Endpoint::Server(from) => from == to || !self.relays.are_apart(from, to),
            Endpoint::Client => true,
        }
    }

    /// Returns the source from which a server takes data: itself, another server, or the client;
    /// `None` if the data must first come to the client. The order of preference is: servers that
    /// are known to have the data, the client, servers to which the data was sent; servers at the
    /// same site come before others of their kind. Servers for which `is_last` is true are the last
    /// choice. After a server with the data could not be reached, only the client is a source,
    /// because other servers may be behind the same router, and each attempt takes some seconds.
    pub(super) fn source(
        &self,
        data: DataId,
        to: ServerId,
        is_last: impl Fn(ServerId) -> bool,
    ) -> Option<Endpoint> {
        if self.is_held_by(data, to) {
            return Some(Endpoint::Server(to));
        }
        if self.relays.is_unreached(data, to) {
            return self.is_at_client(data).then_some(Endpoint::Client);
        }
        let rank = |from: &Endpoint| match *from {
            Endpoint::Server(from) => {
                let is_sure = self.holders[data.index()].is_sure(from);
                let is_near = self.sites[from.index()] == self.sites[to.index()];
                (is_last(from), !is_sure, false, !is_near)
            }
            Endpoint::Client => (false, false, true, false),
        };
        self.holders(data).filter(|&from| self.is_direct(from, to)).min_by_key(rank)
    }

    /// Takes the data that the client is to fetch for servers, with the server to fetch it from.
    /// `bytes` returns the size of data. `goes` returns whether the client will be able to release
    /// data that it has, even if it fetches nothing more. `waits` returns whether a server still
    /// waits for data.
    pub(super) fn take_relays(
        &mut self,
        bytes: impl Fn(DataId) -> u64,
        goes: impl Fn(DataId) -> bool,
        waits: impl Fn(DataId, ServerId) -> bool,
    ) -> Vec<(DataId, ServerId)> {
        if self.relays.is_idle() && self.far.is_empty() {
            return Vec::new();
        }
        let (due, holders) = (&self.due, &self.holders);
        let is_due = |data: &DataId| due.range(at_all(*data)).any(|&(data, to)| waits(data, to));
        let far = self.far.iter().copied().filter(is_due);
        let holder = |data: DataId| holders[data.index()].first();
        let taken = self.relays.take(far, holder, bytes, goes);
        for (data, _) in &taken {
            self.far.remove(data);
        }
        taken
    }

    /// Notes that the client has received data of `bytes` bytes that it relays.
    pub(super) fn relayed(&mut self, data: DataId, bytes: u64) {
        self.far.remove(&data);
        self.change(data, |copies| copies.relays.came(data, bytes));
    }

    /// Takes the relayed data that is no longer needed: no server waits for it, and `needs` is
    /// false for it.
    pub(super) fn take_spent(&mut self, needs: impl Fn(DataId) -> bool) -> Vec<DataId> {
        let is_due = |data| self.due.range(at_all(data)).next().is_some();
        let spent = self.relays.spent(|data| !is_due(data) && !needs(data));
        spent.iter().for_each(|&data| self.change(data, |copies| copies.relays.let_go(data)));
        spent
    }

    /// Notes that data was not found where it was expected.
    pub(super) fn missing(&mut self, data: DataId, from: Endpoint) {
        if let Endpoint::Server(server) = from {
            let server = self.successor_of(server);
            self.remove(data, server);
            self.relays.missing(data, server);
        }
        self.ask_again(data, |_| true);
        self.note_new_location(data);
    }

    /// Removes a server that has left. Its successor, if it has one, has the data. Returns the data
    /// of the removed server.
    pub(super) fn gone(&mut self, server: ServerId, successor: Option<ServerId>) -> Vec<DataId> {
        let mut had = Vec::new();
        for data in (0..self.holders.len() as u32).map(DataId) {
            let is_sure = self.holders[data.index()].is_sure(server);
            if self.remove(data, server) {
                successor.into_iter().for_each(|successor| self.add(data, successor, is_sure));
                had.push(data);
                self.note_new_location(data);
            }
            self.ask_again(data, |asked| asked == server);
        }
        self.relays.lost(server);
        if let Some(successor) = successor {
            self.successors.insert(server, successor);
            for set in [&mut self.due, &mut self.maybe_sendable, &mut self.sending] {
                let all = std::mem::take(set).into_iter();
                set.extend(all.map(|(data, to)| (data, if to == server { successor } else { to })));
            }
        }
        had
    }

    /// Returns the server that has the data of `server`: that server, or the last one that took
    /// over from it.
    pub(super) fn successor_of(&self, mut server: ServerId) -> ServerId {
        while let Some(&successor) = self.successors.get(&server) {
            server = successor;
        }
        server
    }
}
