//! Which node to take tasks from: work stealing between nodes, as state machines without clock and
//! network.
//!
//! - [`Stealing`]: one node's machine: what happens to it, and what its host is then to do.
//! - [`Command`], [`Amount`], [`Grant`]: what the host does. [`StealMessage`]: what nodes tell each
//!   other.
//! - [`StealingLayout`]: who takes part, and where. Every node must hold the same.
//! - [`StealingPolicy`], [`Turn`]: the seam for policies; [`stealing_policy`] finds one.
//! - [`RandomStealing`], [`HistoryPolicy`], [`ClusterAware`], [`Lifeline`]: those of others, with their
//!   sources. [`Directory`]: ours.
//!
//! # What a host does
//!
//! It owns the tasks. It says when its node becomes idle or busy and how many tasks could be taken
//! away (when that becomes zero or more than zero or passes a power of two, not for every task),
//! hands over what arrives, and carries out all commands after each call. A grant is tasks and a
//! [`Grant`] in one packet. Messages and grants between two nodes must arrive in order and once, as
//! the runtime's sessions promise; a node that is lost is reported to all. Termination is the
//! host's matter: machines that sleep wait for ever.

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
pub use policy::{StealingPolicy, Turn};
pub use random::RandomStealing;
pub use registry::{STEALING_POLICIES, UnknownStealingPolicy, stealing_policy};
