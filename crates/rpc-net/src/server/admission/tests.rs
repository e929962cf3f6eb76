//! Tests with strangers that start handshakes and do not finish them, and with token holders that
//! keep idle connections.

use super::*;
use crate::wire::token::Token;
use crate::{Client, DaemonOptions, Role, ServeOptions, serve};
use bytes::BytesMut;
use gridspan_rpc::calls::{Catalogue, Function, Functions};
use gridspan_rpc::group::Room;
use quinn::{ClientConfig, Endpoint};
use quinn_proto::{DatagramEvent, EndpointConfig};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(60);
/// Time that a stranger waits for an answer.
const ANSWER: Duration = Duration::from_millis(500);
const DOUBLE: Function<(u64,), (u64,)> = Function::new("double", |(one,), _| Ok((2 * one,)));

struct Doubles;

impl Catalogue for Doubles {
    fn functions() -> Functions {
        Functions::new().with(&DOUBLE)
    }
}

/// Starts a handshake, proves the address if requested, and sends nothing more.
fn begin_handshake(config: &ClientConfig, to: SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(ANSWER)).unwrap();
    let mut endpoint =
        quinn_proto::Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None);
    let begun = endpoint.connect(Instant::now(), config.clone(), to, "stranger.invalid");
    let (_, mut connection) = begun.unwrap();
    let send = |connection: &mut quinn_proto::Connection| {
        let mut packet = Vec::new();
        while connection.poll_transmit(Instant::now(), 1, &mut packet).is_some() {
            socket.send_to(&packet, to).unwrap();
            packet.clear();
        }
    };
    send(&mut connection);
    let mut response = [0; 2000];
    let Ok((bytes, from)) = socket.recv_from(&mut response) else { return };
    // The type of a Retry packet (RFC 9000, section 17.2.5). Any other answer is a part of the
    // handshake.
    if response[0] & 0xf0 != 0xf0 {
        return;
    }
    let packet = BytesMut::from(&response[..bytes]);
    let event = endpoint.handle(Instant::now(), from, None, None, packet, &mut Vec::new());
    if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
        connection.handle_event(event);
        send(&mut connection);
    }
}

/// Opens an endpoint that admits connections, and returns a token for it.
fn open(admission: &Admission) -> (Endpoint, SocketAddr, ClientConfig, String) {
    open_counted(admission, Arc::default())
}

/// Opens an endpoint, and counts the connections that are being admitted.
fn open_counted(
    admission: &Admission,
    admitting: Arc<AtomicUsize>,
) -> (Endpoint, SocketAddr, ClientConfig, String) {
    let listen = ([127, 0, 0, 1], 0).into();
    let (token, key) = Token::new(listen).unwrap();
    let registry = Endpoint::server(key.server().unwrap(), listen).unwrap();
    let address = registry.local_addr().unwrap();
    let admission = admission.clone();
    tokio::spawn(async move {
        while let Some(incoming) = registry.accept().await {
            let (admission, admitting) = (admission.clone(), admitting.clone());
            tokio::spawn(async move {
                admitting.fetch_add(1, Ordering::SeqCst);
                let admitted = admission.admit(incoming).await;
                admitting.fetch_sub(1, Ordering::SeqCst);
                if let Some((_place, connection)) = admitted {
                    connection.closed().await;
                }
            });
        }
    });
    let mut caller = Endpoint::client(listen).unwrap();
    caller.set_default_client_config(token.client().unwrap());
    (caller, address, token.client().unwrap(), token.names()[0].clone())
}

#[tokio::test]
async fn unfinished_handshakes_do_not_prevent_connections() {
    let admission = Admission::with_places(32, 8);
    let admitting = Arc::new(AtomicUsize::new(0));
    let (caller, address, config, name) = open_counted(&admission, admitting.clone());
    let flood = tokio::task::spawn_blocking(move || {
        (0..100).for_each(|_| begin_handshake(&config, address));
    });
    timeout(LIMIT, flood).await.unwrap().unwrap();
    let begun = lock(&admission.handshakes).len();
    assert!((9..=32).contains(&begun), "the table is used, and bounded: {begun}");
    // Evicted handshakes have ended, except for a few that have not run yet.
    let running = admitting.load(Ordering::SeqCst);
    assert!(running <= begun + 8, "{running} handshakes go on, {begun} have a place");

    let mut connected = Vec::new();
    for _ in 0..8 {
        let connecting = caller.connect(address, &name).unwrap();
        connected.push(timeout(LIMIT, connecting).await.unwrap().unwrap());
    }

    assert!(connected.iter().all(|connection| connection.close_reason().is_none()));
}

