//! The counters of one node, as its driver reads them.

use super::sample::TelemetryCounts;
use gridspan_topology::SiteId;
use std::ops::AddAssign;

/// The counters of a node's PEs, memory and network, which the driver of the node keeps.
pub trait NodeReadings: Send + Sync {
    /// Asks the PEs for their counters, without waiting for them.
    fn order(&self);
    /// Returns the counters. Those of a PE that has not answered since the last order are old; the
    /// memory was measured within the last few seconds.
    fn read(&self) -> NodeReading;
    /// Time since a fixed moment, and processor time of the calling thread.
    fn clock(&self) -> TelemetryTime;
}

/// A time by two clocks, in nanoseconds.
///
/// ```
/// use gridspan_runtime::message::telemetry::TelemetryTime;
///
/// let [begin, end] = [(40, 9), (90, 12)]
///     .map(|(wall_ns, processor_ns)| TelemetryTime { wall_ns, processor_ns });
/// assert_eq!(end.since(begin), TelemetryTime { wall_ns: 50, processor_ns: 3 });
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TelemetryTime {
    /// Wall-clock time, which includes the time in which other threads had the processor.
    pub wall_ns: u64,
    /// Processor time of the measured threads; 0 where that is not measured.
    pub processor_ns: u64,
}

impl TelemetryTime {
    /// The time from `begin` to this one.
    pub fn since(self, begin: Self) -> Self {
        Self {
            wall_ns: self.wall_ns.saturating_sub(begin.wall_ns),
            processor_ns: self.processor_ns.saturating_sub(begin.processor_ns),
        }
    }
}

impl AddAssign for TelemetryTime {
    fn add_assign(&mut self, other: Self) {
        self.wall_ns += other.wall_ns;
        self.processor_ns += other.processor_ns;
    }
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
    /// Time that its PEs have spent on their counters.
    pub spent: TelemetryTime,
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
