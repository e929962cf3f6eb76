//! The name server of a run of ranks: brings together ranks that do not know each other.
//!
//! It is a pure state machine, in the actor of rank 0, with which it moves and is stored. Ranks ask
//! it, and it answers each request once, immediately or later:
//!
//! - **Ports and services.** It pairs a group that accepts at a port with one that connects to the
//!   port, each in the order of asking. A service is a name under which a port is published.
//! - **Groups by name.** Ranks that join a group of one name get the whole group once all have
//!   joined.
//! - **Spawning.** It numbers the new ranks and chooses their PEs. It answers once all have begun,
//!   so that no rank can come to the next migration point before they exist.
//! - **Agreements.** The living ranks of a communicator agree on flags, and on which ranks live.
//!
//! It also numbers the communicators that are made in these ways. So two groups without a common
//! rank need not agree on a number first. Its numbers begin with [`SERVED_FROM`]; numbers on which
//! ranks agree stay below.

mod agreement;
mod message;
mod placement;

pub(crate) use message::{AgreementRequest, PlacedRanks, ServerReply, ServerRequest, Spawn};
pub use placement::SpawnPlacement;

use crate::error::SERVED_FROM;
use crate::port::RankPort;
use crate::refusal::RankRefusal;
use crate::ticket::{Asker, Ticket};
use agreement::Agreements;
use gridspan_runtime::{Layout, PeId};
use serde::{Deserialize, Serialize};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// End of the numbers of communicators: a number and the next one have two contexts each, and a
/// context has 32 bits.
const SERVED_TO: u32 = (1 << 31) - 2;

/// Largest number of ranks that a call spawns: rank 0 and each spawned rank hold the list of all.
pub(crate) const SPAWNED_MAX: u32 = 1 << 24;
/// Largest number of ranks of a job.
const RANKS_MAX: u32 = i32::MAX as u32;

/// Answers, each with the operation that gets it.
pub(crate) type Answers = Vec<(Asker, ServerReply)>;

/// A group that accepts or connects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Caller {
    asker: Asker,
    group: PlacedRanks,
}

/// The groups that wait at a port. At least one of the queues is empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Callers {
    accepting: VecDeque<Caller>,
    connecting: VecDeque<Caller>,
}

/// A group whose ranks have not all joined.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Gathering {
    /// Number of ranks of the whole group.
    ranks: u32,
    /// The operation and the place of each rank that has joined, by its number in the job.
    joined: BTreeMap<u32, (Ticket, (u32, u32))>,
}

/// Spawned ranks that have not all begun.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Beginning {
    asker: Asker,
    missing: u32,
    number: u32,
    children: PlacedRanks,
}

/// The ports, services and groups of a run of ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct NameServer {
    last_port: u64,
    ports: BTreeMap<RankPort, Callers>,
    services: BTreeMap<String, RankPort>,
    /// The operations that wait for a service.
    lookups: BTreeMap<String, Vec<Asker>>,
    groups: BTreeMap<String, Gathering>,
    /// Spawned ranks that have not all begun, by the first of them.
    beginning: BTreeMap<u32, Beginning>,
    /// Number of calls of `number` so far.
    numbered: u32,
    agreements: Agreements,
}

impl NameServer {
    /// Handles a request other than to spawn ranks.
    pub(crate) fn handle(&mut self, asker: Asker, request: ServerRequest) -> Answers {
        match request {
            ServerRequest::OpenPort => {
                self.last_port += 1;
                let port = RankPort(self.last_port);
                self.ports.insert(port, Callers::default());
                vec![(asker, ServerReply::Port(Some(port)))]
            }
            ServerRequest::ClosePort(port) => self.close(asker, port),
            ServerRequest::Publish { service, port } => self.publish(asker, service, port),
            ServerRequest::Unpublish { service } => match self.services.remove(&service) {
                Some(_) => vec![(asker, ServerReply::Done)],
                None => refused(asker, RankRefusal::NoSuchService { service }),
            },
            ServerRequest::Lookup { service, waits } => self.lookup(asker, service, waits),
            ServerRequest::Accept(port, group) => self.call(port, Caller { asker, group }, true),
            ServerRequest::Connect(port, group) => self.call(port, Caller { asker, group }, false),
            ServerRequest::Join { group, ranks, place } => self.join(asker, group, ranks, place),
            ServerRequest::Agree(request) => self.agreements.ask(asker, request),
            ServerRequest::Withdraw => {
                self.withdraw(asker);
                self.agreements.withdraw(asker);
                Vec::new()
            }
            ServerRequest::Spawn(_) => refused(asker, RankRefusal::Dropped),
        }
    }

