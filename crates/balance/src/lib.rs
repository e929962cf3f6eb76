//! Which actor should live where.
//!
//! - [`Snapshot`]: who worked how much and who talked to whom, in one measured window.
//! - [`Plan`]: which actors are to move where.
//! - [`Strategy`]: makes a plan from a snapshot; [`by_name`] finds one.
//! - [`NoMoves`], [`Rotate`], [`Random`]: the strategies that need no thought, for tests and as
//!   baselines.
//!
//! Everything here is pure: the same snapshot and seed give the same plan, so that a snapshot that
//! was stored can be replayed without a runtime.

pub mod cutter;
mod none;
mod plan;
mod random;
mod registry;
mod rotate;
mod snapshot;
mod strategy;
pub mod study;

pub use none::NoMoves;
pub use plan::{Move, Plan, PlanError};
pub use random::Random;
pub use registry::{NAMES, UnknownStrategy, by_name};
pub use rotate::Rotate;
pub use snapshot::{ActorKey, ActorLoad, Edge, PeLoad, Snapshot, SnapshotError};
pub use strategy::Strategy;

#[cfg(test)]
mod fixture;
