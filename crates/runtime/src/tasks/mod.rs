//! Fork-join tasks and tree searches: work that may run on any PE, and that idle PEs steal.
//!
//! A task is a *token*: all that is needed to run it anywhere (Zhang et al., Jcluster, IPDPS 2007,
//! section 3). Each PE has a queue of tasks, newest first, and offers its oldest ones where the
//! other PEs of its node can take them without a message. Nodes without tasks ask other nodes, by
//! the rules of a [`StealingPolicy`](gridspan_balance).
//!
//! - [`Task`] forks and joins: its children's outputs come back to it. [`Search`] visits a tree and
//!   adds its nodes to one total.
//! - `frame`: the frames that wait for outputs. A frame stays on its PE; the outputs of stolen tasks
//!   go to a *loan*, a frame of the thief that sends its result back to the lender. So there is no
//!   counter that all PEs share, and the end is known when the root's frame is complete.
//! - `engine`: the queue and the frames of a PE. `deques`: the tasks that the PEs of a node share.
//! - `agent`: takes tasks from other nodes and gives tasks to them, in the node's relay. `lending`:
//!   the choice of the tasks that leave.
//! - `message`: messages to workers and agents. `trading`: the workers' part in trading tasks, for
//!   their agent.
//! - `ledger`: loans to guests (nodes that join the running job). `backups`: copies of loans to
//!   other sites. `lineage`: the guests and copies that a task has come through. `membership`: the
//!   workers' reaction when guests join and leave.
//! - `worker`: the actor on every PE that runs tasks between other messages.
//! - `pool`: main hands in a root and gets its result. `stream`: main hands in many roots and gets
//!   their results as they come. `roots` and `serving`: the worker's part in both, and in tasks
//!   that other pools hand in.
//! - `bound`: the value that tasks of a pool improve together. `bound_spread`: the nodes that
//!   receive improvements.

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
