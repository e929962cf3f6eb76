//! A sample: counters of a part of a job at about one time.

use gridspan_topology::{NodeId, PeId, SiteId};
use serde::{Deserialize, Serialize};
use std::ops::AddAssign;

/// Stands for several sites, where one entry for each would take too much room.
pub const SEVERAL_SITES: SiteId = SiteId(u32::MAX);
/// Stands for the actor types beyond those that are counted one by one.
pub const OTHER_TYPES: u16 = u16::MAX;

/// Counts of a PE's work, or their sums over several PEs. Times and numbers of events are sums
/// since the start of the run; the others are values at the time of the sample.
///
/// ```
/// use gridspan_runtime::message::telemetry::TelemetryCounts;
///
/// let mut sum = TelemetryCounts { busy_us: 30, idle_us: 70, ..Default::default() };
/// sum += TelemetryCounts { busy_us: 60, network_us: 40, ..Default::default() };
/// assert_eq!((sum.busy_us, sum.time_us()), (90, 200));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TelemetryCounts {
    /// Microseconds in which PEs handled messages and did work of the runtime.
    pub busy_us: u64,
    /// Microseconds in which PEs sent and received.
    pub network_us: u64,
    /// Microseconds in which PEs waited.
    pub idle_us: u64,
    /// Microseconds in which PEs had a processor; 0 where the system does not count them.
    pub ran_us: u64,
    /// Microseconds in which PEs were ready to run while other threads had the processor.
    pub waited_us: u64,
    /// Number of messages handled.
    pub handled: u64,
    /// Number of messages that are ready to be handled.
    pub waiting: u64,
    /// Bytes of messages that wait on PEs, ready or not.
    pub waiting_bytes: u64,
    /// Number of actors, with replicas.
    pub actors: u64,
    /// Number of actors that have moved away.
    pub migrations: u64,
    /// Number of tasks that were run.
    pub tasks_done: u64,
    /// Number of tasks that wait.
    pub tasks_waiting: u64,
}

/// Counts of one PE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeTelemetry {
    /// The PE.
    pub pe: PeId,
    /// Its counts.
    pub counts: TelemetryCounts,
    /// Whether it did not answer in time, because it was inside a handler. Then the counts are
    /// those of its last answer, except that its time since then counts as busy.
    pub is_late: bool,
}

/// Counts of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeTelemetry {
    /// The node.
    pub node: NodeId,
    /// Its site.
    pub site: SiteId,
    /// Number of its PEs.
    pub pes: u32,
    /// The sum over its PEs.
    pub counts: TelemetryCounts,
    /// Resident memory of its process at some time in the last five seconds, in bytes; 0 where the
    /// system does not report it. If the process has several nodes, an equal share of it.
    pub memory_bytes: u64,
    /// Share of the last period in which its PEs were busy, in thousandths.
    pub busy_permille: u16,
    /// Number of its PEs that did not answer in time.
    pub late_pes: u32,
    /// Whether an observer asks for the PEs of this node.
    pub is_focus: bool,
}

/// Sums over the nodes of one site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteTelemetry {
    /// The site; [`SEVERAL_SITES`] stands for those beyond a limit.
    pub site: SiteId,
    /// Number of its nodes that are in the sample.
    pub nodes: u32,
    /// Number of their PEs.
    pub pes: u32,
    /// The sum over the PEs.
    pub counts: TelemetryCounts,
    /// Resident memory of the nodes, in bytes.
    pub memory_bytes: u64,
}

/// Counts of the actors of one type at one site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeTelemetry {
    /// Number of the type in the job; [`OTHER_TYPES`] stands for several.
    pub number: u16,
    /// The site, or [`SEVERAL_SITES`].
    pub site: SiteId,
    /// Number of actors, with replicas.
    pub actors: u64,
    /// Number of messages handled.
    pub handled: u64,
    /// Number of messages that are ready to be handled.
    pub waiting: u64,
}

