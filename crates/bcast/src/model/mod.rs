//! What is believed of a network, how a message travels over it, and how long that takes.
//!
//! - [`Network`], [`NetworkEstimate`]: shared capacities, and the measurements that they explain.
//!   [`LinkMatrix`]: what is measured from end to end.
//! - [`Draft`]: trees over numbered nodes and their parts of a message. [`BroadcastPlan`]: the same
//!   as nodes get it; [`SubPlan`]: what of it leads to some of them.
//! - [`simulate`]: what a draft takes where transfers share capacities. [`TreeCostModel`]: what a
//!   tree takes where they do not.
//! - [`bound_s`], [`exact_optimum_s`]: what no broadcast, and what no tree, can beat.

mod bound;
mod cost;
mod draft;
mod exact;
mod fluid;
mod links;
mod network;
mod plan;
mod sub_plan;

pub use bound::bound_s;
pub use cost::{Serialisation, TreeCostModel};
pub use draft::{Draft, DraftStripe};
pub use exact::exact_optimum_s;
pub use fluid::{EdgeTiming, Run, Sending, SimulatedBroadcast, simulate};
pub use links::LinkMatrix;
pub use network::{Network, NetworkEstimate, NodeLink, Place, Sharing};
pub use plan::{BroadcastPlan, BroadcastPlanError, PlanId, Segment, Stripe};
pub use sub_plan::SubPlan;

pub(crate) use cost::{NONE, Scratch};
