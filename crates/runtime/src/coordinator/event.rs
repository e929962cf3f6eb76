//! What goes into the coordinator and comes out of it.

use super::state::advice::PlanningJob;
use crate::error::JobError;
use crate::message::{Content, Control, CoordinatorPlace, Packet, Travel};
use gridspan_topology::{NodeId, PeId};
use serde::{Deserialize, Serialize};

/// Something for the coordinator.
pub enum CoordinatorEvent {
    /// A packet has come.
    Packet {
        /// The PE that it comes from. What a relay reports comes in the name of its first PE.
        from: PeId,
        /// The packet.
        packet: Packet,
    },
    /// The planner is done.
    Planned(PlanningJob),
    /// The planner will not come back; broadcasts keep the plans that they have.
    PlannerLost,
    /// The coordinator runs at this place now.
    Place(CoordinatorPlace),
    /// A node that the job began with is lost.
    NodeLost(NodeId, JobError),
    /// The packets that wait for it hold this many bytes, more than the limit; others are dropped.
    Overflow(usize),
    /// The node cannot go on, such as after the death of a thread.
    Failed(JobError),
}

impl CoordinatorEvent {
    /// Whether what it leads to may take milliseconds: to infer the places from the last round
    /// trips, or to plan for what the leaders of sites have said.
    pub(crate) fn may_take_long(&self) -> bool {
        let Self::Packet { packet: Packet(Content::Control(control)), .. } = self else {
            return false;
        };
        matches!(**control, Control::Probed(_) | Control::Lead { .. })
    }

    /// Bytes that it holds, for the memory budget.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Packet { packet, .. } => packet.bytes(),
            _ => 0,
        }
    }
}

/// What the driver does for the coordinator.
pub enum CoordinatorCommand {
    /// Send a packet to a PE.
    Send {
        /// The PE, of any node.
        to: PeId,
        /// The packet.
        packet: Packet,
    },
    /// Hand a packet for several nodes to the relay of this node.
    Relay {
        /// In whose name: that of the coordinator, or of the PE that has sent it.
        from: PeId,
        /// The packet; [`Packet::is_spread`] holds.
        packet: Packet,
    },
    /// Send a frame to the host of the coordinator on another node.
    Forward {
        /// The node.
        node: NodeId,
        /// The frame, which is for [`COORDINATOR`](crate::COORDINATOR).
        frame: Vec<u8>,
    },
    /// Run the planner elsewhere, since that takes tens of milliseconds, and give it back as
    /// [`CoordinatorEvent::Planned`].
    Plan(PlanningJob),
}

/// Where the answer to a question goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Asker {
    pub(crate) pe: PeId,
    pub(crate) slot: u64,
}

/// What one part of the coordinator leaves for others to do, once the event at hand is handled. If
/// the job has an outcome by then, it is dropped.
pub(super) enum FollowUp {
    /// The places are known: much has waited for them.
    PlacesKnown,
    /// A broadcast has begun, of which the advisor learns.
    BroadcastBegun(Travel),
    /// A rebalance is the first in the queue, and begins.
    BeginRebalance,
}
