//! Over which tree a broadcast travels.
//!
//! - [`Tree`]: who sends to whom, over all nodes of a job or some of them.
//! - [`star`], [`binomial`], [`hierarchical`]: the trees that need to know nothing but the layout,
//!   and [`star_over`], [`binomial_over`], [`hierarchical_over`] for the nodes of a multicast.
//!
//! Everything here is a pure function: every node computes the same tree from the same arguments,
//! so that a message needs to carry no more than the root and the name of the tree.

mod advisor;
mod anneal;
mod dice;
mod effort;
mod fluid;
mod network;
pub mod paper;
mod pipeline;
mod plan;
mod shape;
pub mod study;
mod tree;

pub use advisor::{Advisor, AdvisorConfig, Broadcast, Command, Forecast, Predictor, Wish};
pub use anneal::{Annealed, anneal, start_tree};
pub use effort::Effort;
pub use fluid::{EdgeTiming, Outcome, Run, Sending, simulate};
pub use network::{Belief, Network, NodeLink, Place, Sharing};
pub use pipeline::{Draft, PlannerConfig, Strand, plan_broadcast, plan_static};

pub use plan::{Plan, PlanError, PlanId, Segment, Stripe};
pub use shape::{binomial, binomial_over, hierarchical, hierarchical_over, star, star_over};
pub use tree::{Tree, TreeError};
