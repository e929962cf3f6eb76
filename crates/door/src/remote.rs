//! Groups of typed functions on the servers behind a door.

use super::calls::Calls;
use super::conduct::conduct;
use super::errand::{Contact, Plan};
use super::meeting::{Meeting, tell};
use super::membership::Membership;
use super::owner::{Supply, dice};
use super::roster::Roster;
use super::stuff::fetch;
use super::token::{DoorError, Token};
use super::view::platform;
use super::visitor::Visitor;
use super::wire::{Listed, Question};
use bytes::Bytes;
use gridspan_rpc::calls::{RpcError, ServerCard};
use gridspan_rpc::group::{Beliefs, Crew, Encoded, Execute, Freed, Group, Mapper, Window};
use gridspan_rpc::heuristics::Heuristic;
use gridspan_rpc::{DataId, Platform, ServerId};
use quinn::Connection;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

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
    meeting: Meeting,
    /// Changes when a server was reached, or was not.
    met: watch::Sender<()>,
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

/// Data of the client by group and number.
type Values = BTreeMap<(u64, u32), Encoded>;

#[derive(Default)]
pub(super) struct State {
    roster: Roster,
    members: Membership,
    groups: u32,
    /// How large data is that was made.
    pub(super) sizes: BTreeMap<(u32, u32), u64>,
    /// Members of which the second did not reach the first, and when.
    pub(super) apart: BTreeMap<(u32, u32), Instant>,
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

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
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
        let values: Arc<Mutex<Values>> = Arc::default();
        let of_servers = values.clone();
        let supplied: Supply = Arc::new(move |group, data| {
            let value = lock(&of_servers).get(&(group, data)).cloned()?;
            Some(value.into_segments().map(Bytes::from_owner).collect())
        });
        let meeting = Meeting::new(visitor.clone(), supplied);
        let (met, state) = (watch::Sender::new(()), Mutex::default());
        Ok(Self { inner: Arc::new(Inner { visitor, meeting, met, first, state, values }) })
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

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.inner.state)
    }

    #[cfg(test)]
    pub(super) fn is_anybody_coming(&self) -> bool {
        self.state().members.is_anybody_coming()
    }

    /// What servers may fetch from here.
    pub(super) fn values(&self) -> &Mutex<Values> {
        &self.inner.values
    }

    pub(super) fn group(&self, group: u32) -> u64 {
        self.inner.first.wrapping_add(u64::from(group))
    }

    fn connection(&self, number: u32) -> Option<Connection> {
        self.state().members.connection(number)
    }

    /// Hears what is new of servers, if that comes in time.
    async fn hear_news(&self) -> Result<(), RpcError> {
        let (known, is_somebody_there) = {
            let state = self.state();
            (state.roster.known(), state.members.is_somebody_there())
        };
        // Whoever was reached before is there without a registry.
        let patience = if is_somebody_there { NEWS } else { FIRST_NEWS };
        match tokio::time::timeout(patience, self.inner.visitor.news(known)).await {
            Ok(Ok(news)) => {
                self.state().roster.hear(news);
                Ok(())
            }
            _ if is_somebody_there => {
                tracing::warn!("no news of servers");
                Ok(())
            }
            Ok(Err(error)) => Err(other(&error)),
            Err(_) => Err(RpcError::CommunicationFailed),
        }
    }

    /// Has those servers reached that were not, each by itself, and waits for them a while.
    async fn meet(&self) {
        let mut met = self.inner.met.subscribe();
        let due = {
            let mut state = self.state();
            let listed = state.roster.listed();
            state.members.list(Instant::now(), listed)
        };
        for (number, listed) in due {
            let (meeting, inner) = (self.inner.meeting.clone(), Arc::downgrade(&self.inner));
            tokio::spawn(async move {
                let reached = meeting.with(&listed).await;
                match inner.upgrade() {
                    Some(inner) => {
                        lock(&inner.state).members.reached(Instant::now(), number, reached);
                        // Maybe nobody waits for it.
                        inner.met.send_replace(());
                    }
                    // Nobody needs it any more.
                    None => reached.into_iter().for_each(|(contact, _)| {
                        contact.connection.close(0_u32.into(), b"");
                    }),
                }
            });
        }
        loop {
            let patience = self.state().members.patience(Instant::now());
            let Some(patience) = patience else { return };
            // Whether one has come or it is too late for them.
            let _ = tokio::time::timeout(patience, met.changed()).await;
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        lock(&self.state).members.close();
    }
}

impl Crew for Remote {
    async fn cards(&self) -> Result<Vec<ServerCard>, RpcError> {
        self.hear_news().await?;
        self.meet().await;
        let state = self.state();
        let card = |(number, listed): (u32, &Listed)| {
            let speed = listed.card.speed / f64::from(listed.cores.max(1));
            ServerCard { number, speed, is_direct: true, ..listed.card.clone() }
        };
        Ok(state.members.there().map(card).collect())
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
        // Who has gone since is no server any more, but keeps its position.
        let of = |card: &ServerCard| state.members.known(card.number);
        let (listed, samples): (Vec<_>, Vec<_>) = cards.iter().filter_map(of).unzip();
        let platform = platform(&listed, &samples, beliefs, &|place| pace(cards[place].number));
        Ok(platform.with_apart(apart))
    }

    fn standing(&self, server: u32) -> Option<u32> {
        self.connection(server).map(|_| server)
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
        for connection in servers.iter().filter_map(|&server| self.connection(server)) {
            let question = Question::Free { group: wire, data: ranges.clone() };
            tell(&connection, question);
        }
    }

    fn end_group(&self, group: u32, servers: BTreeSet<u32>) {
        self.state().sizes.retain(|(of, _), _| *of != group);
        let wire = self.group(group);
        lock(&self.inner.values).retain(|(of, _), _| *of != wire);
        for connection in servers.iter().filter_map(|&server| self.connection(server)) {
            tell(&connection, Question::End(wire));
        }
    }

    async fn fetch(&self, group: u32, data: u32, server: u32) -> Result<Encoded, RpcError> {
        let bytes = self.state().sizes.get(&(group, data)).copied();
        let (Some(connection), Some(bytes)) = (self.connection(server), bytes) else {
            return Err(RpcError::CommunicationFailed);
        };
        let fetched = fetch(&connection, self.group(group), data, bytes).await;
        let (bytes, _) = fetched.map_err(|_| RpcError::CommunicationFailed)?;
        Encoded::new(bytes)
    }
}

impl Execute for Remote {
    async fn execute(window: &Window<'_, '_, Self>) -> Result<(), RpcError> {
        let remote = window.crew();
        let contact = |card: &ServerCard| remote.state().members.contact(card.number).cloned();
        let contacts: Vec<Contact> = window.cards().iter().filter_map(contact).collect();
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
