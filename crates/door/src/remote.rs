//! Groups of typed functions on the servers behind a door.

use super::calls::{Calls, error_of};
use super::chart::WAYS_MAX;
use super::conduct::conduct;
use super::errand::{Contact, Plan};
use super::kept::Kept;
use super::meeting::{Meeting, tell};
use super::membership::Membership;
use super::owner::dice;
use super::roster::Roster;
use super::stuff::fetch;
use super::token::{DoorError, Token};
use super::view::platform;
use super::visitor::Visitor;
use super::wire::{self, Listed, Question};
use gridspan_rpc::calls::{RpcError, ServerCard};
use gridspan_rpc::group::{Beliefs, Crew, Encoded, Execute, Freed, Group, Mapper, Window};
use gridspan_rpc::heuristics::Heuristic;
use gridspan_rpc::{DataId, Platform};
use quinn::Connection;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The servers behind a door, as a client sees them that maps groups to them. Clones are of the
/// same. Needs a runtime of tokio, with a thread that nothing else holds for more than a second:
/// servers take a client that says nothing for two to be gone.
///
/// Servers that the registry lists are reached once, and from then on without it: groups go on
/// while it is away.
#[derive(Clone)]
pub struct Remote {
    inner: Arc<Inner>,
}

struct Inner {
    visitor: Visitor,
    meeting: Meeting,
    /// Changes when a server was reached, or was not.
    met: watch::Sender<()>,
    kept: Kept,
    known: Mutex<Known>,
}

/// How long news of servers are waited for, if some are known, and if none are.
const NEWS: Duration = Duration::from_secs(2);
const FIRST_NEWS: Duration = Duration::from_secs(30);
/// How often a group looks for a server that it misses.
const PAUSE: Duration = Duration::from_millis(50);
/// What is known of servers.
#[derive(Default)]
struct Known {
    roster: Roster,
    members: Membership,
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

/// Why a window is not executed whose mapping took longer than servers that have gone are
/// remembered.
fn forgotten() -> RpcError {
    let reason = "a server went long before its group was mapped; run the group again";
    RpcError::Other { reason: reason.to_owned() }
}

impl Remote {
    /// The servers behind the door that a token names.
    pub fn new(token: Token) -> Result<Self, DoorError> {
        let (visitor, kept) = (Visitor::new(token)?, Kept::new(dice()?));
        let meeting = Meeting::new(visitor.clone(), kept.supply());
        let (met, known) = (watch::Sender::new(()), Mutex::default());
        Ok(Self { inner: Arc::new(Inner { visitor, meeting, met, kept, known }) })
    }

    /// A mapper of groups to these servers.
    pub fn mapper(&self) -> Mapper<Self> {
        Mapper::to(self.clone())
    }

    /// Maps the calls that `body` makes by a heuristic, and executes them, as [`Mapper::map`] does.
    /// What it learns of functions is forgotten: programs that map several groups keep a
    /// [`mapper`](Self::mapper).
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

    /// What servers may fetch from here.
    pub(super) fn kept(&self) -> &Kept {
        &self.inner.kept
    }

    /// How a server is or was reached, and the round trip to it.
    pub(super) fn contact(&self, number: u32) -> Option<(Contact, Duration)> {
        let known = self.known();
        let round_trip = known.members.known(number)?.1.round_trip.unwrap_or_default();
        Some((known.members.contact(number)?.clone(), round_trip))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        lock(&self.inner.known)
    }

    #[cfg(test)]
    pub(super) fn is_anybody_coming(&self) -> bool {
        self.known().members.is_anybody_coming()
    }

    fn connection(&self, number: u32) -> Option<Connection> {
        self.known().members.connection(number)
    }

    /// Hears what is new of servers, as much as comes in time: the rest does the next time.
    async fn hear_news(&self) -> Result<(), RpcError> {
        // Whoever was reached before is there without a registry.
        let mut is_enough = self.known().members.is_somebody_there();
        let patience = if is_enough { NEWS } else { FIRST_NEWS };
        let until = tokio::time::Instant::now() + patience;
        loop {
            // A door that is back has whoever knows nobody wait for its servers.
            let known = match is_enough {
                true => self.known().roster.known(),
                false => wire::Known::default(),
            };
            match tokio::time::timeout_at(until, self.inner.visitor.news(known)).await {
                Ok(Ok(news)) => {
                    let is_all = news.ways.len() < WAYS_MAX;
                    self.known().roster.hear(news);
                    if is_all {
                        return Ok(());
                    }
                    is_enough = true;
                }
                _ if is_enough => {
                    tracing::warn!("not all news of servers came in time");
                    return Ok(());
                }
                Ok(Err(error)) => return Err(other(&error)),
                Err(_) => return Err(RpcError::CommunicationFailed),
            }
        }
    }

