//! Groups that are mapped along a given graph, because the program decides by results which calls
//! it makes: Brady, Dongarra, Guidolin, Lastovetsky and Seymour (2010), "SmartGridRPC", section 4.
//!
//! A window that ends with each awaited result gives a heuristic little to work with. A user who
//! knows the algorithm can supply a graph that resembles its executions, with tasks named after
//! their functions. The graph is mapped once, as a whole, and each call goes to the server to which
//! the next task of its function was mapped. Calls beyond the graph are mapped window by window.

use super::discovery::Gathered;
use crate::calls::ServerCard;
use gridspan_workflow::Platform;
use gridspan_workflow::ServerId;
use gridspan_workflow::heuristics::Heuristic;
use gridspan_workflow::{MapError, Mapping, TaskGraph, TaskSpec};
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

    /// Returns the mapping of a window, which consists of calls and of their graph. Calls that are
    /// not in the given graph, or whose server has left or offers another function of this name, go
    /// where the mapping of `otherwise` puts them.
    pub(super) fn follow(
        &mut self,
        (calls, window): (&[Gathered], &TaskGraph),
        place_of: &dyn Fn(u32) -> Option<ServerId>,
        otherwise: impl FnOnce() -> Result<Mapping, MapError>,
    ) -> Result<Mapping, MapError> {
        let next = |(call, task): (&Gathered, &TaskSpec)| {
            let (number, place) = self.next.get_mut(call.function)?.pop_front()?;
            Some((place_of(number).filter(|&server| task.can_run_on(server))?, place))
        };
        let foreseen: Vec<Option<(ServerId, u32)>> =
            calls.iter().zip(window.tasks()).map(next).collect();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::{Signature, Volumes};
    use gridspan_workflow::GraphBuilder;

    #[test]
    fn a_call_does_not_go_to_a_server_whose_function_is_another_one() {
        let (signature, volumes) = (Signature::of::<(), ()>(), Volumes::default());
        let (function, inputs, outputs) = ("f", Vec::new(), vec![0]);
        let call = Gathered { function, signature, inputs, outputs, work_s: None, volumes };
        let mut window = GraphBuilder::default();
        for able in [[0, 1], [1, 2]] {
            let task = window.task("f", 1.0);
            window.restrict(task, able.map(ServerId).to_vec());
        }
        let (window, calls) = (window.build().unwrap(), [call.clone(), call]);
        let next = [("f".to_owned(), VecDeque::from([(0, 0), (0, 1)]))].into();
        let mut given = GivenGraph { next, relays: true };

        let mapping = given.follow((&calls, &window), &|number| Some(ServerId(number)), || {
            Ok(Mapping::new(vec![ServerId(1), ServerId(2)], vec![0, 1]))
        });

        assert_eq!(mapping.unwrap().servers, [ServerId(0), ServerId(2)]);
    }
}
