//! Plans one broadcast: segments travel on before the message is complete, over a tree that crosses
//! each shared link as rarely as pays off, or over several trees where one cannot fill the network.
//!
//! - `cost.rs`, `search.rs`: trees over clusters, by a cost that takes about a microsecond to
//!   compute.
//! - `packing.rs`, `arborescence.rs`: several trees over clusters that fill the network together.
//! - `expand.rs`: trees over nodes from trees over clusters.
//! - `planner.rs`: candidates, and the choice of the best by simulation.

mod arborescence;
mod cost;
mod expand;
mod packing;
mod planner;
mod search;

pub use planner::{PlannerConfig, plan_broadcast, plan_static};
