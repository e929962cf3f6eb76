//! What a PE measures for balancing, apart from what its members know themselves.

use super::leading::Leading;
use super::talk::Talks;
use super::timesheet::Timesheet;
use crate::wire::Talk;

/// Since the last time it was taken.
#[derive(Default)]
pub(crate) struct Measures {
    pub(crate) talks: Talks,
    /// What members that have left since had sent.
    pub(crate) left: Vec<Talk>,
    pub(crate) time: Timesheet,
    /// What this PE keeps as the leader of its site.
    pub(crate) leading: Leading,
}
