//! Servers at two sites, between which routers delay packets.

use super::nat::{Nat, Rule};
use super::{Grid, WHERE, within_limit};
use gridspan_rpc::group::{AssumedLinks, ServerPool};
use gridspan_rpc_net::ListedServer;
use gridspan_topology::Link;
use gridspan_workflow::Endpoint;
use gridspan_workflow::ServerId;
use gridspan_workflow::heuristics::HeftC;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Latency between sites, in one direction.
const FAR: Duration = Duration::from_millis(40);
/// Largest latency inside a site, even on a busy machine.
const NEAR_MAX: Duration = Duration::from_millis(25);

/// Names of the servers. The registry and the client are at the site of the first.
const SERVERS: [&str; 4] = ["near 1", "near 2", "far 1", "far 2"];

fn site_of(name: &str) -> &str {
    &name[..name.len() - 2]
}

/// The routers, each with the site of its server.
type Routers = Arc<Mutex<Vec<(&'static str, Nat)>>>;

/// Returns a rule that delays packets from another site.
fn rule(own: &'static str, routers: &Routers) -> Rule {
    let routers = routers.clone();
    Arc::new(move |other| {
        let routers = routers.lock().unwrap();
        let is_it = |router: &&(&str, Nat)| router.1.server() == Some(other);
        let site = routers.iter().find(is_it).map_or(site_of(SERVERS[0]), |(site, _)| site);
        Some(if site == own { Duration::ZERO } else { FAR })
    })
}

async fn two_sites() -> Grid {
    let (mut grid, routers) = (Grid::new(&[]), Routers::default());
    for name in SERVERS {
        let site = site_of(name);
        let nat = grid.join_behind(name, rule(site, &routers)).await;
        routers.lock().unwrap().push((site, nat));
    }
    grid
}

/// Whether all links are known, with the expected latencies.
fn are_known(listed: &[ListedServer]) -> bool {
    let site = |number: u32| {
        let of = listed.iter().find(|other| other.card.number == number);
        of.map(|other| site_of(&other.card.name))
    };
    let is_known = |to: &ListedServer| {
        let is_right = |(from, link): &(u32, gridspan_topology::LinkEstimate)| {
            let is_near = site(*from) == Some(site_of(&to.card.name));
            is_near == (link.latency.duration() < NEAR_MAX)
        };
        to.links.len() == SERVERS.len() - 1 && to.links.iter().all(is_right)
    };
    listed.len() == SERVERS.len() && listed.iter().all(is_known)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_tasks_stay_at_the_near_site() {
    let grid = two_sites().await;
    within_limit(grid.listed(are_known)).await;
    let remote = grid.remote();
    let cards = remote.cards().await.unwrap();
    let assumed = AssumedLinks { lan: Link::lan(), wan: Link::wan(), measures: true };
    let platform = remote.platform(&cards, &assumed, &|_| 1.0).await.unwrap();
    let end = |server: usize| Endpoint::Server(ServerId(server as u32));

    // A busy machine may make near servers look apart, but nothing makes far servers look near.
    for (one, of_one) in cards.iter().enumerate() {
        let is_far = site_of(&of_one.name) == "far";
        assert!(!(is_far && platform.is_near(end(one), Endpoint::Client)), "{}", of_one.name);
        for (other, of_other) in cards.iter().enumerate() {
            let are_apart = site_of(&of_one.name) != site_of(&of_other.name);
            assert!(!(are_apart && platform.is_near(end(one), end(other))), "{}", of_one.name);
        }
    }
    let heuristic = HeftC::default();
    let executed = remote.map(&heuristic, async |group| {
        let numbers = (0..4_u64).map(|number| group.value(&number));
        let numbers = numbers.collect::<Result<Vec<_>, _>>()?;
        let results: Vec<_> =
            numbers.iter().map(|number| group.call(&WHERE, (number,)).0).collect();
        let mut names = BTreeSet::new();
        for result in &results {
            names.insert(group.get(result).await?);
        }
        Ok(names)
    });
    let names = within_limit(executed).await.unwrap();
    // Two tasks take 20 ms on a near server, and a round trip to a far server takes 80 ms.
    assert_eq!(names, ["near 1", "near 2"].map(str::to_owned).into());
}
