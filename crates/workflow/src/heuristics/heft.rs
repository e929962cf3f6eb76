//! Heterogeneous earliest finish time: tasks by upward rank, each into the slot in which it ends
//! first (Topcuoglu, Hariri and Wu, "Performance-effective and low-complexity task scheduling for
//! heterogeneous computing", 2002).

use super::Heuristic;
use super::arrivals::Arrivals;
use super::cores::Cores;
use super::rank::by_upward_rank;
use crate::graph::TaskGraph;
use crate::id::ServerId;
use crate::mapping::{MapError, Mapping, check};
use crate::platform::Platform;

/// HEFT as published: transfers do not affect each other.
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
/// use gridspan_workflow::heuristics::{Heft, Heuristic};
///
/// let mapping = Heft.map(&graph, &platform)?;
/// assert_eq!(mapping.servers, [ServerId(0); 2]); // both calls go to the fast server
/// # Ok::<(), gridspan_workflow::MapError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Heft;

impl Heuristic for Heft {
    fn name(&self) -> &'static str {
        "heft"
    }

    fn map(&self, graph: &TaskGraph, platform: &Platform) -> Result<Mapping, MapError> {
        check(graph, platform)?;
        let mut arrivals = Arrivals::new(graph, platform);
        let mut cores = Cores::new(platform);
        let mut servers = vec![ServerId(0); graph.tasks().len()];
        let mut last_s: f64 = 0.0;
        let mut order = by_upward_rank(graph, platform);
        let mut starts_s = vec![0.0; graph.tasks().len()];
        for &task in &order {
            let called = graph.task(task);
            let offer = |server| {
                let time_s = platform.time_s(called.work_s, server);
                let slot = cores.earliest(server, arrivals.inputs_s(task, server), time_s);
                (slot.start_s + time_s, server, slot)
            };
            let offers = platform.server_ids().filter(|&id| called.can_run_on(id)).map(offer);
            let best = offers.min_by(|one, other| one.0.total_cmp(&other.0));
            if let Some((end_s, server, slot)) = best {
                cores.take(server, slot, end_s - slot.start_s);
                arrivals.place(task, server, end_s);
                servers[task.index()] = server;
                starts_s[task.index()] = slot.start_s;
                last_s = last_s.max(end_s);
            }
        }
        // A task in a gap goes before tasks that were placed earlier but start later.
        order.sort_by(|one, other| starts_s[one.index()].total_cmp(&starts_s[other.index()]));
        Ok(Mapping::in_order(servers, &order, false, last_s))
    }
}
