//! Routes of data from its holder to the servers that need it.

use super::order::{Hop, Route};
use super::trees::Trees;
use gridspan_workflow::execution::site_routes;
use gridspan_workflow::{Endpoint, Platform, ServerId};

/// Plans routes, and caches trees.
#[derive(Debug, Default)]
pub(super) struct Routes {
    trees: Trees,
}

impl Routes {
    /// The routes of data of `bytes` bytes to servers, in order: directly or, if the mapping
    /// relays, once to each other site or over a planned tree. Servers are named by their
    /// positions.
    pub(super) fn plan(
        &mut self,
        platform: &Platform,
        relays: bool,
        (from, bytes): (Endpoint, u64),
        to: &[ServerId],
    ) -> Vec<Route> {
        let hops = |then: Vec<ServerId>| then.into_iter().map(|to| Hop { to: to.0, below: 0 });
        let route = |(head, then): (ServerId, _)| Route { to: head.0, then: hops(then).collect() };
        let routes = site_routes(platform, relays, from, to).into_iter().map(route);
        let routes: Vec<Route> = routes.collect();
        let may = relays && to.iter().all(|&server| platform.server(server).is_direct);
        let tree = may.then(|| self.trees.plan(platform, from, bytes, &routes)).flatten();
        tree.unwrap_or(routes)
    }
}
