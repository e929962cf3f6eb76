//! The counters of one node, as its driver reads them.

use super::sample::TelemetryCounts;
use gridspan_topology::SiteId;

/// The counters of a node's PEs, memory and network, which the driver of the node keeps.
pub trait NodeReadings: Send + Sync {
    /// Asks the PEs for their counters, without waiting for them.
    fn order(&self);
    /// Returns the counters. Those of a PE that has not answered since the last order are old; the
    /// memory was measured within the last few seconds.
    fn read(&self) -> NodeReading;
    /// Nanoseconds since a fixed moment.
    fn clock_ns(&self) -> u64;
}

/// The counters of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeReading {
    /// Its PEs, in their order.
    pub pes: Vec<PeReading>,
    /// Traffic that it has sent, by receiving site.
    pub links: Vec<LinkReading>,
    /// Resident memory of the process, in bytes; 0 if the system does not tell. If the process has
    /// several nodes, an equal share of it.
    pub memory_bytes: u64,
    /// Nanoseconds that its PEs have spent on their counters.
    pub spent_ns: u64,
}

/// The counters of a PE.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeReading {
    /// Its counts.
    pub counts: TelemetryCounts,
    /// One more than the newest step of which it has handled a message; 0 if there is none.
    pub newest_step: u64,
    /// The actor types, by number.
    pub types: Vec<TypeReading>,
    /// Whether it has not answered in time.
    pub is_late: bool,
}

/// Counts of the actors of one type on a PE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TypeReading {
    /// Number of actors, with replicas.
    pub actors: u64,
    /// Number of messages handled.
    pub handled: u64,
    /// Number of messages that are ready to be handled.
    pub waiting: u64,
}

/// Traffic from a node to the nodes of one site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkReading {
    /// The site.
    pub to: SiteId,
    /// Number of messages.
    pub messages: u64,
    /// Bytes of frames.
    pub bytes: u64,
}
