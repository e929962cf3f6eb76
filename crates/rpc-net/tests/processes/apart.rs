//! Servers behind routers that admit only some senders.

use super::nat::Rule;
use super::{ADD, COUNT, FILL, Grid, SUM, SUM_OF_ALL, within_limit};
use gridspan_rpc::calls::RpcError;
use gridspan_rpc::group::{AssumedLinks, ServerPool};
use gridspan_rpc_net::Remote;
use gridspan_topology::Link;
use gridspan_workflow::heuristics::Heuristic;
use gridspan_workflow::{MapError, Mapping, Platform, ServerId, TaskGraph};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Maps tasks to the servers in turn.
struct InTurn;

impl Heuristic for InTurn {
    fn name(&self) -> &'static str {
        "in turn"
    }

    fn map(&self, graph: &TaskGraph, platform: &Platform) -> Result<Mapping, MapError> {
        let servers = platform.servers().len() as u32;
        let of_tasks = (0..graph.tasks().len() as u32).map(|task| ServerId(task % servers));
        Ok(Mapping::in_order(of_tasks.collect(), graph.order(), false, 0.0))
    }
}

impl Grid {
    /// Returns the names of the servers, with their addresses as the registry sees them.
    async fn addresses(&self) -> Vec<(String, SocketAddr)> {
        let listed = self.client().list().await.unwrap().into_iter();
        listed.map(|listed| (listed.card.name, listed.address.unwrap())).collect()
    }
}

/// Returns the pairs of servers, by name, for which the client knows that the second cannot reach
/// the first.
async fn apart(remote: &Remote) -> BTreeSet<(String, String)> {
    let assumed = AssumedLinks { lan: Link::lan(), wan: Link::wan(), measures: true };
    let cards = remote.cards().await.unwrap();
    let platform = remote.platform(&cards, &assumed, &|_| 1.0).await.unwrap();
    let name = |server: ServerId| cards[server.index()].name.clone();
    platform.apart().iter().map(|&(from, to)| (name(from), name(to))).collect()
}

/// Makes a vector of the numbers from 0 on each of the two servers. Each server then uses data of
/// the other one. Returns four times the sum of each vector.
async fn crosswise(remote: &Remote) -> Result<(u64, u64), RpcError> {
    let group = remote.map(&InTurn, async |group| {
        let count = group.value(&COUNT)?;
        let (one,) = group.call(&FILL, (&count,));
        let (other,) = group.call(&FILL, (&count,));
        let (both,) = group.call(&ADD, (&one, &other));
        let (twice,) = group.call(&ADD, (&both, &both));
        let (sum,) = group.call(&SUM, (&twice,));
        assert_eq!(group.get(&sum).await?, SUM_OF_ALL);
        // These calls form a second window, and use data that servers keep from the first.
        let (first,) = group.call(&SUM, (one,));
        let (again,) = group.call(&SUM, (other,));
        Ok((4 * group.get(&first).await?, 4 * group.get(&again).await?))
    });
    group.await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_of_which_one_does_not_reach_the_other_work_in_one_group() {
    let mut grid = Grid::new(&["open"]);
    let (_, of_open) = grid.addresses().await[0].clone();
    let knocks = Arc::new(Mutex::new(0));
    let counted = knocks.clone();
    let but_one: Rule = Arc::new(move |from| {
        *counted.lock().unwrap() += u32::from(from == of_open);
        (from != of_open).then_some(Duration::ZERO)
    });
    let nat = grid.join_behind("hidden", but_one).await;
    let of_hidden = ("hidden".to_owned(), nat.address());
    assert!(grid.addresses().await.contains(&of_hidden), "others know it by its router");
    let remote = grid.remote();
    assert!(apart(&remote).await.is_empty());

    let sums = within_limit(crosswise(&remote)).await;

    assert_eq!(sums, Ok((SUM_OF_ALL, SUM_OF_ALL)));
    assert!(*knocks.lock().unwrap() > 0, "it has tried");
    let pair = ("hidden".to_owned(), "open".to_owned());
    assert_eq!(apart(&remote).await, [pair].into(), "in this direction");
    assert_eq!(within_limit(crosswise(&remote)).await, Ok((SUM_OF_ALL, SUM_OF_ALL)));
}
