//! What a PE measures for balancing, apart from what its members know themselves.

use crate::message::Edge;
use crate::pe::collective::leading::Leading;
use crate::pe::measure::edges::Edges;
use crate::pe::measure::timesheet::Timesheet;

/// Since the last time it was taken.
#[derive(Default)]
pub(crate) struct Measures {
    pub(crate) edges: Edges,
    /// What members that have left since had sent.
    pub(crate) left: Vec<Edge>,
    pub(crate) time: Timesheet,
    /// What this PE keeps as the leader of its site.
    pub(crate) leading: Leading,
}
