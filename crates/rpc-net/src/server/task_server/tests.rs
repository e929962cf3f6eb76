//! Tests of a daemon that receives orders from a client.

use super::*;
use crate::server::daemon::DaemonOptions;
use crate::server::process::{Role, ServeOptions, serve};
use crate::wire::messages::{BEGUN, Request, request_response, write_message};
use crate::wire::token::Token;
use crate::wire::transfer::give;
use gridspan_rpc::calls::{Function, Functions};
use quinn::RecvStream;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Longest time that a test waits for anything.
const LIMIT: Duration = Duration::from_secs(60);
/// Room of the daemon for data, in bytes.
const ROOM_BYTES: u64 = 1 << 20;
const PAIR: Function<(u8, u8), (u8, u8)> =
    Function::new("pair", |(one, other), _| Ok((one + 1, other + 1)));

struct Pairs;

impl Catalogue for Pairs {
    fn functions() -> Functions {
        Functions::new().with_parts(&PAIR)
    }
}

/// Runs a client that is connected to a daemon with one PE and little room.
fn with_daemon(client: impl AsyncFnOnce(Connection)) {
    with_daemon_of(Room::default().with_memory_bytes(ROOM_BYTES).with_disk_bytes(0), client);
}

/// Runs a client that is connected to a daemon with one PE and this room.
fn with_daemon_of(room: Room, client: impl AsyncFnOnce(Connection)) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("grid.token");
    let listen = Some(([127, 0, 0, 1], 0).into());
    let role = DaemonOptions { listen, advertise: None, token: path.clone(), is_kept: false };
    let (name, role) = ("one".to_owned(), Role::Daemon(role));
    let options = ServeOptions { name, pes: 1, speed: 1.0, room, role };
    let ((end, ended), (ready, open)) = (oneshot::channel(), mpsc::channel());
    let on_ready = move |at| ready.send(at).unwrap();
    let daemon = thread::spawn(|| serve::<Pairs>(options, ended, on_ready));
    let address = open.recv_timeout(LIMIT).unwrap();
    let token = Token::read(&path).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let endpoint = caller(&token);
        let connection = endpoint.connect(address, &token.names()[0]).unwrap().await.unwrap();
        tokio::time::timeout(LIMIT, client(connection)).await.unwrap();
        endpoint.close(0u32.into(), b"");
        endpoint.wait_idle().await;
    });
    drop((runtime, end));
    daemon.join().unwrap().unwrap();
}

fn caller(token: &Token) -> Endpoint {
    let mut endpoint = Endpoint::client(([127, 0, 0, 1], 0).into()).unwrap();
    endpoint.set_default_client_config(token.client().unwrap());
    endpoint
}

/// Returns the order of a task with inputs at the client, given by number and size.
fn order(work: Work, inputs: &[(u32, u64)], outputs: &[u32]) -> Order {
    let of_client = |&(data, bytes)| Input { data, bytes, from: Source::Client };
    let inputs = inputs.iter().map(of_client).collect();
    let outputs = outputs.to_vec();
    Order { group: 7, place: 0, work, inputs, outputs, traceparent: None }
}

fn emulated(bytes: &[u64]) -> Work {
    Work::Emulated { work_s: 0.0, bytes: bytes.to_vec() }
}

/// Sends a request. Returns the stream of its answer.
async fn send(connection: &Connection, request: &Request) -> RecvStream {
    let (mut to, receive) = connection.open_bi().await.unwrap();
    write_message(&mut to, request).await.unwrap();
    receive
}

/// Returns the outcome of a task from the answer to its order.
async fn outcome(mut response: RecvStream) -> Result<Times, TaskError> {
    let text = response.read_to_end(1 << 20).await.unwrap();
    let text = text.strip_prefix(&[BEGUN]).unwrap_or(&text);
    let Ok(Response::Done(outcome)) = serde_json::from_slice(text) else {
        panic!("the answer should be the outcome of the task")
    };
    outcome
}

