//! Paper 3's experiment with stealing (section 5.1), with the machines that run in jobs.
//!
//! - [`LoadSpread`]: where tasks appear.
//! - [`StealingExperiment`]: the nodes, the network and the tasks.
//! - [`Tally`]: what was counted. `engine.rs`: the nodes and links, event by event.

mod engine;
mod spread;
#[cfg(test)]
mod tests;

pub use spread::LoadSpread;

use gridspan_balance::stealing::{StealingLayout, UnknownStealingPolicy};
use gridspan_topology::{GridSpec, Hierarchy, NodeId, Time};
use std::time::Duration;

/// Batches of tasks of equal length on nodes of one worker each; the next batch appears when all of
/// the one before is done.
#[derive(Clone, Debug)]
pub struct StealingExperiment {
    /// How many nodes, in sites of equal size.
    pub nodes: u32,
    /// How many sites (at least one); nodes are numbered site by site.
    pub sites: u32,
    /// One way between sites.
    pub wide_area: Duration,
    /// Where tasks appear.
    pub spread: LoadSpread,
    /// How many tasks a batch has for each node.
    pub tasks_per_node: u64,
    /// How many batches.
    pub batches: usize,
    /// What a task takes.
    pub task: Duration,
    /// The dice of load and of policies.
    pub seed: u64,
    /// Nodes that are lost, and when. Their tasks appear again on another node.
    pub losses: Vec<(Time, NodeId)>,
    /// How long the job goes on idling when all is done, to see who talks then.
    pub idling: Duration,
}

impl StealingExperiment {
    /// One way inside a site.
    pub const LOCAL: Duration = Duration::from_micros(50);
    /// What it takes a node to handle a message; others wait in line.
    pub const HANDLER: Duration = Duration::from_micros(2);

    /// The paper's: 5 tasks per node 10 times, of 10 ms each, on one site.
    pub fn new(nodes: u32, spread: LoadSpread) -> Self {
        Self {
            nodes,
            sites: 1,
            wide_area: Duration::ZERO,
            spread,
            tasks_per_node: 5,
            batches: 10,
            task: Duration::from_millis(10),
            seed: 1,
            losses: Vec::new(),
            idling: Duration::ZERO,
        }
    }

    /// The same on several sites.
    #[must_use]
    pub fn on_sites(self, sites: u32, wide_area: Duration) -> Self {
        Self { sites: sites.max(1), wide_area, ..self }
    }

    /// The places that machines are given.
    pub fn places(&self) -> StealingLayout {
        let each = self.nodes / self.sites;
        let micros = self.wide_area.as_micros();
        let local = Self::LOCAL.as_micros();
        let grid =
            GridSpec::from_emulate(&format!("{}x{each},wan={micros}us,lan={local}us", self.sites));
        let grid = grid.expect("experiments are grids of some thousand nodes");
        StealingLayout::new(&Hierarchy::from_grid(&grid))
    }

    /// Runs it with the policy of this name.
    pub fn run(&self, policy: &str) -> Result<Tally, UnknownStealingPolicy> {
        engine::run(self, policy)
    }
}

/// What was counted in one experiment. A grant is a message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Requests of idle nodes, while there were tasks that nobody ran.
    pub attempts: u64,
    /// All requests of idle nodes.
    pub attempts_all: u64,
    /// Messages, while there were tasks that nobody ran.
    pub messages: u64,
    /// All messages.
    pub messages_all: u64,
    /// Messages between sites, while there were tasks that nobody ran.
    pub wide_area: u64,
    /// All messages between sites.
    pub wide_area_all: u64,
    /// Messages in the second half of the idling at the end.
    pub messages_idling: u64,
    /// How many tasks were done.
    pub done: u64,
    /// How long the batches took.
    pub makespan: Duration,
    /// The time if all nodes had worked all of the time, divided by the makespan.
    pub efficiency: f64,
}
