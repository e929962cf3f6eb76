//! A server that joins the registry of a daemon, and joins again when the registry is back.

use crate::client::by_name::Client;
use crate::lock::lock;
use crate::server::admission::{Admission, Place};
use crate::server::executor::Executor;
use crate::server::groups::Groups;
use crate::server::handler::{attend, heard, respond};
use crate::server::in_flight::InFlight;
use crate::server::link_probes::probe_links;
use crate::server::task_server::{LocalServers, TaskServer};
use crate::wire::budget::Budget;
use crate::wire::messages::{Request, Response, TextCall, WAITING_BYTES_MAX, request_response};
use crate::wire::requests::Requests;
use crate::wire::token::{RemoteError, Token};
use gridspan_rpc::calls::{Catalogue, RpcError, ServerCard};
use quinn::{Connection, Endpoint, VarInt};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;

/// First pause before the server looks for the registry again; each further pause is twice as long.
const PAUSE: Duration = Duration::from_millis(200);
/// Longest pause before the server looks for the registry again.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Time that calls have to end when the server is stopped.
const GRACE: Duration = Duration::from_secs(10);
/// Time that the registry has to accept the server.
const PATIENCE: Duration = Duration::from_secs(20);

/// Serves for a registry until `end` resolves, and executes tasks of groups for all clients with
/// the token. Calls `on_ready` each time the server has joined. Fails if the server cannot join the
/// first time.
pub(crate) async fn join<C: Catalogue>(
    token: Token,
    own: LocalServers<C>,
    end: impl Future<Output = ()>,
    mut on_ready: impl FnMut(),
) -> Result<(), RemoteError> {
    let (server, names) = (token.server()?, token.names());
    let client = Client::new(token)?;
    client.endpoint().set_server_config(Some(server));
    let open = InFlight::default();
    let task_server = Arc::new(TaskServer::new(&own, client.endpoint().clone(), names));
    tokio::spawn(receive(client.endpoint().clone(), task_server.clone(), open.clone()));
    let address = client.address();
    let LocalServers { card, executor, pes, .. } = own;
    let mut end = std::pin::pin!(end);
    let mut connection = tokio::select! {
        () = &mut end => return Ok(()),
        entered = enter(&client, &card, pes) => Some(entered?),
    };
    let mut pause = PAUSE;
    let joined = loop {
        let Some(joined) = connection.take() else {
            let enter_again = async {
                tokio::time::sleep(pause).await;
                enter(&client, &card, pes).await.ok()
            };
            tokio::select! {
                () = &mut end => break None,
                entered = enter_again => connection = entered,
            }
            pause = (pause * 2).min(PAUSE_MAX);
            continue;
        };
        on_ready();
        pause = PAUSE;
        let is_over = tokio::select! {
            () = &mut end => true,
            () = serve(&joined, &executor, &open) => false,
            () = probe_links(&joined, &task_server, address) => false,
        };
        if is_over {
            break Some(joined);
        }
    };
    // Tasks of groups continue without a registry.
    open.over(GRACE).await;
    if let Some(joined) = joined {
        joined.close(VarInt::from_u32(0), b"the server has left");
    }
    client.leave().await;
    Ok(())
}

async fn enter(client: &Client, card: &ServerCard, pes: u32) -> Result<Connection, RemoteError> {
    let entering = async {
        let connection = client.connect().await?;
        let response = request_response(&connection, &Request::Join(card.clone(), pes)).await?;
        Ok((connection, response))
    };
    let (connection, response) = client.within(PATIENCE, entering).await?;
    match response {
        Response::Joined => Ok(connection),
        Response::Refused(why) => Err(RemoteError::Unwelcome(why)),
        _ => Err(RemoteError::Malformed("it should accept or refuse the server".to_owned())),
    }
}

/// Admits clients with the token, for tasks of groups.
async fn receive<C: Catalogue>(
    endpoint: Endpoint,
    task_server: Arc<TaskServer<C>>,
    open: InFlight,
) {
    let admission = Admission::default();
    while let Some(incoming) = endpoint.accept().await {
        let (admission, task_server, open) = (admission.clone(), task_server.clone(), open.clone());
        tokio::spawn(async move {
            let Some((place, connection)) = admission.admit(incoming).await else { return };
            work(&connection, &Arc::new(place), &task_server, &open).await;
        });
    }
}

/// Executes tasks for one connection, until it ends.
async fn work<C: Catalogue>(
    connection: &Connection,
    place: &Arc<Place>,
    task_server: &Arc<TaskServer<C>>,
    open: &InFlight,
) {
    let (groups, budget) =
        (Arc::new(Mutex::new(Groups::default())), Budget::new(WAITING_BYTES_MAX));
    let mut requests = Requests::new(connection);
    while let Ok((mut send, mut receive, of_caller)) = requests.next().await {
        let (task_server, groups) = (task_server.clone(), groups.clone());
        let (connection, budget, open) = (connection.clone(), budget.clone(), open.begin());
        let in_use = place.begin();
        tokio::spawn(async move {
            let _open = (open, of_caller);
            if let Some((request, _claim)) = heard((&mut send, &mut receive), &budget).await {
                let of_caller = (&connection, &*groups);
                // Other requests are for registries.
                attend(request, Some(&task_server), of_caller, &mut send).await;
            }
            in_use.end(!lock(&groups).is_empty());
        });
    }
    task_server.forget(&groups);
}

