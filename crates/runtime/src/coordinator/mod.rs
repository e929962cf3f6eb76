//! The coordinator: the part of a job that exists exactly once.
//!
//! It counts the members of collections, numbers broadcasts, completes reductions, detects
//! quiescence and stalls, rebalances the job, knows places and links, plans broadcasts, and admits
//! guests. It is a state machine without I/O beside the PEs and the relay of its node: it takes
//! [`CoordinatorEvent`]s and the time, and returns [`CoordinatorCommand`]s. PEs and relays reach it
//! under the address [`COORDINATOR`](crate::COORDINATOR), as they reach each other. It does not
//! wait for any of them, and keeps running while every PE of its node is inside a handler.
//!
//! **Start.** The driver of each node makes a [`CoordinatorHost`]. The host of one node contains
//! the coordinator, which watches for stalls if time is real.
//!
//! **Steady state.** The coordinator handles controls and its own timers. Main sends requests
//! through its PE (`MainRequest`), and the answers return there like answers to an ask. The
//! coordinator's state refers to PEs by their numbers alone.
//!
//! **Failure.** The first error ends the job: the coordinator orders all nodes to stop, and
//! [`Coordinator::outcome`] returns the outcome.
//!
//! - `collections`, `broadcasts`, `sequencer`, `reductions`, `quiescence`, `phases`,
//!   `publications`: collective operations.
//! - `balance`: when to rebalance, and how. `survey`: places; `monitor`: links. `advice`: plans of
//!   broadcasts; `broadcast_reports`: reports of large ones, for listeners. `measurements`: passes
//!   what nodes have measured to `survey`, `monitor` and `advice`.
//! - `machine`: the whole state, in parts that are defined in `state`. `control`: dispatch of the
//!   events that `event` defines. If a part has work for one of its callers, it leaves a
//!   follow-up. `outgoing`: packets to PEs.
//! - `checkpoint`: images of the job; `restoration`: what changes in them for groups of another
//!   size. `membership`: nodes that join and leave. `losses`: whether the job goes on without a
//!   lost founder. `stall`: a job that cannot continue. `diagnosis`: what a job waits for;
//!   `pending_work`: what the coordinator has not finished. `ending`: the end of the job.
//! - `host`: a node's host of the coordinator, which runs it or forwards packets to it. `transfer`:
//!   the coordinator's move to another node.

mod advice;
mod balance;
mod broadcast_reports;
mod broadcasts;
mod checkpoint;
mod collections;
mod control;
mod diagnosis;
mod ending;
mod event;
mod host;
mod losses;
mod machine;
mod measurements;
mod membership;
mod monitor;
mod outgoing;
mod pending_work;
mod phases;
mod publications;
mod quiescence;
mod reductions;
mod restoration;
mod sequencer;
mod stall;
mod state;
mod survey;
mod transfer;

pub use event::{CoordinatorCommand, CoordinatorEvent};
pub use host::CoordinatorHost;
pub use machine::Coordinator;
pub(crate) use restoration::CoordinatorPart;
pub use state::advice::PlanningJob;

#[cfg(test)]
mod tests;