async fn execute(connection: &Connection, order: Order) -> Result<Times, TaskError> {
    outcome(send(connection, &Request::Task(order)).await).await
}

fn is_refused_for(outcome: Result<Times, TaskError>, reason: &str) -> bool {
    matches!(outcome, Err(TaskError::Refused(said)) if said.contains(reason))
}

#[test]
fn results_without_room_are_refused_and_take_no_room() {
    with_daemon(async |connection| {
        let (half, all) = (ROOM_BYTES / 2, 1_000_000_000_000);
        for bytes in [[16, all], [u64::MAX, 16], [half + 1, half + 1]] {
            let executed = execute(&connection, order(emulated(&bytes), &[], &[0, 1])).await;
            assert!(is_refused_for(executed, "no room"));
        }

        let executed = execute(&connection, order(emulated(&[16, 8]), &[], &[0, 1])).await;

        assert_eq!(executed.unwrap().sizes, [16, 8]);
        let executed = execute(&connection, order(emulated(&[16]), &[], &[2, 3])).await;
        assert!(is_refused_for(executed, "1 sizes were given for 2 results"));
    });
}

#[test]
fn a_result_that_no_client_could_fetch_is_refused_before_it_takes_memory() {
    with_daemon_of(Room::default().with_disk_bytes(4 * BYTES_MAX), async |connection| {
        let executed =
            execute(&connection, order(emulated(&[16, BYTES_MAX + 1]), &[], &[0, 1])).await;

        assert!(is_refused_for(executed, "more than 8 GiB"));
    });
}

#[test]
fn tasks_that_wait_for_the_same_data_need_room_for_it_once() {
    with_daemon(async |connection| {
        // There is no room for twice as much.
        let inputs = [(0, ROOM_BYTES - 100)];
        let task = |output| Request::Task(order(emulated(&[1]), &inputs, &[output]));
        let [one, other] = [send(&connection, &task(1)).await, send(&connection, &task(2)).await];

        // The client answers both requests, one after the other, that it has no such data.
        for _ in 0..2 {
            let (mut send, _question) = connection.accept_bi().await.unwrap();
            // This gives the other order time to arrive.
            assert!(matches!(
                request_response(&connection, &Request::Echo).await,
                Ok(Response::Noted)
            ));
            give(None, &mut send).await.unwrap();
        }

        assert_eq!(outcome(one).await, Err(TaskError::Missing(vec![0])));
        assert_eq!(outcome(other).await, Err(TaskError::Missing(vec![0])));
    });
}

#[test]
fn data_for_which_two_tasks_wait_is_fetched_and_counted_once() {
    with_daemon(async |connection| {
        let task = |output| Request::Task(order(emulated(&[1]), &[(0, 4)], &[output]));
        let [one, other] = [send(&connection, &task(1)).await, send(&connection, &task(2)).await];
        let (mut send, _question) = connection.accept_bi().await.unwrap();
        // This gives the other order time to arrive.
        assert!(matches!(request_response(&connection, &Request::Echo).await, Ok(Response::Noted)));
        give(Some(vec![vec![0; 4].into()]), &mut send).await.unwrap();

        let fetched = [outcome(one).await, outcome(other).await].map(|how| how.unwrap().fetched);

        assert_eq!(fetched.map(|of_task| of_task.len()).iter().sum::<usize>(), 1);
    });
}

/// A registration may be older than the server's current program.
#[test]
fn a_function_with_another_signature_is_not_executed() {
    with_daemon(async |connection| {
        let called = Function::<(u8, i8), (u8, u8)>::new("pair", |_, _| Err("not here".into()));
        let call = order(Work::Function("pair".to_owned(), called.signature()), &[], &[8, 9]);

        let outcome = execute(&connection, call).await;

        let Err(TaskError::Failed(reason)) = outcome else { panic!("{outcome:?}") };
        for part in ["`pair`", "/pe1`", "(u8; 2) -> (u8; 2)", "(u8, i8) -> (u8; 2)"] {
            assert!(reason.contains(part), "{part}: {reason}");
        }
    });
}

