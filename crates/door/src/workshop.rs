//! Tasks of groups that somebody outside executes on several servers at once.
//!
//! Whoever begins a group connects to each of its servers. An order says where the arguments of a task are: with whoever
//! gave the order, or on another server, from which this one fetches them, while it computes for other tasks. The task then
//! computes, and its results are kept here until another server or the client asks for them. When the connection of who
//! began the group ends, all of it is forgotten.

use super::bench::Bench;
use super::groups::Groups;
use super::shelf::{Place, Shelf};
use super::stuff::{Flow, fetch, give};
use super::wire::{Answer, Fetched, Input, Order, Source, Times, Trouble, Work};
use bytes::Bytes;
use gridspan_rpc::calls::{Catalogue, RpcError, ServerCard};
use gridspan_runtime::Numbers;
use quinn::{Connection, Endpoint, SendStream};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// So much data of groups is kept.
const SHELF_BYTES_MAX: usize = 8 << 30;

/// The servers of one process.
pub(super) struct Own<C: Catalogue> {
    /// What they say of themselves together.
    pub(super) card: ServerCard,
    pub(super) bench: Arc<Bench<C>>,
    /// How many there are.
    pub(super) pes: u32,
}

/// What executes tasks in one process.
pub(super) struct Workshop<C: Catalogue> {
    bench: Arc<Bench<C>>,
    shelf: Mutex<Shelf>,
    endpoint: Endpoint,
    /// What the certificates of daemons, and of those that joined them, name.
    names: [String; 2],
    peers: Mutex<BTreeMap<SocketAddr, Connection>>,
    /// How fast data came from others, since somebody last asked.
    flows: Mutex<BTreeMap<SocketAddr, Flow>>,
}

