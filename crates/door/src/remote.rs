//! Groups of typed functions on the servers behind a door.

use super::conduct::conduct;
use super::errand::{Contact, Errand, Plan};
use super::meeting::{meet, tell};
use super::owner::{Supply, dice};
use super::stuff::fetch;
use super::token::{DoorError, Token};
use super::view::platform;
use super::visitor::Visitor;
use super::wire::{Listed, Question, Times, Work};
use bytes::Bytes;
use gridspan_rpc::calls::{RpcError, ServerCard};
use gridspan_rpc::group::{Beliefs, Crew, Done, Encoded, Execute, Freed, Group, Mapper, Window};
use gridspan_rpc::heuristics::Heuristic;
use gridspan_rpc::{DataId, Platform, ServerId, TaskId};
use gridspan_topology::LinkSample;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The servers behind a door, as a client sees them that maps groups to them. Clones are of the same. Needs a runtime of
/// tokio.
///
/// Servers that the registry lists are reached once, and from then on without it: groups go on while it is away.
#[derive(Clone)]
pub struct Remote {
    inner: Arc<Inner>,
}

struct Inner {
    visitor: Visitor,
    /// Held by who reaches servers: two at once would reach the same twice. What is waited for meanwhile has a limit.
    meeting: tokio::sync::Mutex<()>,
    /// The first group's number; those of others follow.
    first: u64,
    state: Mutex<State>,
    /// What servers may fetch from here.
    values: Arc<Mutex<Values>>,
}

/// How long news of servers are waited for, if some are known, and if none are.
const NEWS: Duration = Duration::from_secs(2);
const FIRST_NEWS: Duration = Duration::from_secs(30);
/// How often a group looks for a server that it misses.
const PAUSE: Duration = Duration::from_millis(50);
/// Servers that did not reach each other are not to try again for this time: each time takes some seconds.
const APART: Duration = Duration::from_secs(300);
/// The number of servers that the registry does not list at the moment.
const UNLISTED: u32 = u32::MAX;

/// Data of the client by group and number.
type Values = BTreeMap<(u64, u32), Encoded>;

#[derive(Default)]
struct State {
    /// By their numbers here: those at the door begin anew when a registry is restarted.
    members: Vec<Member>,
    groups: u32,
    /// How large data is that was made.
    sizes: BTreeMap<(u32, u32), u64>,
    /// Members of which the second did not reach the first, and when.
    apart: BTreeMap<(u32, u32), Instant>,
}

impl State {
    /// Servers that are known not to reach each other, by their positions.
    fn apart(&mut self, cards: &[ServerCard]) -> Vec<(ServerId, ServerId)> {
        self.apart.retain(|_, since| since.elapsed() < APART);
        let places = cards.iter().map(|card| card.number).zip((0..).map(ServerId));
        let places: BTreeMap<u32, ServerId> = places.collect();
        let of_both = |(from, to)| Some((*places.get(from)?, *places.get(to)?));
        self.apart.keys().filter_map(|(from, to)| of_both((from, to))).collect()
    }
}

#[derive(Clone)]
struct Member {
    listed: Listed,
    contact: Contact,
    sample: LinkSample,
}

