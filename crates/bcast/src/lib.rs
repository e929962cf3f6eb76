//! Broadcast trees, plans, and the search for them.
//!
//! **For a broadcast now**
//! - [`Tree`]: a broadcast tree over nodes.
//! - [`Mode`]: how a job broadcasts: over plans, or over one of the trees that follow from the
//!   layout.
//! - [`BroadcastPlan`]: one or more trees, their parts of a message and its segments, under a
//!   [`PlanId`] that a broadcast carries in their place. [`SubPlan`]: the part of a plan that leads
//!   to the nodes of a multicast.
//!
//! **For the next broadcast**
//! - [`Advisor`]: observes broadcasts, predicts the next with a [`Predictor`], and plans ahead.
//! - [`NetworkEstimate`]: measurements; [`Network`]: the shared capacities that explain them.
//! - [`plan_broadcast`]: searches for a [`Draft`]; [`strategies`]: all searches by name;
//!   [`anneal`]: a search by the cost model of Gupta and Vadhiyar (2006). [`SearchBudget`]: the
//!   time that searches may take.
//! - [`simulate`]: the time that a draft takes if transfers share capacities fairly, as
//!   [`FairShares`](gridspan_topology::FairShares) computes.
//!
//! **To compare**
//! - [`gupta_vadhiyar`]: the system of Gupta and Vadhiyar (2006), as described in the paper.
//! - [`bound_s`]: a time that no broadcast can beat. [`exact_optimum_s`]: the time of the best
//!   tree.
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

/// The fixtures use the name `gridspan_bcast`, since `gridspan-studies` includes them too.
#[cfg(test)]
extern crate self as gridspan_bcast;
#[cfg(test)]
pub mod fixtures;
