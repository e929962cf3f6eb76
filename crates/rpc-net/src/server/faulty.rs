//! Tests of groups on servers that imitate faults.

use crate::client::by_name::Client;
use crate::client::groups::Remote;
use crate::server::daemon::{DaemonOptions, OpenedDaemon, daemon};
use crate::server::groups::Groups;
use crate::server::handler::{attend, respond};
use crate::wire::messages::{
    Request, Response, TaskError, Times, WAITING_BYTES_MAX, Work, read_message, request_response,
};
use crate::wire::token::{RemoteError, Token};
use gridspan_rpc::calls::{Catalogue, Config, Function, Functions, RpcError, ServerCard};
use gridspan_rpc::group::ServerPool;
use gridspan_workflow::heuristics::HeftC;
use quinn::Connection;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Longest time that a test waits.
const LIMIT: Duration = Duration::from_secs(60);
/// Less than the time after which a client gives up connecting to a server.
const CONNECTING: Duration = Duration::from_secs(8);
const PLAYED: Function<(u64,), (u64,)> = Function::new("played", |(value,), _| Ok((value,)));
const OTHER: Function<(u64,), (u64,)> = Function::new("other", |(value,), _| Ok((value,)));

struct Nothing;

impl Catalogue for Nothing {
    fn functions() -> Functions {
        Functions::new()
    }
}

/// Returns the answer to an order, given the order's number among those at all servers, and its
/// function; `None` if the stream ends without an answer.
type Behaviour = Arc<dyn Fn(u32, &str) -> Option<Response> + Send + Sync>;

