//! Groups that are mapped along a given graph, where calls depend on results: Brady, Dongarra,
//! Guidolin, Lastovetsky and Seymour (2010), "SmartGridRPC", section 4.
//!
//! A window that ends with each awaited result gives a heuristic little to work with. A user who
//! knows the algorithm can supply a graph that resembles its executions, with tasks named after
//! their functions. The graph is mapped once, as a whole, and each call goes to the server to which
//! the next task of its function was mapped. Calls beyond the graph are mapped window by window.

use super::discovery::Gathered;
use crate::calls::ServerCard;
use gridspan_workflow::Platform;
use gridspan_workflow::ServerId;
use gridspan_workflow::TaskGraph;
use gridspan_workflow::heuristics::Heuristic;
use gridspan_workflow::{MapError, Mapping};
use std::collections::{BTreeMap, VecDeque};

/// Targets of the next calls of each function: the number of the server, and the place in the
/// order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct GivenGraph {
    next: BTreeMap<String, VecDeque<(u32, u32)>>,
    relays: bool,
}

impl GivenGraph {
    /// Maps a graph to the given servers. A task is mapped only to servers that offer its function.
    pub(super) fn new(
        graph: &TaskGraph,
        heuristic: &dyn Heuristic,
        platform: &Platform,
        cards: &[ServerCard],
    ) -> Result<Self, MapError> {
        let offers = |server: ServerId, function: &str| {
            cards.get(server.index()).is_some_and(|card| card.functions.contains_key(function))
        };
        let graph = graph.clone().with_eligible(|task| {
            let able = platform.server_ids().filter(|&server| task.can_run_on(server));
            able.filter(|&server| offers(server, &task.name)).collect()
        });
        let mapping = gridspan_workflow::heuristics::map(heuristic, &graph, platform)?;
        let mut next: BTreeMap<String, VecDeque<(u32, u32)>> = BTreeMap::new();
        for &task in graph.order() {
            let (server, place) = (mapping.servers[task.index()], mapping.places[task.index()]);
            let queue = next.entry(graph.task(task).name.clone()).or_default();
            queue.push_back((cards[server.index()].number, place));
        }
        Ok(Self { next, relays: mapping.relays })
    }

    /// The mapping of a window. Calls that are not in the graph, or whose server has left, go where
    /// the mapping of `otherwise` puts them.
    pub(super) fn follow(
        &mut self,
        calls: &[Gathered],
        place_of: &dyn Fn(u32) -> Option<ServerId>,
        otherwise: impl FnOnce() -> Result<Mapping, MapError>,
    ) -> Result<Mapping, MapError> {
        let mut next = |call: &Gathered| {
            let (number, place) = self.next.get_mut(call.function)?.pop_front()?;
            Some((place_of(number)?, place))
        };
        let foreseen: Vec<Option<(ServerId, u32)>> = calls.iter().map(&mut next).collect();
        if let Some(all) = foreseen.iter().copied().collect::<Option<Vec<_>>>() {
            let (servers, places) = all.into_iter().unzip();
            let mut mapping = Mapping::new(servers, places);
            mapping.relays = self.relays;
            return Ok(mapping);
        }
        let mut mapping = otherwise()?;
        for (server, foreseen) in mapping.servers.iter_mut().zip(foreseen) {
            if let Some((foreseen, _)) = foreseen {
                *server = foreseen;
            }
        }
        Ok(mapping)
    }
}
