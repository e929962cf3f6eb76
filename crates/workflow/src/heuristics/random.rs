//! Random servers from a seeded generator, for comparison.

use super::Heuristic;
use crate::graph::TaskGraph;
use crate::id::ServerId;
use crate::mapping::{MapError, Mapping, check};
use crate::platform::Platform;
use gridspan_topology::dice::Dice;

/// A mapping of each task to a server drawn uniformly among those that can execute it.
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
