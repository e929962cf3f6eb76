//! Executes tasks of groups for clients outside of a job, and keeps their results.
//!
//! The client of a group connects to each of its servers. An order states where the arguments of a
//! task are: at the client, or on another server, from which this one fetches them while it
//! computes other tasks. The task then computes, and this server keeps the results, in memory and
//! beyond that on disk. Other servers and the client fetch them from here until the client frees
//! them. When the client's connection ends, this server drops all data of the client's groups.

mod peers;
#[cfg(test)]
mod tests;

use self::peers::Peers;
use crate::lock::lock;
use crate::server::executor::Executor;
use crate::server::groups::Groups;
use crate::server::object_cache::{ObjectCache, Place};
use crate::wire::budget::Claim;
use crate::wire::messages::{Fetched, Input, Order, Response, Source, TaskError, Times, Work};
use crate::wire::transfer::{BYTES_MAX, FetchError, Flow, fetch, give_segments};
use gridspan_rpc::calls::{Catalogue, RpcError, ServerCard};
use gridspan_rpc::group::{Encoded, Room};
use quinn::{Connection, Endpoint, SendStream};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// Number of freed ranges that are processed before the cache is unlocked for others: a message may
/// name millions.
const RANGES_AT_ONCE: usize = 1024;

/// Largest number of arguments of one task that are fetched at once. Each fetch takes about a
/// kilobyte, and fewer fetches fill a link.
const FETCHES_AT_ONCE: usize = 64;

/// Largest number of connections that a fetch tries, one after the other.
const CONNECTIONS_PER_FETCH: u32 = 2;

/// The servers of one process.
pub(crate) struct LocalServers<C: Catalogue> {
    /// Common description of the servers.
    pub(crate) card: ServerCard,
    pub(crate) executor: Arc<Executor<C>>,
    /// Number of servers, each with one PE.
    pub(crate) pes: u32,
    /// Room for the data of groups that the servers keep.
    pub(crate) room: Room,
}

/// Executes tasks in one process. If both the groups of a connection and the cache are locked, the
/// groups are locked first.
pub(crate) struct TaskServer<C: Catalogue> {
    executor: Arc<Executor<C>>,
    objects: Mutex<ObjectCache>,
    peers: Peers,
    /// Flows of data from other servers, since they were last taken.
    flows: Mutex<BTreeMap<SocketAddr, Flow>>,
}

impl<C: Catalogue> TaskServer<C> {
    /// Creates the task server of these servers, which reaches others through an endpoint.
    pub(crate) fn new(own: &LocalServers<C>, endpoint: Endpoint, names: [String; 2]) -> Self {
        let objects = Mutex::new(ObjectCache::new(own.room.clone()));
        let executor = own.executor.clone();
        Self { executor, objects, peers: Peers::new(endpoint, names), flows: Mutex::default() }
    }

    /// Calls `act` with the kept data, to which it adds at most `more` bytes. If that may wait for
    /// the disk, the other work of this thread continues on another thread.
    fn with_objects<R>(&self, more: u64, act: impl FnOnce(&mut ObjectCache) -> R) -> R {
        if let Ok(mut objects) = self.objects.try_lock()
            && !objects.may_use_disk(more)
        {
            return act(&mut objects);
        }
        tokio::task::block_in_place(|| act(&mut lock(&self.objects)))
    }

    /// Starts a group of a connection, unless it has started before. Returns the reason for a
    /// refusal.
    fn begin(&self, group: u64, groups: &Mutex<Groups>) -> Result<(), String> {
        // Locked for both steps: an end in between would leave a group in the cache for ever.
        let mut groups = lock(groups);
        groups.begin(group)?;
        self.with_objects(0, |objects| objects.begin(group));
        Ok(())
    }

    /// Ends the groups of a connection that has ended.
    pub(crate) fn forget(&self, groups: &Mutex<Groups>) {
        let mut groups = lock(groups);
        let all = groups.take().into_iter();
        all.for_each(|group| self.with_objects(0, |objects| objects.end(group)));
    }

    /// Ends a group of a connection.
    pub(crate) fn end(&self, group: u64, groups: &Mutex<Groups>) {
        let mut groups = lock(groups);
        if groups.end(group) {
            self.with_objects(0, |objects| objects.end(group));
        }
    }

