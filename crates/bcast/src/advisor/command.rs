//! What the advisor wants done.

use super::feedback::ProbeRequest;
use crate::model::{BroadcastPlan, PlanId};

/// What the caller is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum AdvisorCommand {
    /// Hand this plan to all nodes; broadcasts from its root of about this size will name it.
    Publish {
        /// The plan.
        plan: BroadcastPlan,
        /// The largest message it is for.
        bytes: u64,
    },
    /// Broadcasts from its root of about this size take a plan that was published before, or the
    /// one that was introduced.
    Take {
        /// The plan.
        plan: PlanId,
        /// The largest message it is for.
        bytes: u64,
    },
    /// Use this plan no more, if it was published: nothing is learned from what it carries.
    Retire(PlanId),
    /// Measure this, and tell [`Advisor::probed`](super::Advisor::probed) or
    /// [`Advisor::probed_together`](super::Advisor::probed_together).
    Probe(ProbeRequest),
}
