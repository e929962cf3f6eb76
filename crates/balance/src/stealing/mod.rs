//! Work stealing between nodes, as state machines without clock and network.
//!
//! - [`Stealing`]: the machine of one node: it takes events and returns commands for its host.
//! - [`Command`], [`Amount`], [`Grant`]: the actions of the host. [`StealMessage`]: messages
//!   between nodes.
//! - [`StealingLayout`]: the nodes that take part, and their sites. It must be the same on every
//!   node.
//! - [`StealingPolicy`], [`Turn`]: the interface of policies. A job takes a
//!   [`MakeStealingPolicy`]: any policy that can be cloned, or a [`StealingPolicyName`].
//!   [`stealing_policy`] finds one outside of a job.
//! - [`RandomStealing`], [`HistoryPolicy`], [`ClusterAware`], [`Lifeline`]: published policies,
//!   with their sources. [`Directory`]: the policy designed for Gridspan.
//!
//! # The host
//!
//! The host owns the tasks. It reports when its node becomes idle or busy, and the number of tasks
//! that could be taken away (not for every task, but when that number becomes zero, becomes greater
//! than zero, or passes a power of two). It passes on messages and grants that arrive, and carries
//! out all commands after each call. A grant is tasks and a [`Grant`] in one packet. Messages and
//! grants between two nodes must arrive in order and once, as the runtime's sessions guarantee; the
//! loss of a node is reported to all nodes. The host detects termination: machines that sleep wait
//! for ever.

mod cluster_aware;
mod command;
mod directory;
mod history;
mod layout;
mod lifeline;
mod machine;
mod message;
mod policy;
mod random;
mod registry;
#[cfg(test)]
mod tests;

pub use cluster_aware::ClusterAware;
pub use command::{Amount, Command, Grant};
pub use directory::Directory;
pub use history::HistoryPolicy;
pub use layout::StealingLayout;
pub use lifeline::Lifeline;
pub use machine::Stealing;
pub use message::{Demand, MAX_LISTED, Share, StandingRequest, StealMessage};
pub use policy::{MakeStealingPolicy, StealingPolicy, Turn};
pub use random::RandomStealing;
pub use registry::{STEALING_POLICIES, StealingPolicyName, UnknownStealingPolicy, stealing_policy};
