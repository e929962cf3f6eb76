//! Reads the counters of a node: of its PEs, of its network, and of its process.

use super::memory::ResidentMemory;
use super::processor_time::processor_time;
use super::switch::Switch;
use crate::message::telemetry::{NodeReading, NodeReadings, TelemetryTime};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Time for which a reading of the resident memory is used. Reading takes longer than the rest of a
/// sample, and memory changes slowly.
const MEMORY_HOLDS: Duration = Duration::from_secs(5);

/// Reads the counters of a switch's node.
pub(super) struct SwitchReadings {
    switch: Weak<Switch>,
    /// Number of nodes of this process, which share its memory equally.
    nodes_here: u32,
    begin: Instant,
    /// Opened at the first reading, since most jobs are not watched.
    memory: Mutex<Option<RecentMemory>>,
}

/// The resident memory of this process, read now and then.
struct RecentMemory {
    file: ResidentMemory,
    bytes: u64,
    read: Instant,
}

impl SwitchReadings {
    /// The counters of one of the `nodes_here` nodes of this process.
    pub(super) fn new(switch: &Arc<Switch>, nodes_here: u32) -> Self {
        let (switch, begin) = (Arc::downgrade(switch), Instant::now());
        Self { switch, nodes_here: nodes_here.max(1), begin, memory: Mutex::default() }
    }
}

impl RecentMemory {
    fn open(now: Instant) -> Self {
        let file = ResidentMemory::open();
        let bytes = file.bytes().unwrap_or_default();
        Self { file, bytes, read: now }
    }

    /// The resident bytes, from a reading that is at most [`MEMORY_HOLDS`] old at `now`.
    fn bytes(&mut self, now: Instant) -> u64 {
        if now.saturating_duration_since(self.read) >= MEMORY_HOLDS {
            (self.bytes, self.read) = (self.file.bytes().unwrap_or_default(), now);
        }
        self.bytes
    }
}

impl NodeReadings for SwitchReadings {
    fn order(&self) {
        if let Some(switch) = self.switch.upgrade() {
            switch.order_readings();
        }
    }

    fn read(&self) -> NodeReading {
        let Some(switch) = self.switch.upgrade() else { return NodeReading::default() };
        let gauges = switch.gauges();
        let (mut pes, mut spent) = (Vec::with_capacity(gauges.len()), TelemetryTime::default());
        for gauge in gauges {
            let (reading, of_pe) = gauge.read();
            pes.push(reading);
            spent += of_pe;
        }
        let now = Instant::now();
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let process_bytes = memory.get_or_insert_with(|| RecentMemory::open(now)).bytes(now);
        NodeReading {
            pes,
            links: switch.sent(),
            memory_bytes: process_bytes / u64::from(self.nodes_here),
            spent,
        }
    }

    fn clock(&self) -> TelemetryTime {
        TelemetryTime {
            wall_ns: self.begin.elapsed().as_nanos() as u64,
            processor_ns: processor_time().as_nanos() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_is_read_again_after_some_seconds() {
        let begin = Instant::now();
        let mut memory = RecentMemory::open(begin);
        // A value that no process has.
        memory.bytes = 1;
        assert_eq!(memory.bytes(begin + MEMORY_HOLDS - Duration::from_millis(1)), 1);

        let later = begin + MEMORY_HOLDS;

        assert_ne!(memory.bytes(later), 1);
        assert_eq!(memory.read, later);
    }
}
