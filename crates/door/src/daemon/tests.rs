//! Servers that join a daemon, seen from inside.

use super::*;
use crate::chart::WAYS_MAX;
use crate::visitor::Visitor;
use gridspan_rpc::calls::{Functions, Signature};
use gridspan_topology::LinkSample;
use quinn::Connection;

struct Nothing;

impl Catalogue for Nothing {
    fn functions() -> Functions {
        Functions::new()
    }
}

/// A daemon, and a guest and the door's end of the connection to it.
async fn with_guest() -> (Arc<Daemon<Nothing>>, Connection, Connection) {
    let listen: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let (token, key) = Token::new(listen).unwrap();
    let door = Endpoint::server(key.server().unwrap(), listen).unwrap();
    let visitor = Visitor::new(token.at(door.local_addr().unwrap())).unwrap();
    let comes_in = async { door.accept().await.unwrap().await.unwrap() };
    let (there, connection) = tokio::join!(visitor.connect(), comes_in);
    let daemon = Arc::new(Daemon {
        door: 1,
        hall: Mutex::new(Hall::new()),
        open: Counted::default(),
        numbers: AtomicU64::new(0),
        entrance: Entrance::default(),
        chart: Mutex::default(),
        begun: Instant::now(),
        is_back: false,
        workshop: None,
    });
    (daemon, there.unwrap(), connection)
}

fn card(name: &str) -> ServerCard {
    let functions = BTreeMap::from([("f".to_owned(), Signature::of::<(), ()>())]);
    let name = name.to_owned();
    ServerCard { number: 0, name, site: 0, speed: 1.0, is_direct: false, functions }
}

#[tokio::test]
async fn a_server_whose_connection_ends_before_it_is_let_in_does_not_stay() {
    let (daemon, there, connection) = with_guest().await;
    let (joined, groups) = (Mutex::default(), Mutex::default());
    let guest = Guest { connection, joined, groups };
    there.close(0_u32.into(), b"gone");
    guest.connection.closed().await;

    daemon.join(card("late"), 1, &guest);

    assert!(daemon.list().is_empty());
}

#[tokio::test]
async fn who_asks_again_hears_what_is_new_only() {
    const SERVERS: u32 = 256;
    let (daemon, _there, connection) = with_guest().await;
    for number in 0..SERVERS {
        let way = Way::There(connection.clone());
        daemon.hall().join(card(&number.to_string()), (1, None), way).unwrap();
    }
    let round_trip = Some(Duration::from_millis(2));
    let sample = LinkSample { round_trip, ..LinkSample::default() };
    let see = |way| lock(&daemon.chart).observe(daemon.now(), way, sample);
    let begun = Instant::now();
    for from in 0..SERVERS {
        (0..from).for_each(|to| see((from, to)));
    }
    // Looking at all ways for each sample takes many minutes.
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    let bytes = |news: &News| serde_json::to_vec(news).unwrap().len();

    let all = daemon.news(Known::default());
    let (mut known, mut ways) = (all.known, all.ways.len());
    loop {
        let more = daemon.news(known);
        assert!(more.servers.is_none() && more.ways.len() <= WAYS_MAX);
        (known, ways) = (more.known, ways + more.ways.len());
        if more.ways.is_empty() {
            break;
        }
    }
    let nothing = daemon.news(known);
    see((3, 4));
    let one = daemon.news(known);
    daemon.leave(5);
    let gone = daemon.news(one.known);

    assert_eq!(all.servers.as_ref().map(Vec::len), Some(SERVERS as usize));
    assert_eq!((all.ways.len(), ways as u32), (WAYS_MAX, SERVERS * (SERVERS - 1)));
    assert_eq!((nothing.known, nothing.servers.is_none(), nothing.ways.len()), (known, true, 0));
    assert!(bytes(&nothing) < 100 && bytes(&all) > 1000 * bytes(&nothing));
    assert_eq!(one.ways.iter().map(|(way, _)| *way).collect::<Vec<_>>(), [(3, 4), (4, 3)]);
    assert_eq!((gone.servers.map(|all| all.len() as u32), gone.ways.len()), (Some(SERVERS - 1), 0));
    let of_another = Known { door: 2, ..one.known };
    assert_eq!(daemon.news(of_another).servers.map(|all| all.len() as u32), Some(SERVERS - 1));
}

#[tokio::test]
async fn of_a_server_that_goes_during_a_survey_nothing_stays() {
    let (daemon, _there, connection) = with_guest().await;
    let guest = Guest { connection, joined: Mutex::default(), groups: Mutex::default() };
    assert!(matches!(daemon.join(card("own"), 1, &guest), Answer::Joined));
    let way = Way::There(guest.connection.clone());
    let other = daemon.hall().join(card("other"), (1, None), way).unwrap();
    let round_trip = Some(Duration::from_millis(2));
    let seen = [Sighting { from: other, sample: LinkSample { round_trip, ..Default::default() } }];

    std::thread::scope(|scope| {
        let mut chart = lock(&daemon.chart);
        scope.spawn(|| daemon.survey(&seen, &guest));
        // So that it has begun, and waits for the chart.
        std::thread::sleep(Duration::from_millis(200));
        daemon.hall().leave(other);
        chart.leave(other);
    });

    assert!(lock(&daemon.chart).estimates(daemon.now()).is_empty());
}
