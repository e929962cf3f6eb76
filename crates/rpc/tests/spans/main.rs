//! Spans of calls in a job, and the contexts that connect them. There is only one test, because the
//! subscriber and the propagator are global to the process.
#![allow(missing_docs, clippy::unwrap_used)]

mod collector;

use collector::{Collector, assert_pairs};
use gridspan_rpc::calls::{
    Catalogue, Config, Function, Functions, GridRpc, RpcError, Services, with_rpc,
};
use gridspan_rpc::group::Mapper;
use gridspan_runtime::{Grid, Job, driver};
use gridspan_workflow::heuristics::HeftC;
use tracing::Instrument;

const ADD: Function<(u64, u64), u64> = Function::new("add", |(a, b), _| {
    let _inside = tracing::info_span!("inside of add").entered();
    Ok(a + b)
});
const LATER: Function<u64, u64> = Function::new("later", |n, _| Ok(n));
const REFUSE: Function<u64, u64> = Function::new("refuse", |_, _| Err("never".to_owned()));
const FILL: Function<(u64,), (Vec<u64>,)> =
    Function::new("fill", |(count,), _| Ok(((0..count).collect(),)));
const SUM: Function<(Vec<u64>,), (u64,)> =
    Function::new("sum", |(numbers,), _| Ok((numbers.iter().sum(),)));

struct All;

impl Catalogue for All {
    fn functions() -> Functions {
        let single = Functions::new().with(&ADD).with(&LATER).with(&REFUSE);
        single.with_parts(&FILL).with_parts(&SUM)
    }
}

async fn calls(grid: &Grid) -> Result<(), RpcError> {
    let services: Services<All> = Services::on_all_pes(grid).await?;
    let mut rpc = GridRpc::new(&services);
    rpc.initialize(&Config::default())?;
    let add = rpc.handle(&ADD).await?;
    for number in 0..3 {
        let around = tracing::info_span!("around");
        assert_eq!(rpc.call(&add, &(number, 1)).instrument(around).await?, number + 1);
    }
    let session = rpc.call_async(&rpc.handle(&LATER).await?, &5).await?;
    assert_eq!(rpc.wait(&session).await?, 5);
    let refused = rpc.call(&rpc.handle(&REFUSE).await?, &1).await;
    assert!(matches!(refused, Err(RpcError::SessionFailed { .. })), "{refused:?}");
    let text = rpc.call_text_until("later", "7", std::future::pending()).await?;
    assert_eq!(text, "7");
    let (mapper, heuristic) = (Mapper::new(&services), HeftC::default());
    let group = mapper.map(&heuristic, async |group| {
        let (numbers,) = group.call(&FILL, (group.value(&10)?,));
        let (sum,) = group.call(&SUM, (numbers,));
        group.get(&sum).await
    });
    assert_eq!(group.await?, 45);
    rpc.finalize().await
}

#[test]
fn the_parent_of_a_servers_span_is_the_clients_span() {
    let collector = Collector::installed();
    let job = with_rpc::<All>(Job::new("spans")).main(async |grid: Grid| Ok(calls(&grid).await?));

    driver::embedded::run(job, 3).unwrap();

    let (clients, servers) = (collector.of("client", "add"), collector.of("server", "add"));
    assert_pairs(&clients, &servers, 3);
    let around: Vec<_> = collector.named("around").iter().map(|span| Some(span.number)).collect();
    let below: Vec<_> = clients.iter().map(|span| span.parent).collect();
    assert_eq!(below, around, "the span of the program is above that of the call");
    let inside: Vec<_> = collector.named("inside of add").iter().map(|span| span.parent).collect();
    let executed: Vec<_> = servers.iter().map(|span| Some(span.number)).collect();
    assert_eq!(inside, executed, "spans of a function are below that of its server");
    assert_eq!(clients[0].field("otel.name"), "add");
    assert!(servers.iter().all(|span| !span.field("gridspan.server").is_empty()));
    assert_eq!(clients[0].field("server.address"), "", "the call does not leave the job");

    let begun = [collector.of("producer", "later"), collector.of("client", "later")].concat();
    assert_pairs(&begun, &collector.of("server", "later"), 2);
    let failed = [collector.of("client", "refuse"), collector.of("server", "refuse")];
    assert_pairs(&failed[0], &failed[1], 1);
    for span in failed.concat() {
        assert_eq!(span.field("otel.status_code"), "ERROR");
        assert_eq!(span.field("error.type"), "GRPC_SESSION_FAILED");
        assert!(span.field("otel.status_description").contains("never"), "{span:?}");
    }
    for task in ["fill", "sum"] {
        assert_pairs(&collector.of("client", task), &collector.of("server", task), 1);
    }
}
