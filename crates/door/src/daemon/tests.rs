//! Servers that join a daemon, seen from inside.

use super::*;
use crate::visitor::Visitor;
use gridspan_rpc::calls::Functions;

struct Nothing;

impl Catalogue for Nothing {
    fn functions() -> Functions {
        Functions::new()
    }
}

#[tokio::test]
async fn a_server_whose_connection_ends_before_it_is_let_in_does_not_stay() {
    let listen: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let (token, key) = Token::new(listen).unwrap();
    let door = Endpoint::server(key.server().unwrap(), listen).unwrap();
    let visitor = Visitor::new(token.at(door.local_addr().unwrap())).unwrap();
    let comes_in = async { door.accept().await.unwrap().await.unwrap() };
    let (there, connection) = tokio::join!(visitor.connect(), comes_in);
    let daemon: Arc<Daemon<Nothing>> = Arc::new(Daemon {
        hall: Mutex::new(Hall::new()),
        open: Counted::default(),
        numbers: AtomicU64::new(0),
        entrance: Entrance::default(),
        chart: Mutex::default(),
        begun: Instant::now(),
        is_back: false,
        workshop: None,
    });
    let (joined, groups) = (Mutex::default(), Mutex::default());
    let guest = Guest { connection, joined, groups };
    there.unwrap().close(0_u32.into(), b"gone");
    guest.connection.closed().await;
    let (name, speed, functions) = ("late".to_owned(), 1.0, BTreeSet::from(["f".to_owned()]));
    let card = ServerCard { number: 0, name, site: 0, speed, is_direct: false, functions };

    daemon.join(card, 1, &guest);

    assert!(daemon.list().is_empty());
}
