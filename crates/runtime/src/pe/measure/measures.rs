//! Measurements of a PE for balancing, besides those of its members.

use crate::message::Edge;
use crate::pe::collective::leading::Leading;
use crate::pe::measure::edges::Edges;
use crate::pe::measure::timesheet::Timesheet;
use gridspan_topology::Time;

/// Measurements since they were last taken.
#[derive(Default)]
pub(crate) struct Measures {
    pub(crate) edges: Edges,
    /// Edges of members that have left since.
    pub(crate) left: Vec<Edge>,
    pub(crate) time: Timesheet,
    /// Time of the last try to report a changed share, if no actor could move then.
    pub(crate) unreported: Option<Time>,
    /// The state of this PE as the leader of its site.
    pub(crate) leading: Leading,
}
