//! The report of a lost node that the job tolerates.

use gridspan_topology::NodeId;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// A node that was lost while the job had nothing but pools of tasks. The job goes on without it,
/// and the other nodes run its tasks again.
///
/// ```
/// use gridspan::{Job, ToleratedLoss};
///
/// let tell = |loss: &ToleratedLoss| println!("{loss}");
/// let job = Job::new("search").recover_tasks_locally(true).on_tolerated_loss(tell);
/// # gridspan::embed::Runner::on_threads(1).run(job).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToleratedLoss {
    /// The node.
    pub node: NodeId,
    /// The name of its site.
    pub site: String,
    /// What was observed.
    pub reason: String,
    /// Number of nodes of the job that are left.
    pub left: u32,
}

impl fmt::Display for ToleratedLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, site, reason, left } = self;
        let nodes = if *left == 1 { "node is" } else { "nodes are" };
        write!(f, "lost {node} at site {site}: {reason}; {left} {nodes} left, and repeat its tasks")
    }
}

/// Whether at least half of the nodes of a run are left after the loss of some. If a job falls into
/// parts that do not reach each other, a part with fewer nodes must not go on. The launcher applies
/// this rule, and so does the coordinator of a job whose other nodes repeat lost tasks.
///
/// ```
/// use gridspan_runtime::has_half_left;
///
/// assert!(has_half_left(4, 2) && !has_half_left(4, 3) && !has_half_left(5, 3));
/// ```
pub fn has_half_left(nodes: usize, lost: usize) -> bool {
    lost.saturating_mul(2) <= nodes
}

/// Called with each loss that the job tolerates.
pub(crate) type OnToleratedLoss = Arc<dyn Fn(&ToleratedLoss) + Send + Sync>;
