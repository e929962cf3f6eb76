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
//! - [`victim`]: which node to steal tasks from.
//! - [`study`]: what all of it is judged with.
//!
//! Everything here is pure: the same snapshot and seed give the same plan, so that a snapshot that
//! was stored can be replayed without a runtime.

mod actor;
mod auto;
mod balancer;
mod border;
mod capacity;
mod cost;
pub mod cutter;
mod dice;
mod figures;
mod gate;
mod greedy;
mod grid_cut;
mod groups;
mod handler_exchange;
pub mod leaders;
mod load_evening;
mod local_search;
mod none;
mod objects;
mod pace;
mod pe_lag;
mod plan;
mod random;
mod refine;
mod registry;
mod replicas;
mod replicate;
mod report;
mod rotate;
mod rounds;
mod site_distance;
mod snapshot;
mod speeds;
mod step_times;
mod strategy;
pub mod study;
mod tighten;
mod vacate;
pub mod victim;
mod vt;

pub use auto::Auto;
pub use balancer::{BalanceReport, Balancer, Cause, Occasion, Window};
pub use border::Border;
pub use cost::{Bound, CostModel, Prediction, Traffic, predict};
pub use figures::Figures;
pub use gate::{Appraisal, Gate, GateConfig, Outcome, Proposal, Refusal, Verdict};
pub use greedy::Greedy;
pub use grid_cut::GridCut;
pub use leaders::LeaderCut;
pub use none::NoMoves;
pub use plan::{Move, Plan, PlanError};
pub use random::Random;
pub use refine::Refine;
pub use registry::{NAMES, UnknownStrategy, by_name};
pub use replicas::{predict_with, with_replicas};
pub use replicate::Replicate;
pub use report::{Explanation, PlanReport, Reason};
pub use rotate::Rotate;
pub use rounds::rounds;
pub use site_distance::border_hops;
pub use snapshot::{
    ActorKey, ActorLoad, Edge, HandlingTime, PeLoad, Replica, SiteLink, Snapshot, SnapshotError,
};
pub use speeds::{Evidence, SpeedEstimate};
pub use strategy::Strategy;
pub use vacate::Vacate;
pub use vt::{VtError, VtFile, from_vt, to_vt};

#[cfg(test)]
mod fixture;
