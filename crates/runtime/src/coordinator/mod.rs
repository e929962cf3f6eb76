//! The coordinator: what a job needs exactly one of.
//!
//! It keeps count of the members of collections, numbers broadcasts, completes reductions, finds
//! quiescence and stalls, has the job rebalanced, knows places and links, plans broadcasts, and
//! admits guests. It is a pure machine beside the PEs and the relay of its node:
//! [`CoordinatorEvent`]s in, [`CoordinatorCommand`]s out, time passed in. PEs and relays reach it
//! under the address [`COORDINATOR`](crate::COORDINATOR), as they reach each other, and it does not
//! wait for any of them: it goes on while every PE of its node is inside a handler.
//!
//! **Start.** The driver of each node makes a [`CoordinatorHost`]. That of one node has it, and,
//! where time is real, it watches for stalls.
//!
//! **Steady state.** It answers controls and its own timers. Main asks through its PE
//! (`MainRequest`), and the answer goes back there as that to any question. Nothing that it keeps
//! refers to a PE by anything but its number.
//!
//! **Failure.** The first error ends the job: all nodes are told to stop, and
//! [`Coordinator::outcome`] says how it ended.
//!
//! - `collections`, `broadcasts`, `sequencer`, `reductions`, `quiescence`, `publications`:
//!   collective operations.
//! - `balance`: when to rebalance, and how. `survey`: places; `monitor`: links. `advice`: how
//!   broadcasts travel.
//! - `machine`: all that it keeps, in parts that stand in `state`. `control`: what it does about
//!   each event. A part that has something for one above it leaves it as a follow-up.
//! - `membership`: nodes that join and leave. `stall`: a job that cannot go on.
//! - `host`: the coordinator as each node has it: it runs there, or packets for it go on to where
//!   it does. `transfer`: how it moves.

mod advice;
mod balance;
mod broadcasts;
mod collections;
mod control;
mod ending;
mod event;
mod host;
mod machine;
mod measurements;
mod membership;
mod monitor;
mod outgoing;
mod pending_work;
mod publications;
mod quiescence;
mod reductions;
mod sequencer;
mod stall;
mod state;
mod survey;
mod transfer;

pub use event::{CoordinatorCommand, CoordinatorEvent};
pub use host::CoordinatorHost;
pub use machine::Coordinator;
pub use state::advice::PlanningJob;

#[cfg(test)]
mod tests;
