//! Which actor should live where.
//!
//! - [`Snapshot`]: who worked how much and who talked to whom, in one measured window.
//! - [`Plan`]: which actors are to move where.
//! - [`Strategy`]: makes a plan from a snapshot; [`by_name`] finds one.
//! - [`NoMoves`], [`Rotate`], [`Random`]: the strategies that need no thought, for tests and as
//!   baselines.
//! - [`Greedy`], [`Refine`]: loads only. [`GridCut`]: paper 1's graph cut, sites first. [`Border`]:
//!   its advice for meshes. [`Vacate`]: paper 4's way around other users' work. [`Auto`]: the best
//!   of them or nothing.
//! - [`Replicate`]: `GridCut`, and deterministic actors between the sites at both of them; [`with_replicas`] and
//!   [`predict_with`] tell what that does.
//! - [`LeaderCut`], [`leaders`]: the same where each site cuts its own part.
//! - [`cutter`]: the multilevel partitioner below `grid-cut`.
//! - [`predict`]: what a step would take. [`Gate`]: whether a plan is worth it, and was.
//! - [`Balancer`]: a strategy behind its gate, as the runtime asks it; [`rounds`] tells how many
//!   steps a window had.
//! - [`SpeedEstimate`]: how fast PEs compute, from kernels and from actors that have moved.
//! - [`border_hops`]: how near actors are to another site, for the scheduler.
//! - [`PlanReport`]: what a plan does, and why each actor moves.
//! - [`to_vt`], [`from_vt`]: snapshots as files of DARMA/vt.
//! - [`stealing`]: which node to steal tasks from.
//!
//! Everything here is pure: the same snapshot and seed give the same plan, so that a snapshot that
//! was stored can be replayed without a runtime.

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
pub use strategies::registry::{NAMES, UnknownStrategy, by_name};
pub use strategies::replicate::Replicate;
pub use strategies::rotate::Rotate;
pub use strategies::site_distance::border_hops;
pub use strategies::strategy::Strategy;
pub use strategies::vacate::Vacate;

/// The fixtures name the crate as `gridspan-studies` does, which has them, too.
#[cfg(test)]
extern crate self as gridspan_balance;
#[cfg(test)]
pub mod fixtures;
