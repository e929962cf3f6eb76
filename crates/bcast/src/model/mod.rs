//! Models of a network, of the way a message travels over it, and of the time that takes.
//!
//! - [`Network`], [`NetworkEstimate`]: shared capacities, and the measurements that they explain.
//!   [`LinkMatrix`]: end-to-end measurements.
//! - [`Draft`]: trees over numbered nodes and their parts of a message. [`BroadcastPlan`]: a draft
//!   over named nodes, as it is sent to them; [`SubPlan`]: the part of a plan that leads to some
//!   nodes.
//! - [`simulate`]: the time of a draft where transfers share capacities. [`TreeCostModel`]: the
//!   time of a tree where they do not.
//! - [`bound_s`]: a time that no broadcast can beat. [`exact_optimum_s`]: the time of the best
//!   tree.

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
