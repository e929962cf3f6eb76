//! Tests of servers that join a daemon.

use super::*;
use crate::client::by_name::Client;
use crate::registry::link_table::LINKS_MAX;
use crate::wire::messages::request_response;
use gridspan_rpc::calls::{Functions, Signature};
use gridspan_topology::LinkSample;
use quinn::Connection;

struct Nothing;

impl Catalogue for Nothing {
    fn functions() -> Functions {
        Functions::new()
    }
}

/// Returns a daemon, a caller's end of a connection to the registry, and the registry's end.
async fn with_caller() -> (Arc<Daemon<Nothing>>, Connection, Connection) {
    let listen: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let (token, key) = Token::new(listen).unwrap();
    let registry = Endpoint::server(key.server().unwrap(), listen).unwrap();
    let client = Client::new(token.at(registry.local_addr().unwrap())).unwrap();
    let comes_in = async { registry.accept().await.unwrap().await.unwrap() };
    let (there, connection) = tokio::join!(client.connect(), comes_in);
    let daemon = Arc::new(Daemon {
        registry: 1,
        server_table: Mutex::new(ServerTable::new()),
        open: InFlight::default(),
        is_ending: AtomicBool::new(false),
        numbers: AtomicU64::new(0),
        admission: Admission::default(),
        link_table: Mutex::default(),
        begun: Instant::now(),
        is_back: false,
        task_server: None,
    });
    (daemon, there.unwrap(), connection)
}

fn card(name: &str) -> ServerCard {
    let functions = BTreeMap::from([("f".to_owned(), Signature::of::<(), ()>())]);
    let mut card = ServerCard::new(name, functions);
    card.is_direct = false;
    card
}

#[tokio::test]
async fn a_server_whose_connection_ends_before_it_joins_is_not_listed() {
    let (daemon, there, connection) = with_caller().await;
    let (joined, groups) = (Mutex::default(), Mutex::default());
    let caller = Caller { connection, joined, groups };
    there.close(0_u32.into(), b"gone");
    caller.connection.closed().await;

    daemon.join(card("late"), 1, &caller);

    assert!(daemon.list().is_empty());
}

#[tokio::test]
async fn a_daemon_that_is_being_stopped_does_not_wait_for_calls_that_come_then() {
    let (daemon, there, connection) = with_caller().await;
    let (joined, groups) = (Mutex::default(), Mutex::default());
    let caller = Caller { connection: connection.clone(), joined, groups };
    let (function, arguments) = ("f".to_owned(), "[]".to_owned());
    let timeout = Duration::from_secs(60);
    let call = TextCall { number: 0, function, arguments, timeout, traceparent: None };
    let called = tokio::spawn(async move { request_response(&there, &Request::Call(call)).await });
    let streams = connection.accept_bi().await.unwrap();
    daemon.is_ending.store(true, Ordering::SeqCst);
    let (of_call, open) = (daemon.clone(), daemon.open.begin());
    let attended = tokio::spawn(async move {
        of_call.attend(streams, &Budget::new(WAITING_BYTES_MAX), &caller, open).await;
    });

    daemon.open.over(timeout).await;

    assert_eq!(daemon.open.count(), 0);
    assert!(!called.is_finished() && !attended.is_finished());
    connection.close(0_u32.into(), b"the daemon has ended");
    attended.await.unwrap();
    let called = called.await.unwrap();
    assert!(matches!(called, Err(RemoteError::Away { .. })), "{called:?}");
}