/// Largest number of remembered calls that were cancelled before they arrived.
const EARLY_MAX: usize = 1000;

/// The calls in execution, by number. Dropping a call's sender cancels it.
#[derive(Debug, Default)]
struct Calls {
    wanted: BTreeMap<u64, oneshot::Sender<()>>,
    /// Calls that were cancelled before they arrived, because streams overtake each other.
    early: BTreeSet<u64>,
}

impl Calls {
    /// Registers a call. Returns a receiver that resolves when the call is cancelled, which may
    /// have happened already.
    fn begin(&mut self, number: u64) -> oneshot::Receiver<()> {
        let (wanted, unwanted) = oneshot::channel();
        if !self.early.remove(&number) {
            self.wanted.insert(number, wanted);
        }
        unwanted
    }

    fn cancel(&mut self, number: u64) {
        if self.wanted.remove(&number).is_none() {
            self.early.insert(number);
            if self.early.len() > EARLY_MAX {
                self.early.pop_first();
            }
        }
    }
}

/// Executes incoming calls until the connection ends. Calls that have not ended then are cancelled.
async fn serve<C: Catalogue>(
    connection: &Connection,
    executor: &Arc<Executor<C>>,
    open: &InFlight,
) {
    let calls = Arc::new(Mutex::new(Calls::default()));
    let budget = Budget::new(WAITING_BYTES_MAX);
    let mut requests = Requests::new(connection);
    while let Ok((mut send, mut receive, of_registry)) = requests.next().await {
        let (executor, calls, budget) = (executor.clone(), calls.clone(), budget.clone());
        let open = open.begin();
        tokio::spawn(async move {
            let _open = (open, of_registry);
            if let Some((request, _claim)) = heard((&mut send, &mut receive), &budget).await {
                respond(&mut send, &response(request, &executor, &calls).await).await;
            }
        });
    }
    lock(&calls).wanted.clear();
}

async fn response<C: Catalogue>(
    request: Request,
    executor: &Executor<C>,
    calls: &Mutex<Calls>,
) -> Response {
    match request {
        Request::Call(TextCall { number, function, arguments, traceparent, .. }) => {
            let unwanted = lock(calls).begin(number);
            let unwanted = async { drop(unwanted.await) };
            let called = (&function[..], &arguments[..]);
            let outcome = executor.call(traceparent, called, unwanted).await;
            lock(calls).wanted.remove(&number);
            Response::Called(outcome)
        }
        Request::Cancel(number) => {
            lock(calls).cancel(number);
            Response::Noted
        }
        _ => {
            let reason = "a server takes calls only".to_owned();
            Response::Called(Err(RpcError::RpcRefused { reason }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::task_client::order;
    use crate::server::daemon::{DaemonOptions, OpenedDaemon, daemon};
    use crate::server::process::{Role, ServeOptions, serve as serve_process};
    use crate::wire::messages::{Order, Work};
    use gridspan_rpc::calls::Functions;
    use gridspan_rpc::group::Room;
    use std::sync::mpsc;
    use std::thread;

    struct Nothing;

    impl Catalogue for Nothing {
        fn functions() -> Functions {
            Functions::new()
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_server_that_is_stopped_without_its_registry_answers_its_orders() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("grid.token");
        let options =
            DaemonOptions { listen: None, advertise: None, token: path.clone(), is_kept: false };
        let opened = OpenedDaemon::open(options).unwrap();
        let token = Token::read(&path).unwrap();
        let (end_of_registry, over) = oneshot::channel::<()>();
        let registry = daemon::<Nothing>(opened, None, async { drop(over.await) });
        let registry = tokio::spawn(registry);
        let (name, role) = ("one".to_owned(), Role::Member(token.clone()));
        let options = ServeOptions { name, pes: 1, speed: 1.0, room: Room::default(), role };
        let (end_of_server, ended) = oneshot::channel();
        let (ready, joined) = mpsc::channel();
        let on_ready = move |address| ready.send(address).unwrap();
        let server = thread::spawn(|| serve_process::<Nothing>(options, ended, on_ready));
        tokio::task::block_in_place(|| joined.recv_timeout(PATIENCE).unwrap());
        let client = Client::new(token).unwrap();
        let listed = client.list().await.unwrap();
        let connection = client.connect_to(listed[0].address).await.unwrap();
        let work = Work::Emulated { work_s: 3.0, bytes: vec![8] };
        let (inputs, outputs) = (vec![], vec![0]);
        let task = Order { group: 1, place: 0, work, inputs, outputs, traceparent: None };
        let (tell, begun) = oneshot::channel::<()>();
        let executed = tokio::spawn(async move { order(&connection, task, || drop(tell)).await });
        // The sender is dropped when the task begins.
        drop(begun.await);

        drop(end_of_registry);
        registry.await.unwrap().unwrap();
        // This gives the server time to notice the end of the registry.
        tokio::time::sleep(Duration::from_millis(500)).await;
        drop(end_of_server);

        let executed = executed.await.unwrap();
        assert!(matches!(&executed, Ok(Ok(times)) if times.sizes == [8]), "{executed:?}");
        tokio::task::block_in_place(|| server.join().unwrap().unwrap());
    }
}