    /// Has those servers reached that were not, each by itself, and waits for them a while.
    async fn meet(&self) {
        let mut met = self.inner.met.subscribe();
        let due = {
            let mut known = self.known();
            let listed = known.roster.listed();
            known.members.list(Instant::now(), listed)
        };
        for (number, listed) in due {
            let (meeting, inner) = (self.inner.meeting.clone(), Arc::downgrade(&self.inner));
            tokio::spawn(async move {
                let reached = meeting.with(&listed).await;
                match inner.upgrade() {
                    Some(inner) => {
                        lock(&inner.known).members.reached(Instant::now(), number, reached);
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
            let patience = self.known().members.patience(Instant::now());
            let Some(patience) = patience else { return };
            // Whether one has come or it is too late for them.
            let _ = tokio::time::timeout(patience, met.changed()).await;
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        lock(&self.known).members.close();
    }
}

impl Crew for Remote {
    async fn cards(&self) -> Result<Vec<ServerCard>, RpcError> {
        self.hear_news().await?;
        self.meet().await;
        let known = self.known();
        let card = |(number, listed): (u32, &Listed)| {
            let speed = listed.card.speed / f64::from(listed.cores.max(1));
            ServerCard { number, speed, is_direct: true, ..listed.card.clone() }
        };
        Ok(known.members.there().map(card).collect())
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
        let known = self.known();
        // Who has gone since is no server any more, but keeps its position.
        let of = |card: &ServerCard| known.members.known(card.number);
        let all: Option<Vec<_>> = cards.iter().map(of).collect();
        let (listed, samples): (Vec<_>, Vec<_>) = all.ok_or_else(forgotten)?.into_iter().unzip();
        let platform = platform(&listed, &samples, beliefs, &|place| pace(cards[place].number));
        Ok(platform.with_apart(self.inner.kept.apart(cards)))
    }

    fn standing(&self, server: u32) -> Option<u32> {
        self.connection(server).map(|_| server)
    }

    fn begin_group(&self) -> u32 {
        self.inner.kept.begin()
    }

    fn free(&self, group: u32, data: &Freed, servers: &BTreeSet<u32>) {
        self.inner.kept.free(group, data);
        let ranges: Vec<(u32, u32)> = data.ranges().map(|range| (range.start, range.end)).collect();
        let group = self.inner.kept.wire(group);
        for connection in servers.iter().filter_map(|&server| self.connection(server)) {
            tell(&connection, Question::Free { group, data: ranges.clone() });
        }
    }

    fn end_group(&self, group: u32, servers: BTreeSet<u32>) {
        self.inner.kept.end(group);
        let wire = self.inner.kept.wire(group);
        for connection in servers.iter().filter_map(|&server| self.connection(server)) {
            tell(&connection, Question::End(wire));
        }
    }

    async fn fetch(&self, group: u32, data: u32, server: u32) -> Result<Encoded, RpcError> {
        let kept = &self.inner.kept;
        let bytes = kept.size(group, data);
        let (Some(connection), Some(bytes)) = (self.connection(server), bytes) else {
            return Err(RpcError::CommunicationFailed);
        };
        let fetched = fetch(&connection, kept.wire(group), data, bytes).await;
        let (bytes, _) = fetched.map_err(|_| RpcError::CommunicationFailed)?;
        Encoded::new(bytes)
    }
}

impl Execute for Remote {
    async fn execute(window: &Window<'_, '_, Self>) -> Result<(), RpcError> {
        let remote = window.crew();
        let (kept, number) = (&remote.inner.kept, window.group());
        let contact = |card: &ServerCard| remote.known().members.contact(card.number).cloned();
        let contacts: Option<Vec<Contact>> = window.cards().iter().map(contact).collect();
        let contacts = contacts.ok_or_else(forgotten)?;
        let (graph, group) = (window.graph(), kept.wire(number));
        for data in (0..graph.data().len() as u32).map(DataId) {
            if let Some(value) = window.value(data) {
                kept.offer(number, window.version(data), value);
            }
        }
        let (platform, mapping) = (window.platform(), window.mapping());
        let plan = Plan { graph, platform, mapping, rescue: window.rescue(), group };
        let mut calls = Calls::new(window, kept);
        match conduct(plan, &contacts, &mut calls).await {
            (_, None) => Ok(()),
            (_, Some((task, failure))) => Err(error_of(window.function(task), &failure)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attend::answer;
    use crate::budget::Budget;
    use crate::chart::Chart;
    use crate::token::Key;
    use crate::wire::{Answer, News, WAITING_BYTES_MAX, hear};
    use gridspan_topology::{LinkSample, Time};
    use quinn::Endpoint;
    use std::net::SocketAddr;

    /// A door that tells what is on a chart, and who has its token.
    fn door_with(chart: Chart) -> Remote {
        let listen: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let (token, key): (Token, Key) = Token::new(listen).unwrap();
        let door = Endpoint::server(key.server().unwrap(), listen).unwrap();
        let token = token.at(door.local_addr().unwrap());
        tokio::spawn(async move {
            let guest = door.accept().await.unwrap().await.unwrap();
            let budget = Budget::new(WAITING_BYTES_MAX);
            while let Ok((mut send, mut receive)) = guest.accept_bi().await {
                let Ok((Question::News(known), _claim)) = hear(&mut receive, &budget).await else {
                    continue;
                };
                let (version, ways) = chart.since(known.ways, Time::ZERO);
                let servers = (known.servers == 0).then(Vec::new);
                let known = wire::Known { door: 7, servers: 1, ways: version };
                answer(&mut send, &Answer::News(News { known, servers, ways })).await;
            }
        });
        Remote::new(token).unwrap()
    }

    #[tokio::test]
    async fn what_comes_in_parts_is_asked_for_until_it_is_all_there() {
        let mut chart = Chart::default();
        let round_trip = Some(Duration::from_millis(2));
        let sample = LinkSample { round_trip, ..LinkSample::default() };
        (0..2000).for_each(|to| chart.observe(Time::ZERO, (to, to + 1), sample));
        let remote = door_with(chart);

        remote.cards().await.unwrap();

        assert_eq!(remote.known().roster.known(), wire::Known { door: 7, servers: 1, ways: 4000 });
    }
}