#[tokio::test]
async fn idle_connections_do_not_prevent_new_ones() {
    let admission = Admission::with_places(8, 4);
    let (caller, address, _, name) = open(&admission);
    let mut connected = Vec::new();
    for _ in 0..6 {
        let connecting = caller.connect(address, &name).unwrap();
        connected.push(timeout(LIMIT, connecting).await.unwrap().unwrap());
        // A client considers itself connected before the server has seen its certificate.
        let expected = connected.len().min(4);
        let seen = async {
            while lock(&admission.connections).len() < expected {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(LIMIT, seen).await.unwrap();
    }

    for first in &connected[..2] {
        let why = timeout(LIMIT, first.closed()).await.unwrap();
        assert!(why.to_string().contains("connect again"), "{why}");
    }
    assert!(connected[2..].iter().all(|connection| connection.close_reason().is_none()));
}

/// Makes calls during a flood of `handshakes` handshakes, both spread evenly over the time
/// `within`. Returns the times of the calls in ascending order.
fn calls_under_flood(handshakes: usize, within: Duration, calls: usize) -> Vec<Duration> {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    let listen = Some("127.0.0.1:0".parse().unwrap());
    let registry = DaemonOptions { listen, advertise: None, token: token.clone(), is_kept: false };
    let role = Role::Daemon(registry);
    let options =
        ServeOptions { name: "own".to_owned(), pes: 1, speed: 1.0, room: Room::default(), role };
    let (end, ended) = tokio::sync::oneshot::channel();
    let served = thread::spawn(move || serve::<Doubles>(options, ended, |_| ()));
    let token = loop {
        match Token::read(&token) {
            Ok(token) => break token,
            Err(_) => thread::sleep(Duration::from_millis(5)),
        }
    };
    let (config, to) = (token.client().unwrap(), token.address);
    let (begun, is_over, since) = (AtomicUsize::new(0), AtomicBool::new(false), Instant::now());
    let mut took = Vec::new();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_over.load(Ordering::SeqCst) {
                    let number = begun.fetch_add(1, Ordering::SeqCst);
                    if number >= handshakes {
                        return;
                    }
                    let due = within.mul_f64(number as f64 / handshakes as f64);
                    thread::sleep(due.saturating_sub(since.elapsed()));
                    begin_handshake(&config, to);
                }
            });
        }
        // Waits until more handshakes have started than a table without eviction has places.
        while begun.load(Ordering::SeqCst) < handshakes * 9 / 10 && within.is_zero() {
            thread::sleep(Duration::from_millis(5));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            for call in 0..calls {
                let due = within.mul_f64(call as f64 / calls as f64);
                tokio::time::sleep(due.saturating_sub(since.elapsed())).await;
                let begun = Instant::now();
                let client = Client::new(token.clone()).unwrap();
                let called = client.call("double", "[21]", LIMIT).await.unwrap().unwrap();
                assert_eq!(called, "[42]");
                took.push(begun.elapsed());
            }
        });
        is_over.store(within.is_zero(), Ordering::SeqCst);
    });
    println!("{} handshakes in {:?}", begun.load(Ordering::SeqCst), since.elapsed());
    drop(end);
    served.join().unwrap().unwrap();
    took.sort();
    took
}

#[test]
fn calls_are_answered_under_a_flood_of_handshakes() {
    let took = calls_under_flood(2 * CONNECTIONS_MAX, Duration::ZERO, 5);

    assert_eq!(took.len(), 5);
}

#[test]
#[ignore = "takes a minute"]
fn a_minute_of_half_open_handshakes_delays_calls_by_less_than_a_second() {
    let quiet = calls_under_flood(1, Duration::from_secs(2), 100);
    let flooded = calls_under_flood(10_000, Duration::from_secs(60), 100);

    let p99 = |took: &[Duration]| took[took.len() * 99 / 100 - 1];
    println!("p99 {:?} in quiet, {:?} under the flood", p99(&quiet), p99(&flooded));
    assert!(p99(&flooded) < p99(&quiet) + Duration::from_secs(1));
}
