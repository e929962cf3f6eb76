//! The stealing experiment of Zhang et al. (2007), "Dynamic Load-Balancing and High Performance
//! Communication in Jcluster", section 5.1, with the state machines that run in jobs.
//!
//! - [`LoadSpread`]: the nodes on which tasks appear.
//! - [`StealingExperiment`]: the nodes, the network and the tasks.
//! - [`four_sites`]: figures of the directory policy.
//! - [`Tally`]: the counters.
//!
//! `engine.rs` simulates the nodes and links, event by event.

mod engine;
mod four_sites;
mod spread;
#[cfg(test)]
mod tests;

pub use four_sites::four_sites;
pub use spread::LoadSpread;

use gridspan_balance::stealing::{StealingLayout, UnknownStealingPolicy};
use gridspan_topology::{GridSpec, Hierarchy, NodeId, Time};
use std::time::Duration;

/// Batches of tasks of equal length on nodes of one worker each. A batch appears when the previous
/// one is done.
#[derive(Clone, Debug)]
pub struct StealingExperiment {
    /// Number of nodes, in sites of equal size.
    pub nodes: u32,
    /// Number of sites (at least one); nodes are numbered site by site.
    pub sites: u32,
    /// Latency between sites, one way.
    pub wide_area: Duration,
    /// The nodes on which tasks appear.
    pub spread: LoadSpread,
    /// Number of tasks of a batch for each node.
    pub tasks_per_node: u64,
    /// Number of batches.
    pub batches: usize,
    /// Run time of a task.
    pub task: Duration,
    /// Seed of the load and of the policies.
    pub seed: u64,
    /// Nodes that are lost, and when. Their tasks appear again on another node.
    pub losses: Vec<(Time, NodeId)>,
    /// Time for which the job idles after all tasks are done, to count messages during that time.
    pub idling: Duration,
}

impl StealingExperiment {
    /// Latency inside a site, one way.
    pub const LOCAL: Duration = Duration::from_micros(50);
    /// Time to handle a message, during which other messages are queued.
    pub const HANDLER: Duration = Duration::from_micros(2);

    /// Creates the experiment of the paper: 10 batches of 5 tasks per node, of 10 ms each, on one
    /// site.
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

    /// Returns the experiment on several sites.
    #[must_use]
    pub fn on_sites(self, sites: u32, wide_area: Duration) -> Self {
        Self { sites: sites.max(1), wide_area, ..self }
    }

    /// Returns the layout for the state machines.
    pub fn places(&self) -> StealingLayout {
        let each = self.nodes / self.sites;
        let micros = self.wide_area.as_micros();
        let local = Self::LOCAL.as_micros();
        let grid =
            GridSpec::from_emulate(&format!("{}x{each},wan={micros}us,lan={local}us", self.sites));
        let grid = grid.expect("experiments are grids of some thousand nodes");
        StealingLayout::new(&Hierarchy::from_grid(&grid))
    }

    /// Runs the experiment with the policy of this name.
    pub fn run(&self, policy: &str) -> Result<Tally, UnknownStealingPolicy> {
        engine::run(self, policy)
    }
}

/// The counters of one experiment. A grant counts as a message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Requests of idle nodes while some task was not started.
    pub attempts: u64,
    /// All requests of idle nodes.
    pub attempts_all: u64,
    /// Messages while some task was not started.
    pub messages: u64,
    /// All messages.
    pub messages_all: u64,
    /// Messages between sites while some task was not started.
    pub wide_area: u64,
    /// All messages between sites.
    pub wide_area_all: u64,
    /// Messages in the second half of the idling at the end.
    pub messages_idling: u64,
    /// Number of tasks done.
    pub done: u64,
    /// Time of all batches.
    pub makespan: Duration,
    /// The makespan if all nodes had worked all of the time, divided by the actual makespan.
    pub efficiency: f64,
}
