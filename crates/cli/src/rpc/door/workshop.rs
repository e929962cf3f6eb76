//! Tasks of groups that somebody outside executes on several servers at once.
//!
//! Whoever begins a group connects to each of its servers. An order says where the arguments of a task are: with whoever
//! gave the order, or on another server, from which this one fetches them, while it computes for other tasks. The task then
//! computes for as long as it is said to, and its results are as large as they are said to be: they are kept here until
//! another server or the client asks for them. When the connection of who began the group ends, all of it is forgotten.

use super::budget::Claim;
use super::gate::Gate;
use super::shelf::{Place, Shelf};
use super::wire::{Answer, Fetched, Input, Order, Question, Source, Times, Trouble, say, take};
use bytes::Bytes;
use gridspan_rpc::calls::{Catalogue, GridRpc, RpcError, ServerCard};
use quinn::{Connection, Endpoint, SendStream};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::task::JoinSet;

/// So much data of groups is kept.
const SHELF_BYTES_MAX: usize = 8 << 30;
/// The function of the catalogue that takes as many seconds as it is told.
const EMULATION: &str = "sleep";
/// The first byte of an answer to whoever asks for data.
const HERE: u8 = 1;
const NOT_HERE: u8 = 0;

/// The servers of one process.
pub(super) struct Own<C: Catalogue> {
    /// What they say of themselves together.
    pub(super) card: ServerCard,
    pub(super) rpc: Arc<GridRpc<C>>,
    /// How many there are, and how fast each is.
    pub(super) pes: u32,
    pub(super) speed: f64,
}

/// The groups that one connection has begun.
pub(super) type Groups = Mutex<BTreeSet<u64>>;

/// So many groups of one connection go on at the same time.
const GROUPS_MAX: usize = 1000;

/// What executes tasks in one process.
pub(super) struct Workshop<C: Catalogue> {
    rpc: Arc<GridRpc<C>>,
    /// How fast each PE is.
    speed: f64,
    gate: Gate,
    shelf: Mutex<Shelf>,
    endpoint: Endpoint,
    /// What the certificates of daemons, and of those that joined them, name.
    names: [String; 2],
    peers: Mutex<BTreeMap<SocketAddr, Connection>>,
}