    fn close(&mut self, asker: Asker, port: RankPort) -> Answers {
        let Some(Callers { accepting, connecting }) = self.ports.remove(&port) else {
            return refused(asker, RankRefusal::PortNotOpen { port });
        };
        self.services.retain(|_, published| *published != port);
        let waiting = accepting.into_iter().chain(connecting);
        let end =
            |caller: Caller| (caller.asker, ServerReply::Refused(RankRefusal::PortClosed { port }));
        waiting.map(end).chain([(asker, ServerReply::Done)]).collect()
    }

    fn publish(&mut self, asker: Asker, service: String, port: RankPort) -> Answers {
        if let Some(&port) = self.services.get(&service) {
            return refused(asker, RankRefusal::ServiceExists { service, port });
        }
        if !self.ports.contains_key(&port) {
            return refused(asker, RankRefusal::PortNotOpen { port });
        }
        let waiting = self.lookups.remove(&service).unwrap_or_default();
        self.services.insert(service, port);
        let found = waiting.into_iter().map(|asker| (asker, ServerReply::Port(Some(port))));
        found.chain([(asker, ServerReply::Done)]).collect()
    }

    fn lookup(&mut self, asker: Asker, service: String, waits: bool) -> Answers {
        let found = self.services.get(&service).copied();
        if found.is_none() && waits {
            self.lookups.entry(service).or_default().push(asker);
            return Vec::new();
        }
        vec![(asker, ServerReply::Port(found))]
    }

    /// Pairs a group with the first one that waits for it, or lets it wait.
    fn call(&mut self, port: RankPort, caller: Caller, accepts: bool) -> Answers {
        let Some(Callers { accepting, connecting }) = self.ports.get_mut(&port) else {
            return refused(caller.asker, RankRefusal::PortNotOpen { port });
        };
        let (own, others) = if accepts { (accepting, connecting) } else { (connecting, accepting) };
        let Some(other) = others.pop_front() else {
            own.push_back(caller);
            return Vec::new();
        };
        let askers = [caller.asker, other.asker];
        let members: BTreeSet<u32> = caller.group.ranks.iter().copied().collect();
        if let Some(&rank) = other.group.ranks.iter().find(|rank| members.contains(rank)) {
            let refusal = RankRefusal::RankInBothGroups { rank };
            return askers.map(|asker| (asker, ServerReply::Refused(refusal.clone()))).into();
        }
        match self.number() {
            Ok(number) => {
                let link = |remote| ServerReply::Linked { number, remote };
                vec![(caller.asker, link(other.group)), (other.asker, link(caller.group))]
            }
            Err(refusal) => {
                askers.map(|asker| (asker, ServerReply::Refused(refusal.clone()))).into()
            }
        }
    }

    /// Adds a rank to a group. Once the group has all its ranks, each of them gets the group.
    fn join(&mut self, asker: Asker, name: String, ranks: u32, place: (u32, u32)) -> Answers {
        if ranks == 0 {
            return refused(asker, RankRefusal::EmptyGroup);
        }
        let mut gathering = self
            .groups
            .remove(&name)
            .unwrap_or_else(|| Gathering { ranks, joined: BTreeMap::new() });
        let problem = if gathering.ranks != ranks {
            let (group, expected) = (name.clone(), gathering.ranks);
            Some(RankRefusal::OtherGroupSize { group, expected, found: ranks })
        } else if let Entry::Vacant(free) = gathering.joined.entry(asker.rank) {
            free.insert((asker.ticket, place));
            None
        } else {
            Some(RankRefusal::WaitsAlready { group: name.clone() })
        };
        if problem.is_some() || (gathering.joined.len() as u64) < u64::from(ranks) {
            self.groups.insert(name, gathering);
            return problem.map_or_else(Vec::new, |refusal| refused(asker, refusal));
        }
        let joined = gathering.joined;
        let (ranks, places) = joined.iter().map(|(rank, (_, place))| (*rank, *place)).unzip();
        let group = PlacedRanks { ranks, places };
        let reply = match self.number() {
            Ok(number) => ServerReply::Gathered { number, group },
            Err(refusal) => ServerReply::Refused(refusal),
        };
        let asker = |(rank, (ticket, _))| Asker { rank, ticket };
        joined.into_iter().map(asker).map(|asker| (asker, reply.clone())).collect()
    }