    /// Frees data of a group, given as ranges, as in [`ObjectCache::free`].
    pub(crate) fn free(&self, group: u64, data: &[(u32, u32)], groups: &Mutex<Groups>) {
        for data in data.chunks(RANGES_AT_ONCE) {
            let groups = lock(groups);
            if groups.has(group) {
                self.with_objects(0, |objects| objects.free(group, data));
            }
        }
    }

    /// Sends data that is kept here.
    pub(crate) async fn give(&self, group: u64, data: u32, to: &mut SendStream) {
        let segment = |index| self.with_objects(0, |objects| objects.segment(group, data, index));
        // The requester may be gone.
        let _ = give_segments(segment, to).await;
    }

    /// Executes a task for the client at the other end of a connection. Dropping the future gives
    /// the task up. `begun` is notified when the task starts to compute.
    pub(crate) async fn task(
        self: &Arc<Self>,
        order: Order,
        connection: &Connection,
        groups: &Mutex<Groups>,
        begun: oneshot::Sender<()>,
    ) -> Response {
        if let Err(reason) = self.begin(order.group, groups) {
            return Response::Done(Err(TaskError::Refused(reason)));
        }
        if connection.close_reason().is_some() {
            self.forget(groups);
        }
        // A separate task, because a PE continues to execute when the client no longer waits.
        let (_wanted, unwanted) = oneshot::channel::<()>();
        let (task_server, connection) = (self.clone(), connection.clone());
        let executed = tokio::spawn(async move {
            let unwanted = async {
                tokio::select! {
                    _ = unwanted => {}
                    _ = connection.closed() => {}
                }
            };
            task_server.execute(order, &connection, unwanted, begun).await
        });
        let outcome = executed.await;
        Response::Done(outcome.unwrap_or_else(|error| Err(TaskError::Refused(error.to_string()))))
    }

    async fn execute(
        self: &Arc<Self>,
        order: Order,
        connection: &Connection,
        unwanted: impl Future<Output = ()>,
        begun: oneshot::Sender<()>,
    ) -> Result<Times, TaskError> {
        let mut unwanted = std::pin::pin!(unwanted);
        let begin = Instant::now();
        let seconds = || begin.elapsed().as_secs_f64();
        let fetched = tokio::select! {
            fetched = self.fetch_all(&order, connection, begin) => fetched?,
            () = &mut unwanted => return Err(TaskError::Refused("the call was given up".to_owned())),
        };
        let place = Executor::<C>::place_of_task(order.place);
        // The function has not run, so it has not failed.
        let refused = |error: RpcError| TaskError::Refused(error.to_string());
        let pass = self.executor.enter(place, &mut unwanted).await.map_err(refused)?;
        let start_s = seconds();
        let made = self.compute(&order, unwanted, begun).await?;
        drop(pass);
        let end_s = seconds();
        let sizes = made.iter().map(|(_, made, _)| made.bytes()).collect();
        for (&data, (place, made, claim)) in order.outputs.iter().zip(made) {
            let (more, value) = (made.bytes(), made.encoded());
            self.with_objects(more, |objects| objects.keep(order.group, data, value));
            // The data may have been made before.
            let _ = place.set(claim);
        }
        Ok(Times { start_s, end_s, fetched, sizes })
    }

    /// Computes a task, once its arguments are here and it has a permit. Returns its results, in
    /// order, with their places.
    async fn compute(
        &self,
        order: &Order,
        unwanted: impl Future<Output = ()>,
        begun: oneshot::Sender<()>,
    ) -> Result<Vec<(Place, Made, Claim)>, TaskError> {
        match &order.work {
            Work::Emulated { work_s, bytes } => {
                // Room is claimed before memory is allocated, because the sizes come from a client.
                let places = self.places(order, bytes)?;
                if bytes.iter().any(|&bytes| bytes > BYTES_MAX) {
                    return Err(refused("a result would have more than 8 GiB"));
                }
                // The receiver may be gone.
                let _ = begun.send(());
                self.executor.emulate(*work_s, unwanted).await.map_err(task_error)?;
                let made = places.into_iter().zip(bytes);
                let made = made.map(|((place, claim), &bytes)| (place, Made::Zeros(bytes), claim));
                Ok(made.collect())
            }
            Work::Function(name, signature) => {
                // The arguments are copied only now, so that waiting tasks hold no copies. The
                // cache is not locked meanwhile.
                let arguments = self.arguments(order)?;
                let _ = begun.send(());
                let count = order.outputs.len() as u32;
                let (client, function) = (order.traceparent, (&name[..], signature));
                let made =
                    self.executor.execute(client, function, arguments, count, unwanted).await;
                let made = made.map_err(task_error)?.into_iter();
                let made = made.map(Encoded::result).collect::<Vec<_>>();
                let sizes = made.iter().map(Encoded::bytes).collect::<Vec<_>>();
                let places = self.places(order, &sizes)?.into_iter().zip(made);
                let made = places.map(|((place, claim), value)| (place, Made::Value(value), claim));
                Ok(made.collect())
            }
        }
    }

