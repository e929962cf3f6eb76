//! Minimum completion time: each task, in the order of the calls, goes to the server on which it
//! ends first.

use super::Heuristic;
use super::arrivals::Arrivals;
use super::cores::Cores;
use crate::graph::TaskGraph;
use crate::id::ServerId;
use crate::mapping::{MapError, Mapping, check};
use crate::platform::Platform;

/// The greedy heuristic of Brady et al. (2010).
///
/// ```
/// # use gridspan_topology::Link;
/// # use gridspan_workflow::{ClientSpec, GraphBuilder, Platform, ServerId, ServerSpec, Site};
/// # let site = Site::new("delft", Link::lan(), Link::wan());
/// # let servers = [("fast", 2.0), ("slow", 1.0)].map(|(name, speed)| {
/// #     ServerSpec::new(name, 0, speed)
/// # });
/// # let client = ClientSpec::at_site(0, Link::lan());
/// # let platform = Platform::new(servers.to_vec(), vec![site], client);
/// # let mut calls = GraphBuilder::default();
/// # let (make, take) = (calls.task("make", 1.0), calls.task("take", 2.0));
/// # let part = calls.write(make, "part", 8_000_000);
/// # calls.read(take, part);
/// # let graph = calls.build().unwrap();
/// use gridspan_workflow::heuristics::{MinCompletionTime, Heuristic};
///
/// let mapping = MinCompletionTime.map(&graph, &platform)?;
/// assert_eq!(mapping.servers, [ServerId(0); 2]); // both calls go to the fast server
/// # Ok::<(), gridspan_workflow::MapError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct MinCompletionTime;

impl Heuristic for MinCompletionTime {
    fn name(&self) -> &'static str {
        "greedy"
    }

    fn map(&self, graph: &TaskGraph, platform: &Platform) -> Result<Mapping, MapError> {
        check(graph, platform)?;
        let mut arrivals = Arrivals::new(graph, platform);
        let mut cores = Cores::new(platform);
        let mut servers = vec![ServerId(0); graph.tasks().len()];
        let mut last_s: f64 = 0.0;
        for &task in graph.order() {
            let called = graph.task(task);
            let offer = |server| {
                let slot = cores.behind(server, arrivals.inputs_s(task, server));
                (slot.start_s + platform.time_s(called.work_s, server), server, slot)
            };
            let offers = platform.server_ids().filter(|&id| called.can_run_on(id)).map(offer);
            let best = offers.min_by(|one, other| one.0.total_cmp(&other.0));
            if let Some((end_s, server, slot)) = best {
                cores.take(server, slot, end_s - slot.start_s);
                arrivals.place(task, server, end_s);
                servers[task.index()] = server;
                last_s = last_s.max(end_s);
            }
        }
        Ok(Mapping::in_order(servers, graph.order(), false, last_s))
    }
}
