//! A plan from its decision to the end of its judgement.

use super::report::BalanceReport;
use crate::plan::Plan;

/// A plan that the runtime received.
pub(super) struct Passed {
    /// The inverse plan; `None` where each leader keeps its part.
    pub(super) undo: Option<Plan>,
    pub(super) report: BalanceReport,
    /// Number of messages per step.
    pub(super) messages: f64,
    /// Seconds of work for each message before the plan; `f64::MAX` for a plan of leaders.
    pub(super) work: f64,
    /// Part of a processor that each PE got before the plan.
    pub(super) available: Vec<f64>,
    pub(super) is_carried_out: bool,
    pub(super) is_gated: bool,
}
