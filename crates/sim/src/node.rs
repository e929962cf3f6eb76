//! One node in virtual time: its processors, and whether it is paused.

use crate::processors::Processors;
use gridspan_runtime::{NodeId, PeId, Time};
use gridspan_topology::GridSpec;

/// The state that the PEs of a node share.
pub(crate) struct Node {
    /// The shared processors; `None` if every PE has a separate one.
    pub(crate) processors: Option<Processors>,
    /// Time at which the processors are updated next, and the number of that event.
    pub(crate) planned: Option<(Time, u64)>,
    /// Time at which the relay is woken next, and the number of that event.
    pub(crate) relay_due: Option<(Time, u64)>,
    /// When the relay has finished sending.
    pub(crate) relay_free: Time,
    /// Time at which the coordinator host is woken next, and the number of that event.
    pub(crate) coordinator_due: Option<(Time, u64)>,
    /// When the coordinator host has finished sending.
    pub(crate) coordinator_free: Time,
    /// When the node continues after a pause by a fault.
    pub(crate) paused_until: Time,
}

impl Node {
    /// A node of a grid, with this number of processors, or one for each PE if `None`.
    pub(crate) fn new(spec: &GridSpec, node: NodeId, processors: Option<u32>) -> Self {
        let pes = spec.layout().place(node).pes.len();
        let processors =
            Processors::new(processors.unwrap_or(pes as u32), spec.foreign_loads(node));
        Self {
            processors: Some(processors).filter(|processors| !processors.are_ample_for(pes)),
            planned: None,
            relay_due: None,
            relay_free: Time::ZERO,
            coordinator_due: None,
            coordinator_free: Time::ZERO,
            paused_until: Time::ZERO,
        }
    }

    /// A guest node, whose PEs have separate processors.
    pub(crate) fn guest() -> Self {
        Self {
            processors: None,
            planned: None,
            relay_due: None,
            relay_free: Time::ZERO,
            coordinator_due: None,
            coordinator_free: Time::ZERO,
            paused_until: Time::ZERO,
        }
    }

    /// Takes a PE whose turn on the processors is complete.
    pub(crate) fn take_done(&mut self, now: Time) -> Option<PeId> {
        self.processors.as_mut()?.take_done(now)
    }

    /// Time at which the processors must be updated next.
    pub(crate) fn next(&self) -> Option<Time> {
        self.processors.as_ref()?.next()
    }
}