/// A request that a server has received, with the server's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Heard {
    Order(&'static str),
    End(&'static str),
}

/// State that all servers of a test share.
#[derive(Clone)]
struct FaultyServer {
    behaviour: Behaviour,
    orders: Arc<AtomicU32>,
    heard: mpsc::UnboundedSender<Heard>,
}

fn done(sizes: Vec<u64>) -> Option<Response> {
    Some(Response::Done(Ok(Times { start_s: 0.0, end_s: 0.0, fetched: Vec::new(), sizes })))
}

fn task_error(task_error: TaskError) -> Option<Response> {
    Some(Response::Done(Err(task_error)))
}

/// Returns the answer of a real server that has not read the order.
fn too_much() -> Option<Response> {
    let reason = RemoteError::TooMuch.to_string();
    Some(Response::Called(Err(RpcError::RpcRefused { reason })))
}

fn card(name: &str) -> ServerCard {
    ServerCard::new(name, Functions::new().with(&PLAYED).with(&OTHER).signatures())
}

/// Joins a registry, and answers according to the behaviour of `server`.
async fn join(token: Token, name: &'static str, server: FaultyServer) {
    let config = token.server().unwrap();
    let client = Client::new(token).unwrap();
    client.endpoint().set_server_config(Some(config));
    let registry = client.connect().await.unwrap();
    assert!(matches!(
        request_response(&registry, &Request::Join(card(name), 1)).await,
        Ok(Response::Joined)
    ));
    tokio::spawn(async move {
        while let Some(incoming) = client.endpoint().accept().await {
            tokio::spawn(listen(incoming.await.unwrap(), name, server.clone()));
        }
        drop(registry);
    });
}

async fn listen(connection: Connection, name: &'static str, server: FaultyServer) {
    let groups = Mutex::new(Groups::default());
    let budget = crate::wire::budget::Budget::new(WAITING_BYTES_MAX);
    while let Ok((mut send, mut receive)) = connection.accept_bi().await {
        let Ok((request, _claim)) = read_message(&mut receive, &budget).await else { continue };
        let other = attend::<Nothing>(request, None, (&connection, &groups), &mut send).await;
        // The test may have ended.
        let _ = match &other {
            Some(Request::Task(_)) => server.heard.send(Heard::Order(name)),
            Some(Request::End(_)) => server.heard.send(Heard::End(name)),
            _ => Ok(()),
        };
        match other {
            Some(Request::Task(order)) => {
                let number = server.orders.fetch_add(1, Ordering::SeqCst);
                let Work::Function(function, _) = &order.work else { panic!("{order:?}") };
                match (server.behaviour)(number, function) {
                    Some(said) => respond(&mut send, &said).await,
                    None => drop(send),
                }
            }
            Some(_) => respond(&mut send, &Response::Noted).await,
            None => {}
        }
    }
}

/// Starts servers with this behaviour. Returns a client of them, and the requests that they
/// receive.
async fn grid(
    names: &[&'static str],
    behaviour: impl Fn(u32) -> Option<Response> + Send + Sync + 'static,
) -> (Remote, mpsc::UnboundedReceiver<Heard>) {
    let (remote, _token, heard) = grid_of(names, move |number, _: &str| behaviour(number)).await;
    (remote, heard)
}

/// Starts servers as `grid` does, and also returns the registry's token.
async fn grid_of(
    names: &[&'static str],
    behaviour: impl Fn(u32, &str) -> Option<Response> + Send + Sync + 'static,
) -> (Remote, Token, mpsc::UnboundedReceiver<Heard>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("grid.token");
    let listen = Some("127.0.0.1:0".parse().unwrap());
    let options = DaemonOptions { listen, advertise: None, token: path.clone(), is_kept: false };
    let plan = OpenedDaemon::open(options).unwrap();
    tokio::spawn(daemon::<Nothing>(plan, None, std::future::pending()));
    let (heard, requests) = mpsc::unbounded_channel();
    let server = FaultyServer { behaviour: Arc::new(behaviour), orders: Arc::default(), heard };
    for name in names {
        join(Token::read(&path).unwrap(), name, server.clone()).await;
    }
    let token = Token::read(&path).unwrap();
    (Remote::new(token.clone()).unwrap(), token, requests)
}

/// Makes two servers with this behaviour execute a task. Returns its outcome, and the requests that
/// they received until each server with an order had received the end of the group.
async fn perform(
    behaviour: impl Fn(u32) -> Option<Response> + Send + Sync + 'static,
) -> (Result<(), RpcError>, BTreeSet<Heard>) {
    let (remote, mut requests) = grid(&["one", "other"], behaviour).await;
    let heuristic = HeftC::default();
    let mapped = remote.map(&heuristic, async |group| {
        let (_result,) = group.call(&PLAYED, (group.value(&7)?,));
        group.run().await
    });
    let ended = tokio::time::timeout(LIMIT, mapped).await.unwrap();
    let mut all = BTreeSet::new();
    let is_open = |all: &BTreeSet<Heard>| {
        let lacks = |name| all.contains(&Heard::Order(name)) && !all.contains(&Heard::End(name));
        all.is_empty() || lacks("one") || lacks("other")
    };
    while is_open(&all) {
        let next = tokio::time::timeout(LIMIT, requests.recv()).await;
        all.insert(next.expect("a server with an order should receive the end").unwrap());
    }
    (ended, all)
}

const BOTH: [Heard; 4] =
    [Heard::Order("one"), Heard::Order("other"), Heard::End("one"), Heard::End("other")];

#[tokio::test]
async fn servers_with_orders_receive_the_end_of_a_group_after_a_refusal() {
    let (ended, heard) = perform(|number| match number {
        0 => task_error(TaskError::Refused("not today".to_owned())),
        _ => done(vec![8]),
    })
    .await;

    assert_eq!((ended, heard), (Ok(()), BTreeSet::from(BOTH)));
}

#[tokio::test]
async fn servers_with_orders_receive_the_end_of_a_group_after_a_failure() {
    let (ended, heard) = perform(|number| match number {
        0 => task_error(TaskError::Refused("not today".to_owned())),
        _ => task_error(TaskError::Failed("never".to_owned())),
    })
    .await;

    let Err(RpcError::SessionFailed { reason }) = ended else { panic!("{ended:?}") };
    assert!(reason.contains("never"), "{reason}");
    assert_eq!(heard, BTreeSet::from(BOTH));
}

#[tokio::test]
async fn a_task_with_an_implausible_report_is_executed_by_another_server() {
    for sizes in [vec![], vec![8, 8], vec![u64::MAX]] {
        let lie = sizes.clone();
        let (ended, heard) = perform(move |number| match number {
            0 => done(lie.clone()),
            _ => done(vec![8]),
        })
        .await;

        assert_eq!((ended, heard), (Ok(()), BTreeSet::from(BOTH)), "{sizes:?}");
    }
}

/// Makes one server with this behaviour execute a task.
async fn perform_alone(
    behaviour: impl Fn(u32) -> Option<Response> + Send + Sync + 'static,
) -> Result<(), RpcError> {
    let (remote, _hear) = grid(&["one"], behaviour).await;
    let heuristic = HeftC::default();
    let mapped = remote.map(&heuristic, async |group| {
        let (_result,) = group.call(&PLAYED, (group.value(&7)?,));
        group.run().await
    });
    tokio::time::timeout(LIMIT, mapped).await.unwrap()
}

#[tokio::test]
async fn a_server_that_does_not_read_or_answer_an_order_is_not_lost() {
    for said in [too_much, || None, || Some(Response::Noted)] {
        let ended = perform_alone(move |number| match number {
            0 => said(),
            _ => done(vec![8]),
        });
        assert_eq!(ended.await, Ok(()), "there is no other");
    }
}

#[tokio::test]
async fn a_call_whose_order_no_server_reads_is_refused() {
    let ended = perform_alone(|_| too_much()).await;

    let Err(RpcError::RpcRefused { reason }) = ended else { panic!("{ended:?}") };
    assert!(reason.contains("`played`") && reason.contains("ask again later"), "{reason}");
}

#[tokio::test]
async fn a_call_refused_by_all_servers_fails_with_its_dependents_only() {
    let names = ["one", "other", "third"];
    let others = Arc::new(AtomicU32::new(0));
    let counted = others.clone();
    let (remote, _token, _hear) = grid_of(&names, move |_, function| match function {
        "played" => task_error(TaskError::Refused("not today".to_owned())),
        _ => {
            counted.fetch_add(1, Ordering::SeqCst);
            done(vec![8])
        }
    })
    .await;
    let heuristic = HeftC::default();
    let mapped = remote.map(&heuristic, async |group| {
        let (refused,) = group.call(&PLAYED, (group.value(&7)?,));
        let (after,) = group.call(&OTHER, (&refused,));
        let (beside,) = group.call(&OTHER, (group.value(&7)?,));
        let (next,) = group.call(&OTHER, (&beside,));
        let errors = [group.get(&refused).await, group.get(&after).await];
        let made = others.load(Ordering::SeqCst);
        // In a separate window, together with a call that cannot be executed.
        let (never,) = group.call(&OTHER, (&after,));
        let (_last,) = group.call(&OTHER, (&next,));
        let never = group.get(&never).await;
        Ok((errors, never, [made, others.load(Ordering::SeqCst)]))
    });

    let (errors, never, made) = tokio::time::timeout(LIMIT, mapped).await.unwrap().unwrap();

    for error in errors.into_iter().chain([never]) {
        let Err(RpcError::RpcRefused { reason }) = error else { panic!("{error:?}") };
        assert!(reason.contains("`played`") && reason.contains("not today"), "{reason}");
        assert!(names.iter().all(|name| reason.contains(&format!("`{name}`"))), "{reason}");
    }
    assert_eq!(made, [2, 3], "calls that do not depend on it");
}

#[tokio::test]
async fn a_server_with_an_invalid_answer_does_not_get_a_single_call_again() {
    for said in [too_much, || None, || Some(Response::Noted), || done(Vec::new())] {
        let (remote, mut requests) = grid(&["one"], move |_| said()).await;
        let rpc = remote.rpc(&Config::default().with_attempts(1)).unwrap();
        let called = async {
            let handle = rpc.handle_on(&PLAYED, "one").await.unwrap();
            rpc.call(&handle, &(7,)).await
        };

        let called = tokio::time::timeout(LIMIT, called).await.unwrap();

        assert!(matches!(called, Err(RpcError::RpcRefused { .. })), "{called:?}");
        let mut heard = Vec::new();
        while heard.last() != Some(&Heard::End("one")) {
            let next = tokio::time::timeout(LIMIT, requests.recv()).await.unwrap();
            heard.push(next.unwrap());
        }
        assert_eq!(heard, [Heard::Order("one"), Heard::End("one")]);
    }
}

#[tokio::test]
async fn a_task_that_never_gets_its_argument_fails_with_this_reason() {
    let ended = perform_alone(|_| task_error(TaskError::Missing(vec![0]))).await;

    let reason = format!("{:?}", ended.unwrap_err());
    assert!(reason.contains("the client"), "{reason}");
}

#[tokio::test]
async fn clones_that_connect_at_the_same_time_reach_each_server_once() {
    let (remote, _hear) = grid(&["one", "other"], |_| done(vec![8])).await;
    let clone = remote.clone();

    let both = async { tokio::join!(remote.cards(), clone.cards()) };
    let (one, other) = tokio::time::timeout(LIMIT, both).await.unwrap();

    let names = |cards: Result<Vec<ServerCard>, RpcError>| {
        cards.unwrap().into_iter().map(|card| card.name).collect::<Vec<_>>()
    };
    assert_eq!((names(one), names(other)), (names_of_both(), names_of_both()));
}

#[tokio::test]
async fn a_server_that_connects_slowly_delays_no_other() {
    let (remote, token, _hear) = grid_of(&["one"], |_, _| done(vec![8])).await;
    let begin = Instant::now();
    // This server has joined, and neither accepts nor refuses connections.
    let silent = Client::new(token).unwrap();
    let registry = silent.connect().await.unwrap();
    assert!(matches!(
        request_response(&registry, &Request::Join(card("silent"), 1)).await,
        Ok(Response::Joined)
    ));
    let mut rounds = 0;
    // The first answers may come before the client has learned of this server.
    while rounds < 2 && begin.elapsed() < CONNECTING {
        let cards = tokio::time::timeout(LIMIT, remote.cards()).await.unwrap().unwrap();
        assert_eq!(cards.into_iter().map(|card| card.name).collect::<Vec<_>>(), ["one"]);
        rounds += u32::from(remote.is_reaching_any());
    }
    assert!(rounds > 0, "the other is still being reached");
    let heuristic = HeftC::default();
    let mapped = remote.map(&heuristic, async |group| {
        let (_result,) = group.call(&PLAYED, (group.value(&7)?,));
        group.run().await
    });
    assert_eq!(tokio::time::timeout(LIMIT, mapped).await.unwrap(), Ok(()));
}

fn names_of_both() -> Vec<String> {
    ["one", "other"].map(str::to_owned).into()
}
