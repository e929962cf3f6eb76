//! A daemon: opens a door and answers, until it is told to end.

use super::attend::{answer as say_to, attend, heard};
use super::budget::Budget;
use super::chart::Chart;
use super::counted::Counted;
use super::entrance::Entrance;
use super::guest::Guest;
use super::hall::Hall;
use super::owner::dice;
use super::questions::Questions;
use super::token::{DoorError, Key, Token, key_path};
use super::way::Way;
use super::wire::{
    ATTEMPTS, Answer, Known, Listed, News, Peer, Question, Sighting, TextCall, Trouble,
    WAITING_BYTES_MAX,
};
use super::workshop::{Own, Workshop};
use gridspan_rpc::calls::{Catalogue, Offer, RpcError, ServerCard};
use gridspan_topology::Time;
use quinn::{Endpoint, Incoming, RecvStream, SendStream, VarInt};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How long calls may go on when the daemon is told to end.
const GRACE: Duration = Duration::from_secs(10);
/// How long servers need at most to find a door that is back: they notice that it was away, and
/// look for it now and then.
const RETURN: Duration = Duration::from_secs(15);
/// How often it looks whether a server is back.
const GLANCE: Duration = Duration::from_millis(20);

/// What a daemon is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoorOptions {
    /// Where it listens. With port 0 the system chooses one.
    pub listen: SocketAddr,
    /// By which address others reach it, if not by that.
    pub advertise: Option<IpAddr>,
    /// Where it writes its token.
    pub token: PathBuf,
    /// Whether it takes over the certificates and the address of a daemon that had the same token
    /// before, and leaves its own for the next.
    pub is_kept: bool,
}

/// A door that is open.
#[derive(Debug)]
pub(super) struct DoorPlan {
    options: DoorOptions,
    endpoint: Endpoint,
    /// What the certificates of daemons, and of those that join them, name.
    names: [String; 2],
    /// Whether another was at this door before.
    is_back: bool,
}

struct Daemon<C: Catalogue> {
    /// A number that no other door has, nor this one when it is opened again.
    door: u64,
    hall: Mutex<Hall<Way<C>>>,
    /// Questions that are being answered.
    open: Counted,
    /// Of calls that were passed on.
    numbers: AtomicU64,
    entrance: Entrance,
    /// What is known of the ways between servers, and when the door was opened.
    chart: Mutex<Chart>,
    begun: Instant,
    /// Whether another was at this door before, whose servers will find it.
    is_back: bool,
    /// If it executes anything itself.
    workshop: Option<Arc<Workshop<C>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DoorPlan {
    /// Opens the door, and writes its token. Needs a runtime of tokio.
    pub(super) fn open(options: DoorOptions) -> Result<Self, DoorError> {
        let kept = key_path(&options.token);
        let is_there = options.is_kept && options.token.exists();
        let before = if is_there { Key::read(&kept)? } else { None };
        let is_back = before.is_some();
        let (token, key, mut endpoint) = match before {
            Some(key) => {
                let endpoint = Endpoint::server(key.server()?, key.address());
                (None, key, endpoint.map_err(DoorError::Listen)?)
            }
            None => {
                let ip = options.advertise.unwrap_or(options.listen.ip());
                if ip.is_unspecified() {
                    return Err(DoorError::Nowhere(options.listen));
                }
                // The certificates do not name the address, which is known once the socket is
                // there.
                let (token, key) = Token::new(options.listen)?;
                let endpoint = Endpoint::server(key.server()?, options.listen);
                let endpoint = endpoint.map_err(DoorError::Listen)?;
                let address = endpoint.local_addr().map_err(DoorError::Listen)?;
                (Some(token.at((ip, address.port()).into())), key.at(address), endpoint)
            }
        };
        endpoint.set_default_client_config(key.client()?);
        if options.is_kept {
            key.write(&kept)?;
        }
        if let Some(token) = token {
            token.write(&options.token)?;
        }
        Ok(Self { options, endpoint, names: key.names(), is_back })
    }

    /// Where the door is.
    pub(super) fn address(&self) -> Result<SocketAddr, DoorError> {
        self.endpoint.local_addr().map_err(DoorError::Listen)
    }
}

/// Answers at the door until `end` resolves, and then what is being asked. `own` are the servers of
/// this process.
pub(super) async fn daemon<C: Catalogue>(
    plan: DoorPlan,
    own: Option<Own<C>>,
    end: impl Future<Output = ()>,
) -> Result<(), DoorError> {
    let DoorPlan { options, endpoint, names, is_back } = plan;
    let mut hall = Hall::new();
    let workshop = own.as_ref().map(|own| Arc::new(Workshop::new(own, endpoint.clone(), names)));
    if let Some(Own { card, bench, pes }) = own {
        hall.join(card, (pes, None), Way::Here(bench)).map_err(DoorError::Unwelcome)?;
    }
    let daemon = Arc::new(Daemon {
        door: dice()?,
        hall: Mutex::new(hall),
        open: Counted::default(),
        numbers: AtomicU64::new(0),
        entrance: Entrance::default(),
        chart: Mutex::default(),
        begun: Instant::now(),
        is_back,
        workshop,
    });
    let mut end = std::pin::pin!(end);
    loop {
        tokio::select! {
            () = &mut end => break,
            incoming = endpoint.accept() => match incoming {
                Some(incoming) => drop(tokio::spawn(daemon.clone().receive(incoming))),
                None => break,
            },
        }
    }
    endpoint.set_server_config(None);
    daemon.open.over(GRACE).await;
    endpoint.close(VarInt::from_u32(0), b"the daemon has ended");
    endpoint.wait_idle().await;
    if !options.is_kept {
        // Somebody may have removed it.
        let _ = std::fs::remove_file(&options.token);
    }
    Ok(())
}

impl<C: Catalogue> Daemon<C> {
    fn hall(&self) -> MutexGuard<'_, Hall<Way<C>>> {
        lock(&self.hall)
    }

