//! Fork-join tasks and tree searches: work that anybody may do, and that idle PEs steal.
//!
//! A task is a *token*: all that is needed to run it anywhere (Zhang et al., Jcluster, IPDPS 2007,
//! section 3). Each PE keeps its tasks in a queue of its own, newest first, and lays its oldest ones
//! out where the other PEs of its node can take them without asking. Nodes that have run dry ask
//! other nodes, by the rules of a [`Victim`](gridspan_balance) policy.
//!
//! - [`Task`] forks and joins: its children's outputs come back to it. [`Search`] visits a tree
//!   whose nodes add to one total.
//! - `frame`: who waits for whom. A frame stays on its PE; a stolen task works for a *loan*, a frame
//!   of the thief whose result goes back to the lender. So there is no counter that all share, and
//!   the end is known when the root's frame is complete.
//! - `engine`: the queue and the frames of a PE. `deques`: what the PEs of a node share.
//! - `steward`: takes tasks from other nodes, and gives them some, in the node's carrier. `lending`: which.
//! - `order`: what workers and stewards are told. `trading`: what workers do for their steward.
//! - `ledger`: what guests owe. `visiting`: what workers do when guests come and go.
//! - `worker`: the actor on every PE that runs tasks between other messages.
//! - `pool`: how main hands in a root and gets its result.

mod deques;
mod engine;
mod fork;
mod frame;
mod leaving;
mod ledger;
mod lending;
mod order;
mod pool;
mod search;
mod statistics;
mod steward;
mod trading;
mod visiting;
mod worker;

pub(crate) use fork::Joining;
pub use fork::{Step, Task, TaskContext};
pub use pool::{SearchPool, TaskPool};
pub(crate) use search::Searching;
pub use search::{Merge, Search, SearchContext};
pub use statistics::StealStatistics;
pub(crate) use worker::Worker;
