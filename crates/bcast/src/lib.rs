//! How a broadcast travels.
//!
//! **For a broadcast now**
//! - [`Tree`]: who sends to whom.
//! - [`Mode`]: the trees that follow from the layout, which of them a job takes, and whether it
//!   plans.
//! - [`BroadcastPlan`]: one or more trees, their parts of a message and its segments, under a [`PlanId`]
//!   that a broadcast carries in their place. [`SubPlan`]: what of it leads to the nodes of a
//!   multicast.
//!
//! **For the next one**
//! - [`Advisor`]: observes broadcasts, predicts the next with a [`Predictor`], and plans ahead.
//! - [`NetworkEstimate`]: what measurements say; [`Network`]: the shared capacities that explain it.
//! - [`plan_broadcast`]: searches a [`Draft`]; [`strategies`]: it and all others by name;
//!   [`anneal`]: our search by the cost model of paper 2. [`SearchBudget`]: how long they may take.
//! - [`simulate`]: what a draft takes if transfers share capacities fairly; the shares are those of
//!   [`FairShares`](gridspan_topology::FairShares).
//!
//! **To compare**
//! - [`gupta_vadhiyar`]: paper 2's system as it is in the paper.
//! - [`bound_s`], [`exact_optimum_s`]: what no broadcast, and what no tree, can beat.
//!
//! Everything here is a pure function of its arguments: every node computes the same, and time,
//! dice and measurements come from the caller.

mod advisor;
mod anneal;
pub mod gupta_vadhiyar;
mod model;
mod pipeline;
mod search_budget;
pub mod strategies;
mod trees;

pub use advisor::{
    Advisor, AdvisorCommand, AdvisorConfig, Broadcast, Forecast, Predictor, ProbeRequest,
};
pub use anneal::{Annealed, anneal, start_tree};
pub use model::{
    BroadcastPlan, BroadcastPlanError, Draft, DraftStripe, EdgeTiming, LinkMatrix, Network,
    NetworkEstimate, NodeLink, Place, PlanId, Run, Segment, Sending, Serialisation, Sharing,
    SimulatedBroadcast, Stripe, SubPlan, TreeCostModel, bound_s, exact_optimum_s, simulate,
};
pub use pipeline::{PlannerConfig, plan_broadcast, plan_static};
pub use search_budget::SearchBudget;
pub use trees::{MODES, Mode, Tree, TreeError, UnknownMode};

/// The fixtures name the crate as `gridspan-studies` does, which has them, too.
#[cfg(test)]
extern crate self as gridspan_bcast;
#[cfg(test)]
pub mod fixtures;