impl Member {
    fn is_there(&self) -> bool {
        self.contact.connection.close_reason().is_none()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn other(error: &DoorError) -> RpcError {
    match error {
        DoorError::Away { .. } => RpcError::CommunicationFailed,
        error => RpcError::Other { reason: error.to_string() },
    }
}

impl Remote {
    /// The servers behind the door that a token names.
    pub fn new(token: Token) -> Result<Self, DoorError> {
        let (visitor, first) = (Visitor::new(token)?, dice()?);
        let (meeting, state, values) = Default::default();
        Ok(Self { inner: Arc::new(Inner { visitor, meeting, first, state, values }) })
    }

    /// A mapper of groups to these servers.
    pub fn mapper(&self) -> Mapper<Self> {
        Mapper::to(self.clone())
    }

    /// Maps the calls that `body` makes by a heuristic, and executes them, as [`Mapper::map`] does. What it learns of functions is
    /// forgotten: programs that map several groups keep a [`mapper`](Self::mapper).
    pub async fn map<R>(
        &self,
        heuristic: &dyn Heuristic,
        body: impl AsyncFnOnce(&Group<'_, Self>) -> Result<R, RpcError>,
    ) -> Result<R, RpcError> {
        self.mapper().map(heuristic, body).await
    }

    /// Says good-bye. Servers forget what they keep for its groups.
    pub async fn leave(&self) {
        self.inner.visitor.leave().await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.inner.state)
    }

    fn group(&self, group: u32) -> u64 {
        self.inner.first.wrapping_add(u64::from(group))
    }

    fn member(&self, number: u32) -> Option<Member> {
        let member = self.state().members.get(number as usize).cloned();
        member.filter(Member::is_there)
    }

    /// Reaches the servers that are listed and were not reached before.
    async fn meet(&self, listed: Vec<Listed>) {
        for member in &mut self.state().members {
            // What is known of it goes by numbers that may be those of others now.
            member.listed.links.clear();
            member.listed.card.number = UNLISTED;
        }
        let mut new = Vec::new();
        for listed in listed {
            let is_it = |member: &&mut Member| member.listed.is_same(&listed) && member.is_there();
            match self.state().members.iter_mut().find(is_it) {
                Some(member) => member.listed = listed,
                // A registry that was away for a moment may list a server as it was, too: the last is it.
                None => {
                    new.retain(|other: &Listed| !other.is_same(&listed));
                    new.push(listed);
                }
            }
        }
        let values = self.inner.values.clone();
        let supplied: Supply = Arc::new(move |group, data| {
            let value = lock(&values).get(&(group, data)).cloned()?;
            Some(value.into_segments().map(Bytes::from_owner).collect())
        });
        let met = meet(&self.inner.visitor, new, &supplied).await;
        let member = |(listed, contact, sample)| Member { listed, contact, sample };
        self.state().members.extend(met.into_iter().map(member));
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for member in &lock(&self.state).members {
            member.contact.connection.close(0_u32.into(), b"");
        }
    }
}

impl Crew for Remote {
    async fn cards(&self) -> Result<Vec<ServerCard>, RpcError> {
        let _one_at_a_time = self.inner.meeting.lock().await;
        let is_somebody_there = self.state().members.iter().any(Member::is_there);
        // Whoever was reached before is there without a registry.
        let patience = if is_somebody_there { NEWS } else { FIRST_NEWS };
        match tokio::time::timeout(patience, self.inner.visitor.list()).await {
            Ok(Ok(listed)) => self.meet(listed).await,
            _ if is_somebody_there => tracing::warn!("no news of servers"),
            Ok(Err(error)) => return Err(other(&error)),
            Err(_) => return Err(RpcError::CommunicationFailed),
        }
        let state = self.state();
        let there = (0..).zip(&state.members).filter(|(_, member)| member.is_there());
        let card = |(number, Member { listed, .. }): (u32, &Member)| {
            let speed = listed.card.speed / f64::from(listed.cores.max(1));
            ServerCard { number, speed, is_direct: true, ..listed.card.clone() }
        };
        Ok(there.map(card).collect())
    }

    async fn pause(&self) {
        tokio::time::sleep(PAUSE).await;
    }

    async fn platform(
        &self,
        cards: &[ServerCard],
        beliefs: &Beliefs,
        pace: &dyn Fn(u32) -> f64,
    ) -> Result<Platform, RpcError> {
        let mut state = self.state();
        let apart = state.apart(cards);
        let of = |card: &ServerCard| state.members[card.number as usize].clone();
        let (listed, samples): (Vec<_>, Vec<_>) =
            cards.iter().map(of).map(|member| (member.listed, member.sample)).unzip();
        let platform = platform(&listed, &samples, beliefs, &|place| pace(cards[place].number));
        Ok(platform.with_apart(apart))
    }

    fn standing(&self, server: u32) -> Option<u32> {
        self.member(server).map(|_| server)
    }

    fn begin_group(&self) -> u32 {
        let mut state = self.state();
        state.groups += 1;
        state.groups
    }

    fn free(&self, group: u32, data: &Freed, servers: &BTreeSet<u32>) {
        let ranges: Vec<(u32, u32)> = data.ranges().map(|range| (range.start, range.end)).collect();
        let is_free = |of: u32, version: u32| {
            of == group && ranges.iter().any(|(first, end)| (*first..*end).contains(&version))
        };
        self.state().sizes.retain(|(of, version), _| !is_free(*of, *version));
        let wire = self.group(group);
        lock(&self.inner.values)
            .retain(|(of, version), _| *of != wire || !is_free(group, *version));
        for member in servers.iter().filter_map(|&server| self.member(server)) {
            let question = Question::Free { group: wire, data: ranges.clone() };
            tell(&member.contact.connection, question);
        }
    }

    fn end_group(&self, group: u32, servers: BTreeSet<u32>) {
        self.state().sizes.retain(|(of, _), _| *of != group);
        let wire = self.group(group);
        lock(&self.inner.values).retain(|(of, _), _| *of != wire);
        for member in servers.iter().filter_map(|&server| self.member(server)) {
            tell(&member.contact.connection, Question::End(wire));
        }
    }

    async fn fetch(&self, group: u32, data: u32, server: u32) -> Result<Encoded, RpcError> {
        let bytes = self.state().sizes.get(&(group, data)).copied();
        let (Some(member), Some(bytes)) = (self.member(server), bytes) else {
            return Err(RpcError::CommunicationFailed);
        };
        let fetched = fetch(&member.contact.connection, self.group(group), data, bytes).await;
        let (bytes, _) = fetched.map_err(|_| RpcError::CommunicationFailed)?;
        Encoded::new(bytes)
    }
}

impl Execute for Remote {
    async fn execute(window: &Window<'_, '_, Self>) -> Result<(), RpcError> {
        let remote = window.crew();
        let contact =
            |card: &ServerCard| remote.state().members[card.number as usize].contact.clone();
        let contacts: Vec<Contact> = window.cards().iter().map(contact).collect();
        let (graph, group) = (window.graph(), remote.group(window.group()));
        for data in (0..graph.data().len() as u32).map(DataId) {
            if let Some(value) = window.value(data) {
                let version = window.version(data);
                remote.state().sizes.insert((window.group(), version), value.bytes());
                lock(&remote.inner.values).insert((group, version), value);
            }
        }
        let (platform, mapping) = (window.platform(), window.mapping());
        let plan = Plan { graph, platform, mapping, rescue: window.rescue(), group };
        let mut calls = Calls::new(window, remote);
        let conducted = conduct(plan, &contacts, &mut calls).await;
        let failed = |reason: String| RpcError::SessionFailed { reason };
        match conducted {
            Ok((_, None)) => Ok(()),
            Ok((_, Some((_, reason)))) => Err(failed(reason)),
            Err(given) => {
                let name = window.function(given.task);
                let reason = format!("`{name}` was not executed: {}", given.reason);
                Err(match given.is_refused {
                    true => RpcError::RpcRefused { reason },
                    false => failed(reason),
                })
            }
        }
    }
}

/// The calls of a window.
struct Calls<'w, 'a, 'b> {
    window: &'w Window<'a, 'b, Remote>,
    remote: &'w Remote,
    /// Data by its number in the group.
    data: BTreeMap<u32, DataId>,
}

impl<'w, 'a, 'b> Calls<'w, 'a, 'b> {
    fn new(window: &'w Window<'a, 'b, Remote>, remote: &'w Remote) -> Self {
        let all = (0..window.graph().data().len() as u32).map(DataId);
        let data = all.map(|data| (window.version(data), data)).collect();
        Self { window, remote, data }
    }