/// Traffic from the nodes of a site to other nodes since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkTelemetry {
    /// The sending site, or [`SEVERAL_SITES`].
    pub from: SiteId,
    /// The receiving site, which may be the same, or [`SEVERAL_SITES`].
    pub to: SiteId,
    /// Number of messages. A frame without messages of actors counts as one.
    pub messages: u64,
    /// Bytes of frames.
    pub bytes: u64,
}

/// A sample of a node and of those below it in the tree, or of a whole job.
///
/// ```
/// use gridspan_runtime::message::telemetry::TelemetrySample;
///
/// let sample = TelemetrySample::default();
/// assert_eq!(sample.node_count(), 0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TelemetrySample {
    /// Number of samples that the root has completed in this lease; 0 on other nodes.
    pub tick: u64,
    /// Microseconds since the start of the run at the root; 0 on other nodes.
    pub at_us: u64,
    /// Number of levels of the tree.
    pub depth: u32,
    /// Number of samples that the root has received in the last period; 0 on other nodes.
    pub received: u32,
    /// Bytes of these samples.
    pub received_bytes: u64,
    /// One more than the newest step of which a message was handled; 0 if no message has a step.
    pub newest_step: u64,
    /// Nanoseconds that sampling took in the last period, summed over the nodes.
    pub telemetry_ns: u64,
    /// The largest of these times.
    pub telemetry_ns_max: u64,
    /// Processor time of this sampling in nanoseconds, summed over the nodes; 0 where it is not
    /// measured.
    pub processor_ns: u64,
    /// The largest of these times.
    pub processor_ns_max: u64,
    /// Sums by site, in the order of their numbers.
    pub sites: Vec<SiteTelemetry>,
    /// All nodes, or those that compute most and least, in the order of their numbers.
    pub nodes: Vec<NodeTelemetry>,
    /// All PEs, or those of one node, or none, in the order of their numbers.
    pub pes: Vec<PeTelemetry>,
    /// Actor types, in the order of their numbers and sites.
    pub types: Vec<TypeTelemetry>,
    /// Links between sites, and inside them.
    pub links: Vec<LinkTelemetry>,
    /// Names of the actor types, by number; empty except in the answers of the root.
    pub type_names: Vec<String>,
}

impl TelemetryCounts {
    /// The whole time of the PEs, in microseconds.
    pub fn time_us(&self) -> u64 {
        self.busy_us.saturating_add(self.network_us).saturating_add(self.idle_us)
    }
}

impl AddAssign for TelemetryCounts {
    /// Saturates: the values may come from a faulty node.
    fn add_assign(&mut self, other: Self) {
        let Self {
            busy_us,
            network_us,
            idle_us,
            ran_us,
            waited_us,
            handled,
            waiting,
            waiting_bytes,
            actors,
            migrations,
            tasks_done,
            tasks_waiting,
        } = other;
        for (sum, more) in [
            (&mut self.busy_us, busy_us),
            (&mut self.network_us, network_us),
            (&mut self.idle_us, idle_us),
            (&mut self.ran_us, ran_us),
            (&mut self.waited_us, waited_us),
            (&mut self.handled, handled),
            (&mut self.waiting, waiting),
            (&mut self.waiting_bytes, waiting_bytes),
            (&mut self.actors, actors),
            (&mut self.migrations, migrations),
            (&mut self.tasks_done, tasks_done),
            (&mut self.tasks_waiting, tasks_waiting),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

impl TelemetrySample {
    /// Number of nodes in the sample.
    pub fn node_count(&self) -> u32 {
        self.sites.iter().fold(0, |sum, site| sum.saturating_add(site.nodes))
    }

    /// Sums over all nodes, of no site in particular.
    pub fn total(&self) -> SiteTelemetry {
        let mut total = SiteTelemetry { site: SEVERAL_SITES, ..SiteTelemetry::default() };
        for site in &self.sites {
            total.nodes = total.nodes.saturating_add(site.nodes);
            total.pes = total.pes.saturating_add(site.pes);
            total.counts += site.counts;
            total.memory_bytes = total.memory_bytes.saturating_add(site.memory_bytes);
        }
        total
    }
}