    /// Attends to one connection, to its end.
    async fn receive(self: Arc<Self>, incoming: Incoming) {
        let Some((place, connection)) = self.entrance.admit(incoming).await else { return };
        let place = Arc::new(place);
        let (joined, groups) = (Mutex::default(), Mutex::default());
        let guest = Arc::new(Guest { connection, joined, groups });
        let budget = Budget::new(WAITING_BYTES_MAX);
        let mut questions = Questions::new(&guest.connection);
        while let Ok((send, receive, of_guest)) = questions.next().await {
            let (daemon, guest, budget) = (self.clone(), guest.clone(), budget.clone());
            let (open, in_use) = (self.open.begin(), place.begin());
            tokio::spawn(async move {
                let _open = (open, of_guest);
                daemon.attend((send, receive), &budget, &guest).await;
                in_use.end(guest.is_depended_on());
            });
        }
        let gone = lock(&guest.joined).take();
        gone.into_iter().for_each(|number| self.leave(number));
        self.workshop.iter().for_each(|workshop| workshop.forget(&guest.groups));
    }

    /// Hears a question, and answers it.
    async fn attend(
        self: &Arc<Self>,
        (mut send, mut receive): (SendStream, RecvStream),
        budget: &Budget,
        guest: &Guest,
    ) {
        // What was heard counts until it is answered.
        let Some((question, _claim)) = heard((&mut send, &mut receive), budget).await else {
            return;
        };
        let of_guest = (&guest.connection, &guest.groups);
        let question = attend(question, self.workshop.as_ref(), of_guest, &mut send).await;
        let Some(question) = question else { return };
        let stopped = send.stopped();
        let answer = tokio::select! {
            // Nobody waits for the answer any more.
            _ = stopped => return,
            answer = self.answer(question, guest) => answer,
        };
        say_to(&mut send, &answer).await;
    }

    async fn answer(self: &Arc<Self>, question: Question, guest: &Guest) -> Answer {
        match question {
            Question::List => Answer::Servers(self.list()),
            Question::News(known) => Answer::News(self.news_once_back(known).await),
            Question::Call(call) => Answer::Called(self.call(call).await),
            Question::Join(card, pes) => self.join(card, pes, guest),
            Question::Survey(sightings) => self.survey(&sightings, guest),
            Question::Task(_) => {
                let reason = "a registry executes nothing".to_owned();
                Answer::Done(Err(Trouble::Refused(reason)))
            }
            // Whoever calls goes away instead, and a registry keeps nothing.
            _ => Answer::Noted,
        }
    }

    fn list(&self) -> Vec<Listed> {
        let ways = lock(&self.chart).estimates(self.now());
        let mut links: BTreeMap<u32, Vec<_>> = BTreeMap::new();
        for ((from, to), estimate) in ways {
            links.entry(to).or_default().push((from, estimate));
        }
        let mut listed = self.hall().list();
        for listed in &mut listed {
            listed.links = links.remove(&listed.card.number).unwrap_or_default();
        }
        listed
    }

    /// Whether servers of a daemon that was here before may not have come back yet.
    fn may_come(&self) -> bool {
        self.is_back && self.begun.elapsed() < RETURN
    }

    /// What is new for whoever knows this. Whoever knows nothing waits for servers that may come,
    /// as whoever calls does.
    async fn news_once_back(&self, known: Known) -> News {
        while known == Known::default() && self.may_come() && self.hall().seats().is_empty() {
            tokio::time::sleep(GLANCE).await;
        }
        self.news(known)
    }

    /// What is new for whoever knows this, though not of too many ways at once. It costs what is
    /// told: groups ask before each window.
    fn news(&self, known: Known) -> News {
        // Of another door it is worth nothing.
        let known = if known.door == self.door { known } else { Known::default() };
        let (of_servers, servers) = {
            let hall = self.hall();
            let is_known = known.door == self.door && known.servers == hall.version();
            (hall.version(), (!is_known).then(|| hall.list()))
        };
        let (of_ways, ways) = lock(&self.chart).since(known.ways, self.now());
        let known = Known { door: self.door, servers: of_servers, ways: of_ways };
        News { known, servers, ways }
    }