    /// Fetches the arguments that are not here, and returns those that were fetched.
    async fn fetch_all(
        self: &Arc<Self>,
        order: &Order,
        connection: &Connection,
        begin: Instant,
    ) -> Result<Vec<Fetched>, TaskError> {
        let seconds = |at: Instant| at.duration_since(begin).as_secs_f64();
        let (mut fetching, mut left) = (JoinSet::new(), order.inputs.iter());
        let (mut fetched, mut missing, mut unreached) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            for input in left.by_ref().take(FETCHES_AT_ONCE - fetching.len()) {
                let (task_server, connection, group) =
                    (self.clone(), connection.clone(), order.group);
                let input = input.clone();
                fetching.spawn(async move {
                    let start = Instant::now();
                    let fetched = task_server.fetch(group, &input, &connection).await;
                    (input.data, fetched, start, Instant::now())
                });
            }
            let Some(Ok((data, outcome, start, end))) = fetching.join_next().await else { break };
            match outcome {
                Ok(true) => {
                    let (start_s, end_s) = (seconds(start), seconds(end));
                    fetched.push(Fetched { data, start_s, end_s });
                }
                Ok(false) => {}
                Err(TaskError::Missing(_)) => missing.push(data),
                Err(TaskError::Unreached { .. }) => unreached.push(data),
                Err(task_error) => return Err(task_error),
            }
        }
        match (unreached.is_empty(), missing.is_empty()) {
            (true, true) => Ok(fetched),
            (true, false) => Err(TaskError::Missing(missing)),
            (false, _) => Err(TaskError::Unreached { unreached, missing }),
        }
    }

    /// Returns the arguments of a task, concatenated.
    fn arguments(&self, order: &Order) -> Result<Vec<u8>, TaskError> {
        let mut arguments = Vec::new();
        for input in &order.inputs {
            let value = self.with_objects(0, |objects| objects.get(order.group, input.data));
            let value = value.ok_or_else(|| TaskError::Missing(vec![input.data]))?;
            let segments = value.into_segments();
            segments.for_each(|segment| arguments.extend_from_slice(segment.as_ref()));
        }
        Ok(arguments)
    }

    /// Returns the places for results of these sizes, and room for them: for all or for none.
    fn places(&self, order: &Order, sizes: &[u64]) -> Result<Vec<(Place, Claim)>, TaskError> {
        if sizes.len() != order.outputs.len() {
            let (sizes, results) = (sizes.len(), order.outputs.len());
            return Err(refused(&format!(
                "{sizes} sizes were given for {results} results; give one for each"
            )));
        }
        self.with_objects(0, |objects| {
            let claims = sizes.iter().map(|&bytes| objects.room(bytes).ok_or_else(no_room));
            let claims = claims.collect::<Result<Vec<_>, _>>()?;
            let places = order.outputs.iter().zip(claims).map(|(&data, claim)| {
                let place = objects.place(order.group, data).ok_or_else(group_ended)?;
                Ok((place, claim))
            });
            places.collect()
        })
    }

    /// Ensures that an input is here. Returns whether it was fetched.
    async fn fetch(
        &self,
        group: u64,
        input: &Input,
        client: &Connection,
    ) -> Result<bool, TaskError> {
        let place = self.with_objects(0, |objects| {
            let is_here = objects.has(group, input.data);
            (!is_here).then(|| objects.place(group, input.data).ok_or_else(group_ended))
        });
        let Some(place) = place.transpose()? else { return Ok(false) };
        let mut is_brought = false;
        let bring = async || {
            // Room is claimed only here, because a task that waits for the same data needs none.
            let claim = self.with_objects(0, |objects| objects.room(input.bytes));
            let claim = claim.ok_or_else(no_room)?;
            let bytes = match input.from {
                Source::Client => {
                    let fetched = fetch(client, group, input.data, input.bytes).await;
                    fetched.map_err(|_| TaskError::Missing(vec![input.data]))?.0
                }
                Source::Server { address, is_registry } => {
                    self.fetch_from((address, is_registry), group, input).await?
                }
            };
            is_brought = true;
            let (more, value) = (bytes.len() as u64, Encoded::cut(&bytes));
            self.with_objects(more, |objects| objects.keep(group, input.data, value));
            Ok(claim)
        };
        if let Err(error) = place.get_or_try_init(bring).await {
            drop(place);
            self.with_objects(0, |objects| objects.abandon(group, input.data));
            return Err(error);
        }
        // Data for which several tasks wait is fetched once, and counts once.
        Ok(is_brought)
    }

    /// Fetches an input from another server, over a new connection if the existing one breaks.
    async fn fetch_from(
        &self,
        (address, is_registry): (SocketAddr, bool),
        group: u64,
        input: &Input,
    ) -> Result<Vec<u8>, TaskError> {
        let data = vec![input.data];
        for _ in 0..CONNECTIONS_PER_FETCH {
            let Some(from) = self.peers.to(address, is_registry).await else { break };
            match fetch(&from, group, input.data, input.bytes).await {
                Ok((bytes, flow)) => {
                    self.flowed(address, flow);
                    return Ok(bytes);
                }
                Err(FetchError::Missing) => return Err(TaskError::Missing(data)),
                Err(FetchError::Broken) if from.close_reason().is_none() => {
                    let reason = format!("the server at {address} sends nothing now");
                    return Err(refused(&reason));
                }
                Err(FetchError::Broken) => {}
            }
        }
        Err(TaskError::Unreached { unreached: data, missing: Vec::new() })
    }

    /// Records a flow, unless the known flow from this server has at least as many bytes, and is at
    /// least as fast.
    fn flowed(&self, from: SocketAddr, flow: Flow) {
        let mut flows = lock(&self.flows);
        let rate = |flow: &Flow| flow.bytes as f64 / flow.took.as_secs_f64().max(1e-9);
        match flows.get(&from) {
            Some(known) if known.bytes >= flow.bytes && rate(known) >= rate(&flow) => {}
            _ => drop(flows.insert(from, flow)),
        }
    }

    /// Returns the flows of data from other servers since the last call.
    pub(crate) fn take_flows(&self) -> BTreeMap<SocketAddr, Flow> {
        std::mem::take(&mut *lock(&self.flows))
    }

    /// Returns the connection to another server, if there is one.
    pub(crate) fn known(&self, address: SocketAddr) -> Option<Connection> {
        self.peers.known(address)
    }

    /// Opens a new connection to another server.
    pub(crate) async fn connect(
        &self,
        address: SocketAddr,
        is_registry: bool,
    ) -> Option<Connection> {
        self.peers.connect(address, is_registry).await
    }
}

/// A result of a task, before it is kept.
enum Made {
    Value(Encoded),
    /// The result of emulated computing: this number of zero bytes.
    Zeros(u64),
}

impl Made {
    fn bytes(&self) -> u64 {
        match self {
            Self::Value(value) => value.bytes(),
            Self::Zeros(bytes) => *bytes,
        }
    }

    /// Returns the result as it is kept. Zeros are allocated only here, so that the caller can
    /// allocate one result at a time: all results of a task may not fit into memory together.
    fn encoded(self) -> Encoded {
        match self {
            Self::Value(value) => value,
            Self::Zeros(bytes) => Encoded::cut(&vec![0; bytes as usize]),
        }
    }
}

fn refused(reason: &str) -> TaskError {
    TaskError::Refused(reason.to_owned())
}

fn group_ended() -> TaskError {
    refused("its group has ended")
}

fn no_room() -> TaskError {
    refused("the server has no room for more data of groups; use more servers")
}

/// Converts an error of the servers to one of a task.
fn task_error(error: RpcError) -> TaskError {
    match error {
        RpcError::SessionFailed { reason } => TaskError::Failed(reason),
        error => TaskError::Refused(error.to_string()),
    }
}
