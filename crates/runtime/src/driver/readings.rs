//! Reads the counters of a node: of its PEs, of its network, and of its process.

use super::memory::ResidentMemory;
use super::switch::Switch;
use crate::message::telemetry::{NodeReading, NodeReadings};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

/// The counters of the node of a switch.
pub(super) struct SwitchReadings {
    switch: Weak<Switch>,
    begin: Instant,
    /// Opened when it is first read, since most jobs are never watched.
    memory: OnceLock<ResidentMemory>,
}

impl SwitchReadings {
    pub(super) fn new(switch: &Arc<Switch>) -> Self {
        let memory = OnceLock::new();
        Self { switch: Arc::downgrade(switch), begin: Instant::now(), memory }
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
        let (pes, spent): (Vec<_>, Vec<Duration>) =
            switch.gauges().iter().map(|gauge| gauge.read()).unzip();
        let memory = self.memory.get_or_init(ResidentMemory::open);
        NodeReading {
            pes,
            links: switch.sent(),
            memory_bytes: memory.bytes().unwrap_or_default(),
            spent_ns: spent.iter().sum::<Duration>().as_nanos() as u64,
        }
    }

    fn clock_ns(&self) -> u64 {
        self.begin.elapsed().as_nanos() as u64
    }
}
