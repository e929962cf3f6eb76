//! How data goes from one who has it to several servers.

use crate::id::{Endpoint, ServerId};
use crate::platform::Platform;
use std::collections::BTreeMap;

/// The servers that are sent data, in order, each with those to which it passes it on: all of them
/// by themselves or, if a mapping relays, one of each other site for the others of it.
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
