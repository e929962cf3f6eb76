//! From a mapping to who sends what to whom.

use super::order::{Hop, Route};
use super::trees::Trees;
use gridspan_workflow::Mapping;
use gridspan_workflow::Platform;
use gridspan_workflow::TaskGraph;
use gridspan_workflow::{DataId, Endpoint, ServerId};
use std::collections::{BTreeMap, BTreeSet};

/// How data reaches the servers that need it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Ways {
    /// From whoever makes it, or has it.
    pub(super) direct: Vec<Route>,
    /// By way of the client, because one of the two speaks with the client only.
    pub(super) bridged: Vec<Route>,
}

/// The ways of each data from who makes or has it, to the servers whose tasks read it and that do
/// not have it. The routes name servers by their positions in the platform.
pub(super) fn ways(graph: &TaskGraph, platform: &Platform, mapping: &Mapping) -> Vec<Ways> {
    let (data, mut trees) = ((0..graph.data().len() as u32).map(DataId), Trees::default());
    data.map(|data| of_data(graph, platform, mapping, data, &mut trees)).collect()
}

/// Who sends data: its maker, or the first that has it.
pub(super) fn source(graph: &TaskGraph, mapping: &Mapping, data: DataId) -> Option<Endpoint> {
    let datum = graph.datum(data);
    match datum.producer {
        Some(task) => Some(Endpoint::Server(mapping.servers[task.index()])),
        None => datum.held_by.first().copied(),
    }
}

fn of_data(
    graph: &TaskGraph,
    platform: &Platform,
    mapping: &Mapping,
    data: DataId,
    trees: &mut Trees,
) -> Ways {
    let datum = graph.datum(data);
    let Some(from) = source(graph, mapping, data) else { return Ways::default() };
    let readers = datum.consumers.iter().map(|task| mapping.servers[task.index()]);
    let has = |server: &ServerId| {
        from == Endpoint::Server(*server) || datum.held_by.contains(&Endpoint::Server(*server))
    };
    let needs: BTreeSet<ServerId> = readers.filter(|server| !has(server)).collect();
    let (direct, bridged): (Vec<_>, Vec<_>) =
        needs.into_iter().partition(|&server| platform.is_direct(from, Endpoint::Server(server)));
    let mut planned = |from, servers: &[ServerId]| {
        let routes = routes(platform, mapping.relays, from, servers);
        let may = mapping.relays && servers.iter().all(|&server| platform.server(server).is_direct);
        let tree = may.then(|| trees.plan(platform, from, datum.bytes, &routes)).flatten();
        tree.unwrap_or(routes)
    };
    Ways { direct: planned(from, &direct), bridged: planned(Endpoint::Client, &bridged) }
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
