//! Decides on which PE each actor should live.
//!
//! - [`Snapshot`]: the work of each actor and the messages between actors, in one measured window.
//! - [`Plan`]: moves of actors to other PEs.
//! - [`Strategy`]: makes a plan from a snapshot. A job takes a [`MakeStrategy`]: any strategy
//!   that can be cloned, or a [`StrategyName`]. [`by_name`] finds one outside of a job.
//! - [`NoMoves`], [`Rotate`], [`Random`]: trivial strategies, for tests and as baselines.
//! - [`Greedy`], [`Refine`]: strategies that consider loads only. [`GridCut`]: the graph cut of
//!   Koenig and Kalé (2007), "Optimizing Distributed Application Performance Using Dynamic Grid
//!   Topology-Aware Load Balancing", sites first. [`Border`]: the advice of the same paper for
//!   meshes. [`Vacate`]: the method of Iskra, Hendrikse, van Albada, Overeinder and Sloot (2000),
//!   "Performance Measurements on Dynamite/DPVM", against other users' work. [`Auto`]: the best of
//!   these, or no moves.
//! - [`Replicate`]: `GridCut` with replicas of deterministic actors between the sites;
//!   [`with_replicas`] and [`predict_with`] compute the effect of replicas.
//! - [`LeaderCut`], [`leaders`]: `GridCut` where each site cuts its part.
//! - [`cutter`]: the multilevel partitioner below `grid-cut`.
//! - [`predict`]: the time of a step. [`Gate`]: decides whether a plan is worth carrying out, and
//!   judges whether it was.
//! - [`Balancer`]: a strategy behind its gate, for the runtime; [`rounds`] gives the number of
//!   steps in a window.
//! - [`SpeedEstimate`]: speeds of PEs, from kernels and from actors that have moved.
//! - [`border_hops`]: distances of actors from other sites, for the scheduler.
//! - [`PlanReport`]: the effect of a plan, and the reason for each move.
//! - [`to_vt`], [`from_vt`]: snapshots as files of DARMA/vt.
//! - [`stealing`]: selects the node from which to steal tasks.
//!
//! All functions are pure: the same snapshot and seed give the same plan, so that a stored snapshot
//! can be replayed without a runtime.

mod balancer;
mod cost;
pub mod cutter;
mod gate;
pub mod leaders;
mod plan;
mod report;
mod snapshot;
pub mod stealing;
mod strategies;

pub use balancer::{BalanceReport, Balancer, Cause, Occasion, Window};
pub use cost::figures::Figures;
pub use cost::replicas::{predict_with, with_replicas};
pub use cost::{Bound, CostModel, Prediction, Traffic, predict};
pub use gate::{Appraisal, Gate, GateConfig, Outcome, Proposal, Refusal, Verdict};
pub use leaders::LeaderCut;
pub use plan::{Move, Plan, PlanError};
pub use report::{Explanation, PlanReport, Reason};
pub use snapshot::rounds::rounds;
pub use snapshot::speeds::{Evidence, SpeedEstimate};
pub use snapshot::vt::{VtError, VtFile, from_vt, to_vt};
pub use snapshot::{
    ActorKey, ActorLoad, Edge, HandlingTime, PeLoad, Replica, SiteLink, Snapshot, SnapshotError,
};
pub use strategies::auto::Auto;
pub use strategies::border::Border;
pub use strategies::greedy::Greedy;
pub use strategies::grid_cut::GridCut;
pub use strategies::none::NoMoves;
pub use strategies::random::Random;
pub use strategies::refine::Refine;
pub use strategies::registry::{NAMES, StrategyName, UnknownStrategy, by_name};
pub use strategies::replicate::Replicate;
pub use strategies::rotate::Rotate;
pub use strategies::site_distance::border_hops;
pub use strategies::strategy::{MakeStrategy, Strategy};
pub use strategies::vacate::Vacate;

/// The fixtures refer to this crate by its name, because `gridspan-studies` contains them too.
#[cfg(test)]
extern crate self as gridspan_balance;
#[cfg(test)]
pub mod fixtures;
