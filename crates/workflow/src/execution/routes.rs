//! The routes of data from its holder to several servers.

use crate::id::{Endpoint, ServerId};
use crate::platform::Platform;
use std::collections::BTreeMap;

/// Returns the servers to which data is sent, in order, each with the servers to which it forwards
/// the data: every server directly or, if `relays`, one server of each other site, which forwards
/// it to the others of its site.
pub fn site_routes(
    platform: &Platform,
    relays: bool,
    from: Endpoint,
    to: &[ServerId],
) -> Vec<(ServerId, Vec<ServerId>)> {
    let mut heads: BTreeMap<usize, usize> = BTreeMap::new();
    let mut routes: Vec<(ServerId, Vec<ServerId>)> = Vec::new();
    for &server in to {
        let is_far = !platform.is_near(from, Endpoint::Server(server));
        let listed = platform.server(server);
        if relays && is_far && listed.is_direct {
            if let Some(&head) = heads.get(&listed.site) {
                routes[head].1.push(server);
                continue;
            }
            heads.insert(listed.site, routes.len());
        }
        routes.push((server, Vec::new()));
    }
    routes
}