impl<C: Catalogue> Workshop<C> {
    /// On servers of this process, reaching others by an endpoint.
    pub(super) fn new(own: &Own<C>, endpoint: Endpoint, names: [String; 2]) -> Self {
        let (gate, shelf) = (Gate::new(own.pes), Mutex::new(Shelf::new(SHELF_BYTES_MAX)));
        let (rpc, speed) = (own.rpc.clone(), own.speed);
        Self { rpc, speed, gate, shelf, endpoint, names, peers: Mutex::default() }
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection of who began these groups has ended.
    pub(super) fn forget(&self, groups: &Groups) {
        let groups = std::mem::take(&mut *groups.lock().unwrap_or_else(PoisonError::into_inner));
        groups.into_iter().for_each(|group| self.shelf().end(group));
    }

    /// Gives data that is here.
    pub(super) async fn give(&self, group: u64, data: u32, to: &mut SendStream) {
        let bytes = self.shelf().get(group, data);
        // Who asked may be gone.
        let _ = give(bytes, to).await;
    }

    /// Executes a task of whoever is at the other end of a connection.
    pub(super) async fn task(
        self: &Arc<Self>,
        order: Order,
        connection: &Connection,
        groups: &Groups,
    ) -> Answer {
        let group = order.group;
        {
            let mut groups = groups.lock().unwrap_or_else(PoisonError::into_inner);
            if groups.len() >= GROUPS_MAX && !groups.contains(&group) {
                let reason = format!("{GROUPS_MAX} groups go on already");
                return Answer::Done(Err(Trouble::Failed(reason)));
            }
            groups.insert(group);
        }
        self.shelf().begin(group);
        if connection.close_reason().is_some() {
            self.forget(groups);
        }
        Answer::Done(self.execute(order, connection).await)
    }

    async fn execute(
        self: &Arc<Self>,
        order: Order,
        connection: &Connection,
    ) -> Result<Times, Trouble> {
        let begin = Instant::now();
        let seconds = |at: Instant| at.duration_since(begin).as_secs_f64();
        let mut fetching = JoinSet::new();
        for input in order.inputs {
            let (workshop, connection) = (self.clone(), connection.clone());
            fetching.spawn(async move {
                let start = Instant::now();
                let fetched = workshop.fetch(order.group, &input, &connection).await;
                (input.data, fetched, start, Instant::now())
            });
        }
        let (mut fetched, mut missing) = (Vec::new(), Vec::new());
        while let Some(Ok((data, outcome, start, end))) = fetching.join_next().await {
            match outcome {
                Ok(true) => {
                    let (start_s, end_s) = (seconds(start), seconds(end));
                    fetched.push(Fetched { data, start_s, end_s });
                }
                Ok(false) => {}
                Err(Trouble::Missing(_)) => missing.push(data),
                Err(failed) => return Err(failed),
            }
        }
        if !missing.is_empty() {
            return Err(Trouble::Missing(missing));
        }
        let _pass = self.gate.enter(order.place).await;
        let start_s = seconds(Instant::now());
        self.compute(order.work_s / self.speed, connection).await?;
        let end_s = seconds(Instant::now());
        for (data, bytes) in order.outputs {
            let (place, claim) = self.place(order.group, data, bytes)?;
            // It may have been made before.
            let _ = place.set((Bytes::from(vec![0; bytes as usize]), claim));
        }
        Ok(Times { start_s, end_s, fetched })
    }

    fn place(&self, group: u64, data: u32, bytes: u64) -> Result<(Place, Claim), Trouble> {
        let failed = |reason: &str| Trouble::Failed(reason.to_owned());
        let mut shelf = self.shelf();
        let place = shelf.place(group, data).ok_or_else(|| failed("its group has ended"))?;
        let claim = shelf.room(bytes).ok_or_else(|| {
            failed("the server has no room for more data of groups; take more servers")
        })?;
        Ok((place, claim))
    }

    /// Has an input here; whether it had to come from elsewhere.
    async fn fetch(&self, group: u64, input: &Input, client: &Connection) -> Result<bool, Trouble> {
        if self.shelf().get(group, input.data).is_some() {
            return Ok(false);
        }
        let (place, claim) = self.place(group, input.data, input.bytes)?;
        let missing = || Trouble::Missing(vec![input.data]);
        let bring = async || {
            let from = match input.from {
                Source::Client => client.clone(),
                Source::Server { address, is_door } => {
                    self.peer(address, is_door).await.ok_or_else(missing)?
                }
            };
            let bytes = fetch(&from, group, input.data, input.bytes).await;
            bytes.map(|bytes| (bytes, claim)).ok_or_else(missing)
        };
        place.get_or_try_init(bring).await.map(|_| true)
    }

    /// A connection to another server.
    async fn peer(&self, address: SocketAddr, is_door: bool) -> Option<Connection> {
        let peers = || self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let known = peers().get(&address).filter(|peer| peer.close_reason().is_none()).cloned();
        if known.is_some() {
            return known;
        }
        let name = &self.names[usize::from(!is_door)];
        let connection = self.endpoint.connect(address, name).ok()?.await.ok()?;
        peers().insert(address, connection.clone());
        Some(connection)
    }

    async fn compute(&self, seconds: f64, connection: &Connection) -> Result<(), Trouble> {
        let given_up = async { drop(connection.closed().await) };
        let called = self.rpc.call_text_until(EMULATION, &seconds.to_string(), given_up).await;
        let failed = |error: RpcError| Trouble::Failed(error.to_string());
        called.map(drop).map_err(failed)
    }
}

/// Gives data, or says that it is not here.
pub(super) async fn give(
    bytes: Option<Bytes>,
    to: &mut SendStream,
) -> Result<(), quinn::WriteError> {
    match bytes {
        None => to.write_all(&[NOT_HERE]).await?,
        Some(bytes) => {
            to.write_all(&[HERE]).await?;
            to.write_chunk(bytes).await?;
        }
    }
    // The stream is not closed yet.
    let _ = to.finish();
    Ok(())
}

/// Data of a group from the other end of a connection, as large as it must be.
pub(super) async fn fetch(from: &Connection, group: u64, data: u32, bytes: u64) -> Option<Bytes> {
    let (mut send, mut receive) = from.open_bi().await.ok()?;
    say(&mut send, &Question::Give { group, data }).await.ok()?;
    let mut is_here = [NOT_HERE];
    receive.read_exact(&mut is_here).await.ok()?;
    if is_here != [HERE] {
        return None;
    }
    take(&mut receive, bytes).await
}