    /// Forgets a request that waits.
    fn withdraw(&mut self, asker: Asker) {
        for callers in self.ports.values_mut() {
            callers.accepting.retain(|caller| caller.asker != asker);
            callers.connecting.retain(|caller| caller.asker != asker);
        }
        self.lookups.retain(|_, askers| {
            askers.retain(|other| *other != asker);
            !askers.is_empty()
        });
        self.groups.retain(|_, gathering| {
            let joined = &mut gathering.joined;
            if joined.get(&asker.rank).is_some_and(|(ticket, _)| *ticket == asker.ticket) {
                joined.remove(&asker.rank);
            }
            !gathering.joined.is_empty()
        });
    }

    /// Numbers `wanted` new ranks, from `first` on, and chooses their PEs. Returns the first number
    /// of the communicators with their parents, and the new ranks.
    pub(crate) fn spawn(
        &mut self,
        asker: Asker,
        (first, wanted): (u32, usize),
        placement: SpawnPlacement,
        layout: &Layout,
    ) -> Result<(u32, PlacedRanks), RankRefusal> {
        let ranks = u32::try_from(wanted).unwrap_or(u32::MAX);
        let end = first.checked_add(ranks).filter(|end| *end <= RANKS_MAX);
        let Some(end) = end.filter(|_| ranks > 0) else {
            let max = RANKS_MAX.saturating_sub(first).min(SPAWNED_MAX);
            return Err(RankRefusal::SpawnCount { ranks: wanted as u64, max });
        };
        let pes = placement.pes(first, ranks, layout)?;
        let number = self.number()?;
        let places = pes.into_iter().map(|pe| (layout.site_of(PeId(pe)).0, pe)).collect();
        let children = PlacedRanks { ranks: (first..end).collect(), places };
        let beginning = Beginning { asker, missing: ranks, number, children: children.clone() };
        self.beginning.insert(first, beginning);
        Ok((number, children))
    }

    /// Notes that one of the spawned ranks from `first` on has begun.
    pub(crate) fn begun(&mut self, first: u32) -> Answers {
        let Some(beginning) = self.beginning.get_mut(&first) else { return Vec::new() };
        beginning.missing = beginning.missing.saturating_sub(1);
        if beginning.missing > 0 {
            return Vec::new();
        }
        let found = self.beginning.remove(&first);
        let reply = |Beginning { asker, number, children, .. }| {
            (asker, ServerReply::Linked { number, remote: children })
        };
        found.into_iter().map(reply).collect()
    }

    /// Notes that a rank has failed. The rank has used no communicator number from
    /// `next_communicator` on. Returns the answers of the agreements that the failure completes.
    pub(crate) fn note_failed(
        &mut self,
        rank: u32,
        next_communicator: u32,
        reason: String,
    ) -> Answers {
        self.agreements.note_failed(rank, next_communicator, reason)
    }

    /// The failed ranks, and why each has failed.
    pub(crate) fn failed(&self) -> &BTreeMap<u32, String> {
        self.agreements.failed()
    }

    /// Reserves two communicator numbers, and returns the first.
    fn number(&mut self) -> Result<u32, RankRefusal> {
        let number = self.numbered.checked_mul(2).and_then(|count| count.checked_add(SERVED_FROM));
        match number.filter(|number| *number < SERVED_TO) {
            Some(number) => {
                self.numbered += 1;
                Ok(number)
            }
            None => Err(RankRefusal::NoNumberLeft),
        }
    }
}

/// The answer to a request that cannot be fulfilled.
pub(crate) fn refused(asker: Asker, refusal: RankRefusal) -> Answers {
    vec![(asker, ServerReply::Refused(refusal))]
}

#[cfg(test)]
mod tests;
