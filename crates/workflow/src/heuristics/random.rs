//! Random servers from a seeded generator, for comparison.

use super::Heuristic;
use crate::graph::TaskGraph;
use crate::id::ServerId;
use crate::mapping::{MapError, Mapping, check};
use crate::platform::Platform;
use gridspan_topology::dice::Dice;

/// A mapping of each task to a server drawn uniformly among those that can execute it.
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
/// use gridspan_workflow::heuristics::{Heuristic, RandomMapping};
///
/// let mapping = RandomMapping::new(7).map(&graph, &platform)?;
/// assert_eq!(mapping, RandomMapping::new(7).map(&graph, &platform)?);
/// # assert!(mapping.servers.iter().all(|server| *server <= ServerId(1)));
/// # Ok::<(), gridspan_workflow::MapError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RandomMapping {
    seed: u64,
}

impl RandomMapping {
    /// Creates the heuristic with a seed.
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }
}

impl Heuristic for RandomMapping {
    fn name(&self) -> &'static str {
        "random"
    }

    fn map(&self, graph: &TaskGraph, platform: &Platform) -> Result<Mapping, MapError> {
        check(graph, platform)?;
        let mut dice = Dice::new(self.seed);
        let draw = |task: &crate::graph::TaskSpec| {
            let able: Vec<ServerId> =
                platform.server_ids().filter(|&server| task.can_run_on(server)).collect();
            dice.one_of(&able)
        };
        let servers = graph.tasks().iter().map(draw).collect();
        Ok(Mapping::in_order(servers, graph.order(), false, 0.0))
    }
}
