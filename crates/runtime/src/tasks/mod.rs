//! Fork-join tasks and tree searches: work that anybody may do, and that idle PEs steal.
//!
//! A task is a *token*: all that is needed to run it anywhere (Zhang et al., Jcluster, IPDPS 2007,
//! section 3). Each PE keeps its tasks in a queue of its own, newest first, and lays its oldest
//! ones out where the other PEs of its node can take them without asking. Nodes that have run dry
//! ask other nodes, by the rules of a [`StealingPolicy`](gridspan_balance) policy.
//!
//! - [`Task`] forks and joins: its children's outputs come back to it. [`Search`] visits a tree
//!   whose nodes add to one total.
//! - `frame`: who waits for whom. A frame stays on its PE; a stolen task works for a *loan*, a
//!   frame of the thief whose result goes back to the lender. So there is no counter that all
//!   share, and the end is known when the root's frame is complete.
//! - `engine`: the queue and the frames of a PE. `deques`: what the PEs of a node share.
//! - `agent`: takes tasks from other nodes, and gives them some, in the node's relay.
//!   `lending`: which.
//! - `message`: what workers and agents are told. `trading`: what workers do for their agent.
//! - `ledger`: what guests owe. `backups`: copies of what other sites were lent. `lineage`: which
//!   guests and copies a task has come through. `membership`: what workers do when guests come and
//!   go.
//! - `worker`: the actor on every PE that runs tasks between other messages.
//! - `pool`: how main hands in a root and gets its result. `stream`: the same of many, as results
//!   come. `roots` and `serving`: the worker's part in both, and in what tasks of other pools hand
//!   in.
//! - `bound`: the value that tasks of a pool improve together. `bound_spread`: which nodes hear of
//!   it.

mod agent;
mod backups;
mod bound;
mod bound_spread;
mod deques;
mod draining;
mod engine;
mod fork;
mod frame;
mod ledger;
mod lending;
mod lineage;
mod membership;
mod message;
mod pool;
mod pool_ref;
mod roots;
mod search;
mod serving;
mod statistics;
mod stream;
mod structure;
mod trading;
mod worker;
mod workers;

pub use bound::Goal;
pub(crate) use fork::Joining;
pub use fork::{Step, Task, TaskContext};
pub use pool::{SearchPool, TaskPool};
pub use pool_ref::TaskPoolRef;
pub(crate) use search::Searching;
pub use search::{Merge, Search, SearchContext};
pub use statistics::StealStatistics;
pub use stream::{SearchStream, TaskStream};
pub(crate) use worker::Worker;