/// Bytes of a result that others share.
struct Shared(Numbers<u8>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<C: Catalogue> Workshop<C> {
    /// On servers of this process, reaching others by an endpoint.
    pub(super) fn new(own: &Own<C>, endpoint: Endpoint, names: [String; 2]) -> Self {
        let (bench, shelf) = (own.bench.clone(), Mutex::new(Shelf::new(SHELF_BYTES_MAX)));
        let (peers, flows) = (Mutex::default(), Mutex::default());
        Self { bench, shelf, endpoint, names, peers, flows }
    }

    /// The connection of who began these groups has ended.
    pub(super) fn forget(&self, groups: &Mutex<Groups>) {
        let groups = lock(groups).take();
        groups.into_iter().for_each(|group| lock(&self.shelf).end(group));
    }

    /// A group of a connection has ended.
    pub(super) fn end(&self, group: u64, groups: &Mutex<Groups>) {
        if lock(groups).end(group) {
            lock(&self.shelf).end(group);
        }
    }

    /// Nobody needs this data of a group any more.
    pub(super) fn free(&self, group: u64, data: &[(u32, u32)], groups: &Mutex<Groups>) {
        if lock(groups).has(group) {
            lock(&self.shelf).free(group, data);
        }
    }

    /// Gives data that is here.
    pub(super) async fn give(&self, group: u64, data: u32, to: &mut SendStream) {
        let bytes = lock(&self.shelf).get(group, data);
        // Who asked may be gone.
        let _ = give(bytes.map(|bytes| vec![bytes]), to).await;
    }

    /// Executes a task of whoever is at the other end of a connection, as long as this is awaited. `begun` hears of it when it
    /// begins to compute.
    pub(super) async fn task(
        self: &Arc<Self>,
        order: Order,
        connection: &Connection,
        groups: &Mutex<Groups>,
        begun: oneshot::Sender<()>,
    ) -> Answer {
        let group = order.group;
        if let Err(reason) = lock(groups).begin(group) {
            return Answer::Done(Err(Trouble::Refused(reason)));
        }
        lock(&self.shelf).begin(group);
        if connection.close_reason().is_some() {
            self.forget(groups);
        }
        // A PE that is at it has not ended when nobody waits for it any more.
        let (_wanted, unwanted) = oneshot::channel::<()>();
        let (workshop, connection) = (self.clone(), connection.clone());
        let executed = tokio::spawn(async move {
            let unwanted = async {
                tokio::select! {
                    _ = unwanted => {}
                    _ = connection.closed() => {}
                }
            };
            workshop.execute(order, &connection, unwanted, begun).await
        });
        let outcome = executed.await;
        Answer::Done(outcome.unwrap_or_else(|error| Err(Trouble::Refused(error.to_string()))))
    }

    async fn execute(
        self: &Arc<Self>,
        order: Order,
        connection: &Connection,
        unwanted: impl Future<Output = ()>,
        begun: oneshot::Sender<()>,
    ) -> Result<Times, Trouble> {
        let mut unwanted = std::pin::pin!(unwanted);
        let begin = Instant::now();
        let seconds = || begin.elapsed().as_secs_f64();
        let fetched = tokio::select! {
            fetched = self.fetch_all(&order, connection, begin) => fetched?,
            () = &mut unwanted => return Err(Trouble::Refused("it was given up".to_owned())),
        };
        let arguments = self.arguments(&order)?;
        let place = Bench::<C>::place_of_task(order.place);
        let pass = self.bench.enter(place, &mut unwanted).await.map_err(trouble)?;
        let start_s = seconds();
        // He may not want to know.
        let _ = begun.send(());
        let results = match order.work {
            Work::Emulated { work_s, bytes } => {
                self.bench.emulate(work_s, unwanted).await.map_err(trouble)?;
                // In memory while they are kept, as real ones are.
                bytes.iter().map(|&bytes| Bytes::from(vec![0; bytes as usize])).collect()
            }
            Work::Function(name) => {
                let count = order.outputs.len() as u32;
                let made = self.bench.execute(&name, arguments, count, unwanted).await;
                let made = made.map_err(trouble)?.into_iter();
                made.map(|part| Bytes::from_owner(Shared(part))).collect::<Vec<_>>()
            }
        };
        drop(pass);
        let end_s = seconds();
        let sizes = results.iter().map(|bytes| bytes.len() as u64).collect();
        for (data, bytes) in order.outputs.into_iter().zip(results) {
            let (place, claim) = self.place(order.group, data, bytes.len() as u64)?;
            // It may have been made before.
            let _ = place.set((bytes, claim));
        }
        Ok(Times { start_s, end_s, fetched, sizes })
    }

    /// Has all arguments here; those that came from elsewhere.
    async fn fetch_all(
        self: &Arc<Self>,
        order: &Order,
        connection: &Connection,
        begin: Instant,
    ) -> Result<Vec<Fetched>, Trouble> {
        let seconds = |at: Instant| at.duration_since(begin).as_secs_f64();
        let mut fetching = JoinSet::new();
        for input in order.inputs.clone() {
            let (workshop, connection, group) = (self.clone(), connection.clone(), order.group);
            fetching.spawn(async move {
                let start = Instant::now();
                let fetched = workshop.fetch(group, &input, &connection).await;
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
                Err(trouble) => return Err(trouble),
            }
        }
        match missing.is_empty() {
            true => Ok(fetched),
            false => Err(Trouble::Missing(missing)),
        }
    }

    /// The arguments of a function, one after the other.
    fn arguments(&self, order: &Order) -> Result<Vec<u8>, Trouble> {
        if let Work::Emulated { .. } = order.work {
            return Ok(Vec::new());
        }
        let shelf = lock(&self.shelf);
        let mut all = Vec::new();
        for input in &order.inputs {
            let missing = || Trouble::Missing(vec![input.data]);
            all.extend_from_slice(&shelf.get(order.group, input.data).ok_or_else(missing)?);
        }
        Ok(all)
    }

    fn place(
        &self,
        group: u64,
        data: u32,
        bytes: u64,
    ) -> Result<(Place, super::budget::Claim), Trouble> {
        let refused = |reason: &str| Trouble::Refused(reason.to_owned());
        let mut shelf = lock(&self.shelf);
        let place = shelf.place(group, data).ok_or_else(|| refused("its group has ended"))?;
        let claim = shelf.room(bytes).ok_or_else(|| {
            refused("the server has no room for more data of groups; take more servers")
        })?;
        Ok((place, claim))
    }

    /// Has an input here; whether it had to come from elsewhere.
    async fn fetch(&self, group: u64, input: &Input, client: &Connection) -> Result<bool, Trouble> {
        if lock(&self.shelf).get(group, input.data).is_some() {
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
            let fetched = fetch(&from, group, input.data, input.bytes).await;
            let (bytes, flow) = fetched.ok_or_else(missing)?;
            if let Source::Server { address, .. } = input.from {
                self.flowed(address, flow);
            }
            Ok((bytes.into(), claim))
        };
        place.get_or_try_init(bring).await.map(|_| true)
    }

    /// Of several flows the fastest says most of a link.
    fn flowed(&self, from: SocketAddr, flow: Flow) {
        let mut flows = lock(&self.flows);
        let rate = |flow: &Flow| flow.bytes as f64 / flow.took.as_secs_f64().max(1e-9);
        match flows.get(&from) {
            Some(known) if known.bytes >= flow.bytes && rate(known) >= rate(&flow) => {}
            _ => drop(flows.insert(from, flow)),
        }
    }

    /// How fast data came from others since this was asked last.
    pub(super) fn take_flows(&self) -> BTreeMap<SocketAddr, Flow> {
        std::mem::take(&mut *lock(&self.flows))
    }

    /// A connection to another server, kept for what else comes from there.
    async fn peer(&self, address: SocketAddr, is_door: bool) -> Option<Connection> {
        if let Some(known) = self.known(address) {
            return Some(known);
        }
        let connection = self.connect(address, is_door).await?;
        lock(&self.peers).insert(address, connection.clone());
        Some(connection)
    }

    /// The connection to another server, if there is one.
    pub(super) fn known(&self, address: SocketAddr) -> Option<Connection> {
        let known = lock(&self.peers).get(&address).cloned();
        known.filter(|peer| peer.close_reason().is_none())
    }

    /// A new connection to another server.
    pub(super) async fn connect(&self, address: SocketAddr, is_door: bool) -> Option<Connection> {
        let name = &self.names[usize::from(!is_door)];
        self.endpoint.connect(address, name).ok()?.await.ok()
    }
}

/// What an error of the servers means for a task.
fn trouble(error: RpcError) -> Trouble {
    match error {
        RpcError::SessionFailed { reason } => Trouble::Failed(reason),
        error => Trouble::Refused(error.to_string()),
    }
}