#[tokio::test]
async fn repeated_requests_return_only_what_is_new() {
    const SERVERS: u32 = 256;
    let (daemon, _there, connection) = with_caller().await;
    for number in 0..SERVERS {
        let route = Route::to(connection.clone());
        daemon.server_table().join(card(&number.to_string()), (1, None), route).unwrap();
    }
    let round_trip = Some(Duration::from_millis(2));
    let sample = LinkSample { round_trip, ..LinkSample::default() };
    let see = |link| lock(&daemon.link_table).observe(daemon.now(), link, sample);
    let begun = Instant::now();
    for from in 0..SERVERS {
        (0..from).for_each(|to| see((from, to)));
    }
    // A scan of all links for each sample takes many minutes.
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    let bytes = |news: &ServerUpdate| serde_json::to_vec(news).unwrap().len();

    let all = daemon.news(KnownVersions::default());
    let (mut known, mut links) = (all.known, all.links.len());
    loop {
        let more = daemon.news(known);
        assert!(more.servers.is_none() && more.links.len() <= LINKS_MAX);
        (known, links) = (more.known, links + more.links.len());
        if more.links.is_empty() {
            break;
        }
    }
    let nothing = daemon.news(known);
    see((3, 4));
    let one = daemon.news(known);
    daemon.leave(5);
    let gone = daemon.news(one.known);

    assert_eq!(all.servers.as_ref().map(Vec::len), Some(SERVERS as usize));
    assert_eq!((all.links.len(), links as u32), (LINKS_MAX, SERVERS * (SERVERS - 1)));
    assert_eq!((nothing.known, nothing.servers.is_none(), nothing.links.len()), (known, true, 0));
    assert!(bytes(&nothing) < 100 && bytes(&all) > 1000 * bytes(&nothing));
    assert_eq!(one.links.iter().map(|(link, _)| *link).collect::<Vec<_>>(), [(3, 4), (4, 3)]);
    assert_eq!(
        (gone.servers.map(|all| all.len() as u32), gone.links.len()),
        (Some(SERVERS - 1), 0)
    );
    let of_another = KnownVersions { registry: 2, ..one.known };
    assert_eq!(daemon.news(of_another).servers.map(|all| all.len() as u32), Some(SERVERS - 1));
}

#[tokio::test]
async fn links_of_a_server_that_leaves_during_a_probe_are_removed() {
    let (daemon, _there, connection) = with_caller().await;
    let caller = Caller { connection, joined: Mutex::default(), groups: Mutex::default() };
    assert!(matches!(daemon.join(card("own"), 1, &caller), Response::Joined));
    let route = Route::to(caller.connection.clone());
    let other = daemon.server_table().join(card("other"), (1, None), route).unwrap();
    let round_trip = Some(Duration::from_millis(2));
    let seen =
        [LinkObservation { from: other, sample: LinkSample { round_trip, ..Default::default() } }];

    std::thread::scope(|scope| {
        let mut link_table = lock(&daemon.link_table);
        scope.spawn(|| daemon.probe_links(&seen, &caller));
        // The probe keeps this lock while it waits for the link table.
        let begun = Instant::now();
        while caller.joined.try_lock().is_ok() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the probe should start");
            std::thread::sleep(Duration::from_millis(1));
        }
        daemon.server_table().leave(other);
        link_table.leave(other);
    });

    assert!(lock(&daemon.link_table).estimates(daemon.now()).is_empty());
}

#[tokio::test]
async fn a_daemon_that_comes_back_is_where_its_clients_look_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let options = |(listen, advertise): (Option<&str>, Option<&str>)| DaemonOptions {
        listen: listen.map(|listen| listen.parse().unwrap()),
        advertise: advertise.map(|ip| ip.parse().unwrap()),
        token: folder.path().join("grid.token"),
        is_kept: true,
    };
    let first = OpenedDaemon::open(options((None, None))).unwrap();
    let was = first.address().unwrap();
    assert!(was.ip().is_loopback(), "{was}");

    for other in [(Some("127.0.0.1:1"), None), (Some("0.0.0.0:0"), None), (None, Some("10.0.0.1"))]
    {
        let refused = OpenedDaemon::open(options(other)).unwrap_err();
        let is_expected =
            matches!(&refused, RemoteError::Elsewhere { address, .. } if *address == was);
        assert!(is_expected, "{other:?}: {refused}");
    }
    let key = Key::read(&key_path(&folder.path().join("grid.token"))).unwrap().unwrap();
    for same in [(None, None), (Some("127.0.0.1:0"), Some("127.0.0.1"))] {
        options(same).check_place(&key).unwrap();
    }
}
