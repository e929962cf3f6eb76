//! Spans of calls and groups between processes, and the contexts that connect them. The registry
//! and its server are threads of this process, so that one subscriber sees all spans.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "../../rpc/tests/spans/collector.rs"]
mod collector;

use collector::{Collector, assert_pairs};
use gridspan_rpc::calls::{Catalogue, Config, Function, Functions, RpcError};
use gridspan_rpc::group::Room;
use gridspan_rpc_net::{Client, DaemonOptions, Remote, Role, ServeOptions, Token, serve};
use gridspan_workflow::heuristics::HeftC;
use std::path::Path;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::sync::oneshot;
use tracing::Instrument;

/// Longest time that the test waits for anything.
const LIMIT: Duration = Duration::from_secs(60);

const FILL: Function<(u64,), (Vec<u64>,)> =
    Function::new("fill", |(count,), _| Ok(((0..count).collect(),)));
const SUM: Function<(Vec<u64>,), (u64,)> = Function::new("sum", |(numbers,), _| {
    let _inside = tracing::info_span!("inside of sum").entered();
    Ok((numbers.iter().sum(),))
});
const REFUSE: Function<(u64,), (u64,)> = Function::new("refuse", |_, _| Err("never".to_owned()));

struct All;

impl Catalogue for All {
    fn functions() -> Functions {
        Functions::new().with_parts(&FILL).with_parts(&SUM).with_parts(&REFUSE)
    }
}

/// A registry or a server that runs in a thread.
struct Serving {
    end: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Serving {
    /// Starts it, and waits until others can reach it.
    fn start(name: &str, role: Role) -> Self {
        let options =
            ServeOptions { name: name.to_owned(), pes: 1, speed: 1.0, room: Room::default(), role };
        let ((end, ended), (begun, begins)) = (oneshot::channel(), mpsc::channel());
        let thread = thread::spawn(move || {
            serve::<All>(options, ended, move |_| {
                // If the server joins again later, the receiver is gone.
                let _ = begun.send(());
            })
            .unwrap();
        });
        begins.recv_timeout(LIMIT).unwrap();
        Self { end, thread }
    }

    fn stop(self) {
        self.end.send(()).unwrap();
        self.thread.join().unwrap();
    }
}

async fn within_limit<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future).await.unwrap()
}

async fn calls(token: &Path) {
    let client = Client::new(Token::read(token).unwrap()).unwrap();
    let called = client.call("sum", "[[1, 2, 3]]", LIMIT).instrument(tracing::info_span!("around"));
    assert_eq!(within_limit(called).await.unwrap(), Ok("[6]".to_owned()));
    let refused = within_limit(client.call("refuse", "[1]", LIMIT)).await.unwrap();
    assert!(matches!(refused, Err(RpcError::SessionFailed { .. })), "{refused:?}");

    let remote = Remote::new(Token::read(token).unwrap()).unwrap();
    let heuristic = HeftC::default();
    let group = remote.map(&heuristic, async |group| {
        let (numbers,) = group.call(&FILL, (group.value(&10)?,));
        let (sum,) = group.call(&SUM, (numbers,));
        group.get(&sum).await
    });
    let group = group.instrument(tracing::info_span!("around"));
    assert_eq!(within_limit(group).await.unwrap(), 45);

    let rpc = remote.rpc(&Config::default()).unwrap();
    let sum = rpc.handle(&SUM).await.unwrap();
    let called = async { rpc.call(&sum, &(vec![20, 1],)).await };
    let called = called.instrument(tracing::info_span!("around"));
    assert_eq!(within_limit(called).await, Ok((21,)));
}

#[test]
fn the_parent_of_a_servers_span_is_the_clients_span_in_another_process() {
    let collector = Collector::installed();
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("grid.token");
    let listen = Some("127.0.0.1:0".parse().unwrap());
    let daemon = DaemonOptions { listen, advertise: None, token: token.clone(), is_kept: true };
    let registry = Serving::start("registry", Role::Registry(daemon));
    let server = Serving::start("one", Role::Member(Token::read(&token).unwrap()));

    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(calls(&token));
    // Tasks of the runtime may keep spans open for a moment after the calls.
    drop(runtime);
    server.stop();
    registry.stop();

    // The client calls `sum` by name, in a group, and with the verbs of GridRPC.
    let (clients, servers) = (collector.of("client", "sum"), collector.of("server", "sum"));
    assert_pairs(&clients, &servers, 3);
    let around: Vec<_> = collector.named("around").iter().map(|span| Some(span.number)).collect();
    let below: Vec<_> = clients.iter().map(|span| span.parent).collect();
    assert_eq!(below, around, "the span of the program is above that of the call");
    let inside: Vec<_> = collector.named("inside of sum").iter().map(|span| span.parent).collect();
    let executed: Vec<_> = servers.iter().map(|span| Some(span.number)).collect();
    assert_eq!(inside, executed, "spans of a function are below that of its server");
    for client in &clients {
        assert_eq!(client.field("server.address"), "127.0.0.1");
        assert!(client.field("server.port").parse::<u16>().is_ok(), "{client:?}");
    }
    assert_pairs(&collector.of("client", "fill"), &collector.of("server", "fill"), 1);
    let failed = [collector.of("client", "refuse"), collector.of("server", "refuse")];
    assert_pairs(&failed[0], &failed[1], 1);
    for span in failed.concat() {
        assert_eq!(span.field("otel.status_code"), "ERROR");
        assert!(span.field("otel.status_description").contains("never"), "{span:?}");
    }
}
