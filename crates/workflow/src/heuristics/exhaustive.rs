//! Tries all mappings of a small group, and takes the best one in a simulated execution.

use super::Heuristic;
use super::rank::by_upward_rank;
use crate::graph::TaskGraph;
use crate::id::{ServerId, TaskId};
use crate::mapping::{MapError, Mapping, check};
use crate::platform::Platform;
use crate::simulate::{Perturbations, execute};
use crate::stragglers::StragglerPolicy;

/// The optimal mapping for tasks executed in the order of their ranks.
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
/// use gridspan_workflow::heuristics::{Exhaustive, Heuristic};
///
/// let mapping = Exhaustive.map(&graph, &platform)?;
/// assert_eq!(mapping.servers, [ServerId(0); 2]); // both calls go to the fast server
/// # Ok::<(), gridspan_workflow::MapError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Exhaustive;

/// Maximum number of mappings. The simulation of that many takes a few seconds.
const MAPPINGS_MAX: usize = 100_000;

impl Heuristic for Exhaustive {
    fn name(&self) -> &'static str {
        "exhaustive"
    }

    fn map(&self, graph: &TaskGraph, platform: &Platform) -> Result<Mapping, MapError> {
        check(graph, platform)?;
        let able = |task: &crate::graph::TaskSpec| -> Vec<ServerId> {
            platform.server_ids().filter(|&server| task.can_run_on(server)).collect()
        };
        let choices: Vec<Vec<ServerId>> = graph.tasks().iter().map(able).collect();
        let count = choices.iter().try_fold(1_usize, |all, able| all.checked_mul(able.len()));
        if count.is_none_or(|count| count > MAPPINGS_MAX) {
            return Err(MapError::TooMany { limit: MAPPINGS_MAX });
        }
        let order = by_upward_rank(graph, platform);
        let mut digits = vec![0; choices.len()];
        let mut best = judged(graph, platform, &choices, &digits, &order);
        while advance(&mut digits, &choices) {
            let other = judged(graph, platform, &choices, &digits, &order);
            if other.predicted_s < best.predicted_s {
                best = other;
            }
        }
        Ok(best)
    }
}

fn judged(
    graph: &TaskGraph,
    platform: &Platform,
    choices: &[Vec<ServerId>],
    digits: &[usize],
    order: &[TaskId],
) -> Mapping {
    let servers = choices.iter().zip(digits).map(|(able, &digit)| able[digit]).collect();
    let mut mapping = Mapping::in_order(servers, order, true, 0.0);
    let expected = Perturbations::default();
    mapping.predicted_s =
        execute(graph, platform, &mapping, &expected, StragglerPolicy::None).makespan_s;
    mapping
}

/// Advances to the next combination; returns false after the last.
fn advance(digits: &mut [usize], choices: &[Vec<ServerId>]) -> bool {
    for (digit, able) in digits.iter_mut().zip(choices) {
        *digit += 1;
        if *digit < able.len() {
            return true;
        }
        *digit = 0;
    }
    false
}
