//! The ways of data from who has it to the servers that need it.

use super::order::{Hop, Route};
use super::trees::Trees;
use gridspan_workflow::{Endpoint, Platform, ServerId};
use std::collections::BTreeMap;

/// Plans ways, and remembers trees.
#[derive(Debug, Default)]
pub(super) struct Routes {
    trees: Trees,
}

impl Routes {
    /// The ways of data of so many bytes to servers, in order: directly or, if the mapping relays,
    /// once to each other site or over a planned tree. Servers are named by their positions.
    pub(super) fn plan(
        &mut self,
        platform: &Platform,
        relays: bool,
        (from, bytes): (Endpoint, u64),
        to: &[ServerId],
    ) -> Vec<Route> {
        let routes = routes(platform, relays, from, to);
        let may = relays && to.iter().all(|&server| platform.server(server).is_direct);
        let tree = may.then(|| self.trees.plan(platform, from, bytes, &routes)).flatten();
        tree.unwrap_or(routes)
    }
}

/// One way to each server; or one to each other site, from where the others of it have the data.
fn routes(platform: &Platform, relays: bool, from: Endpoint, servers: &[ServerId]) -> Vec<Route> {
    let mut heads: BTreeMap<usize, usize> = BTreeMap::new();
    let mut routes: Vec<Route> = Vec::new();
    for &server in servers {
        let is_far = !platform.is_near(from, Endpoint::Server(server));
        let listed = platform.server(server);
        if relays && is_far && listed.is_direct {
            if let Some(&head) = heads.get(&listed.site) {
                routes[head].then.push(Hop { to: server.0, below: 0 });
                continue;
            }
            heads.insert(listed.site, routes.len());
        }
        routes.push(Route::to(server.0));
    }
    routes
}
