//! The commands of the advisor.

use super::feedback::ProbeRequest;
use crate::model::{BroadcastPlan, PlanId};

/// A command for the caller.
#[derive(Clone, Debug, PartialEq)]
pub enum AdvisorCommand {
    /// Send this plan to all nodes; broadcasts of about this size from its root will name it.
    Publish {
        /// The plan.
        plan: BroadcastPlan,
        /// The message size for which the plan was made.
        bytes: u64,
    },
    /// Use this plan for broadcasts of about this size from its root. It was published before, or
    /// is the default plan.
    Take {
        /// The plan.
        plan: PlanId,
        /// The message size for which the plan was made.
        bytes: u64,
    },
    /// Stop using this plan, if it was published: the advisor learns nothing more from its
    /// messages.
    Retire(PlanId),
    /// Measure this, and pass the result to [`Advisor::probed`](super::Advisor::probed) or
    /// [`Advisor::probed_together`](super::Advisor::probed_together).
    Probe(ProbeRequest),
}