#[test]
fn arguments_are_in_order_and_an_ended_group_does_not_start_again() {
    with_daemon(async |connection| {
        let pair = || Work::Function("pair".to_owned(), PAIR.signature());
        let call = || order(pair(), &[(5, 1), (3, 1)], &[8, 9]);
        let response = send(&connection, &Request::Task(call())).await;
        for _ in 0..2 {
            let (mut send, mut request) = connection.accept_bi().await.unwrap();
            let asked = request.read_to_end(1 << 10).await.unwrap();
            let Ok(Request::Give { group: 7, data }) = serde_json::from_slice(&asked) else {
                panic!("it asks for data")
            };
            // A byte is encoded as itself.
            give(Some(vec![vec![data as u8 * 10].into()]), &mut send).await.unwrap();
        }

        assert_eq!(outcome(response).await.unwrap().sizes, [1, 1]);
        for (data, value) in [(8, 51), (9, 31)] {
            let made = super::fetch(&connection, 7, data, 1).await.map(|(bytes, _)| bytes);
            assert_eq!(made, Ok(vec![value]));
        }
        let mut freed = vec![(9, 1); 3 * RANGES_AT_ONCE];
        freed.push((9, 10));
        request_response(&connection, &Request::Free { group: 7, data: freed }).await.unwrap();
        assert!(super::fetch(&connection, 7, 9, 1).await.is_err());
        assert!(super::fetch(&connection, 7, 8, 1).await.is_ok());
        request_response(&connection, &Request::End(7)).await.unwrap();
        assert!(super::fetch(&connection, 7, 8, 1).await.is_err());
        assert!(is_refused_for(execute(&connection, call()).await, "its group has ended"));
    });
}

/// Accepts connections, and keeps them.
async fn accept(endpoint: Endpoint) {
    let mut come = Vec::new();
    while let Some(incoming) = endpoint.accept().await {
        come.extend(incoming.await);
    }
}

#[tokio::test]
async fn concurrent_users_share_a_connection_to_a_server_until_it_ends() {
    let (token, key) = Token::new(([127, 0, 0, 1], 0).into()).unwrap();
    let server = Endpoint::server(key.server().unwrap(), key.address()).unwrap();
    let address = server.local_addr().unwrap();
    tokio::spawn(accept(server));
    let peers = Arc::new(Peers::new(caller(&token), token.names()));
    let all = || async {
        let mut asking = JoinSet::new();
        for _ in 0..20 {
            let peers = peers.clone();
            asking.spawn(async move { peers.to(address, true).await.unwrap().stable_id() });
        }
        let mut ids = asking.join_all().await;
        ids.dedup();
        ids
    };
    assert!(peers.known(address).is_none());

    let before = all().await;

    assert_eq!(before.len(), 1);
    let known = peers.known(address).unwrap();
    assert_eq!(known.stable_id(), before[0]);
    known.close(0u32.into(), b"");
    assert!(peers.known(address).is_none());
    let after = all().await;
    assert!(after.len() == 1 && after != before);
}

#[tokio::test]
async fn a_server_that_refuses_connections_fails_for_all_users_and_is_forgotten() {
    let [(token, _), (_, key)] = [0, 1].map(|_| Token::new(([127, 0, 0, 1], 0).into()).unwrap());
    let server = Endpoint::server(key.server().unwrap(), key.address()).unwrap();
    let address = server.local_addr().unwrap();
    tokio::spawn(accept(server));
    let peers = Peers::new(caller(&token), token.names());

    let (one, other) = tokio::join!(peers.to(address, true), peers.to(address, true));

    assert!(one.is_none() && other.is_none());
    // The next attempt to reach another server removes the failed connection.
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
    assert!(peers.to(nowhere, true).await.is_none());
    assert!(peers.known(address).is_none() && !peers.has_line(address));
}
