//! One node in virtual time: its processors, and whether it stands still.

use crate::processors::Processors;
use gridspan_runtime::{NodeId, PeId, Time};
use gridspan_topology::GridSpec;

/// What the PEs of a node have in common.
pub(crate) struct Node {
    /// `None` where every PE always has one of its own.
    pub(crate) processors: Option<Processors>,
    /// When the processors are to be attended next, and the number of the event that stands for it.
    pub(crate) planned: Option<(Time, u64)>,
    /// When its relay is woken next, and the number of the event that stands for it.
    pub(crate) relay_due: Option<(Time, u64)>,
    /// When its relay has sent what it has.
    pub(crate) relay_free: Time,
    /// When its host of the coordinator is woken next, and the number of the event that stands for
    /// it.
    pub(crate) coordinator_due: Option<(Time, u64)>,
    /// When that has sent what it has.
    pub(crate) coordinator_free: Time,
    /// When the node goes on that a fault has paused.
    pub(crate) paused_until: Time,
}

impl Node {
    /// A node of a grid, with so many processors or else one for each PE.
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

    /// A guest, whose PEs have processors of their own.
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

    /// A PE that has got what it wanted of a processor.
    pub(crate) fn take_done(&mut self, now: Time) -> Option<PeId> {
        self.processors.as_mut()?.take_done(now)
    }

    /// When the processors are to be attended next.
    pub(crate) fn next(&self) -> Option<Time> {
        self.processors.as_ref()?.next()
    }
}