    /// What servers know data by.
    fn key(&self, data: DataId) -> (u64, u32) {
        (self.remote.group(self.window.group()), self.window.version(data))
    }

    fn size(&self, data: DataId) -> Option<u64> {
        let key = (self.window.group(), self.window.version(data));
        self.remote.state().sizes.get(&key).copied()
    }
}

impl Errand for Calls<'_, '_, '_> {
    fn work(&self, task: TaskId) -> Work {
        Work::Function(self.window.function(task).to_owned())
    }

    fn inputs(&self, task: TaskId) -> Vec<DataId> {
        let arguments = self.window.arguments(task).iter();
        arguments.filter_map(|version| self.data.get(version)).copied().collect()
    }

    fn version(&self, data: DataId) -> u32 {
        self.window.version(data)
    }

    fn bytes(&self, data: DataId) -> u64 {
        self.size(data).unwrap_or(self.window.graph().datum(data).bytes)
    }

    fn is_kept(&self, data: DataId) -> bool {
        self.window.is_named(data)
    }

    fn ordered(&mut self, server: ServerId) {
        // Whatever becomes of the order, something of the group may be there now.
        self.window.touch(server);
    }

    fn made(&mut self, task: TaskId, server: ServerId, times: &Times) {
        let inputs = self.inputs(task);
        let input_bytes = inputs.iter().map(|&data| self.bytes(data)).fold(0, u64::saturating_add);
        let outputs = &self.window.graph().task(task).outputs;
        for (&data, &bytes) in outputs.iter().zip(&times.sizes) {
            let key = (self.window.group(), self.window.version(data));
            self.remote.state().sizes.insert(key, bytes);
        }
        let took_s = Some(times.end_s - times.start_s);
        let outcome = Ok(times.sizes.clone());
        let done = Done { outcome, input_bytes, work_s: None, took_s };
        self.window.made(task, server, &done, &times.sizes);
    }

    fn has(&mut self, data: DataId, server: ServerId) {
        self.window.touch(server);
        self.window.has(data, server, false);
    }

    fn has_not(&mut self, data: DataId, server: ServerId) {
        self.window.has_not(data, server);
    }

    fn part(&mut self, from: ServerId, to: ServerId) {
        let pair = (self.window.number(from), self.window.number(to));
        self.remote.state().apart.insert(pair, Instant::now());
    }

    fn relayed(&mut self, data: DataId, bytes: Vec<u8>) {
        match Encoded::new(bytes) {
            Ok(value) => drop(lock(&self.remote.inner.values).insert(self.key(data), value)),
            // Whoever asks for it is told that it is not here.
            Err(error) => tracing::warn!(%error, "cannot pass on"),
        }
    }

    fn spent(&mut self, data: DataId) {
        lock(&self.remote.inner.values).remove(&self.key(data));
    }

    fn failed(&mut self, task: TaskId, reason: &str) {
        let error = RpcError::SessionFailed { reason: reason.to_owned() };
        self.window.failed(task, &error);
    }
}