    /// Notes what a server has seen; what it should measure.
    fn survey(&self, sightings: &[Sighting], guest: &Guest) -> Answer {
        // Locked to the end, and the chart before the hall is read: who leaves is erased from the
        // chart after all others, so nothing is noted here of somebody who was erased already.
        let joined = lock(&guest.joined);
        let Some(own) = *joined else {
            return Answer::Refused("it has not joined".to_owned());
        };
        let mut chart = lock(&self.chart);
        let seats = self.hall().seats();
        let known = sightings.iter().filter(|sighting| seats.contains_key(&sighting.from));
        known.for_each(|seen| chart.observe(self.now(), (seen.from, own), seen.sample));
        let others: Vec<u32> = seats.keys().copied().filter(|&other| other != own).collect();
        let due = chart.due(self.now(), own, &others).into_iter();
        let peer = |(number, wants_rate)| {
            let address = seats.get(&number).copied().flatten();
            Peer { number, address, wants_rate }
        };
        Answer::Peers(due.map(peer).collect())
    }

    /// How long the door is open.
    fn now(&self) -> Time {
        Time::ZERO + self.begun.elapsed()
    }

    /// The hall and the chart are locked one after the other, as a survey locks the chart and then
    /// the hall.
    fn leave(&self, number: u32) {
        self.hall().leave(number);
        lock(&self.chart).leave(number);
    }

    fn join(&self, card: ServerCard, pes: u32, guest: &Guest) -> Answer {
        let mut joined = lock(&guest.joined);
        if joined.is_some() {
            return Answer::Refused("a server has joined here already".to_owned());
        }
        let seat = (pes, Some(guest.connection.remote_address()));
        // The hall is not locked any more after this.
        let seated = self.hall().join(card, seat, Way::There(guest.connection.clone()));
        match seated {
            Ok(number) => {
                *joined = Some(number);
                // Who attends to the connection may have seen its end already, and does not look
                // again.
                if guest.connection.close_reason().is_some() {
                    joined.take().into_iter().for_each(|number| self.leave(number));
                }
                Answer::Joined
            }
            Err(why) => Answer::Refused(why),
        }
    }

    /// Has one server after the other try a call.
    async fn call(self: &Arc<Self>, call: TextCall) -> Result<String, RpcError> {
        let (bytes, call) = (call.arguments.len() as u64, Arc::new(call));
        let (mut tried, mut problem) = (BTreeSet::new(), RpcError::CommunicationFailed);
        for attempt in 0..ATTEMPTS {
            let placed = self.place(&call.function, bytes, &tried).await;
            let (offer, way) = match placed {
                Ok(Some(placed)) => placed,
                Ok(None) => break,
                Err(error) if attempt == 0 => return Err(error),
                Err(_) => break,
            };
            tried.insert(offer.number);
            match self.attempt(offer, way, call.clone()).await {
                Err(RpcError::SessionFailed { reason }) => {
                    return Err(RpcError::SessionFailed { reason });
                }
                Err(error) => problem = error,
                results => return results,
            }
        }
        Err(problem)
    }

    /// Finds a server for a call. Where a daemon was before, its servers come back one by one: then
    /// none may be there yet.
    async fn place(
        &self,
        function: &str,
        bytes: u64,
        tried: &BTreeSet<u32>,
    ) -> Result<Option<(Offer, Way<C>)>, RpcError> {
        loop {
            let placed = self.hall().place(function, bytes, tried);
            if placed.is_ok() || !self.may_come() || !tried.is_empty() {
                return placed;
            }
            tokio::time::sleep(GLANCE).await;
        }
    }

    /// Sends a call to a server. It counts as the server's load until that has answered, though in
    /// time or not. If nobody waits for it any more, or too long, it is taken back.
    async fn attempt(
        self: &Arc<Self>,
        offer: Offer,
        way: Way<C>,
        call: Arc<TextCall>,
    ) -> Result<String, RpcError> {
        let (daemon, timeout, begun) = (self.clone(), call.timeout, Instant::now());
        // Dropped when this ends.
        let (_wanted, unwanted) = oneshot::channel::<()>();
        // Locked while the hall is. Empty once the server has answered.
        let late = Arc::new(Mutex::new(Some(offer)));
        let of_task = late.clone();
        let going = tokio::spawn(async move {
            let number = daemon.numbers.fetch_add(1, Ordering::SeqCst);
            let outcome = way.call(&call, number, async { drop(unwanted.await) }).await;
            let mut hall = daemon.hall();
            if outcome.is_ok() {
                let (bytes, took_s) = (call.arguments.len() as u64, begun.elapsed().as_secs_f64());
                hall.observe(&call.function, offer.number, bytes, took_s);
            }
            let ended = lock(&of_task).take();
            ended.into_iter().for_each(|offer| hall.ended(offer));
            outcome
        });
        match tokio::time::timeout(timeout, going).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(RpcError::CommunicationFailed),
            Err(_) => {
                let mut hall = self.hall();
                let mut late = lock(&late);
                *late = late.take().map(|offer| hall.late(offer));
                Err(RpcError::CommunicationFailed)
            }
        }
    }
}

#[cfg(test)]
mod tests;
