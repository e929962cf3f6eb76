//! Our plans for one broadcast: segments that travel on before the message is complete, over trees
//! that cross each shared link as rarely as pays, and over several trees where one cannot fill the
//! network.
//!
//! - `cost.rs`, `search.rs`: trees over clusters, by a cost that takes a microsecond.
//! - `packing.rs`, `arborescence.rs`: several trees over clusters that fill the network together.
//! - `expand.rs`: from clusters to nodes.
//! - `planner.rs`: candidates, and which of them is best by simulation.

mod arborescence;
mod cost;
mod expand;
mod packing;
mod planner;
mod search;

pub use planner::{PlannerConfig, plan_broadcast, plan_static};
