//! Events and commands of the coordinator.

use super::state::advice::PlanningJob;
use crate::error::JobError;
use crate::message::{Content, Control, CoordinatorPlace, Packet, Travel};
use gridspan_topology::{NodeId, PeId};
use serde::{Deserialize, Serialize};

/// An input of the coordinator.
pub enum CoordinatorEvent {
    /// A packet has arrived.
    Packet {
        /// The sending PE. A relay reports in the name of its node's first PE.
        from: PeId,
        /// The packet.
        packet: Packet,
    },
    /// A planning job is done.
    Planned(PlanningJob),
    /// The planner is lost; broadcasts keep their present plans.
    PlannerLost,
    /// Find out what the job waits for, and report it to the job's listeners with this number. Only
    /// the host that has the coordinator acts on it.
    Diagnose(u64),
    /// The coordinator now runs at this place.
    Place(CoordinatorPlace),
    /// A founder of the job is lost.
    NodeLost(NodeId, JobError),
    /// Packets queued for the coordinator hold this many bytes, more than the limit; further ones
    /// are dropped.
    Overflow(usize),
    /// The node cannot continue, such as after the death of a thread.
    Failed(JobError),
}

impl CoordinatorEvent {
    /// Whether handling the event may take milliseconds: with the last round trips the coordinator
    /// infers the places, and with the messages of the sites' leaders it plans a rebalance.
    pub(crate) fn may_take_long(&self) -> bool {
        let Self::Packet { packet: Packet(Content::Control(control)), .. } = self else {
            return false;
        };
        matches!(**control, Control::Probed(_) | Control::Lead { .. })
    }

    /// Number of bytes the event holds, for the memory budget.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Packet { packet, .. } => packet.bytes(),
            _ => 0,
        }
    }
}

/// An action that the driver performs for the coordinator.
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
        /// The sender: the coordinator, or the PE that sent the packet.
        from: PeId,
        /// The packet; [`Packet::is_spread`] holds.
        packet: Packet,
    },
    /// Send a frame to the host of the coordinator on another node.
    Forward {
        /// The node.
        node: NodeId,
        /// The frame, addressed to [`COORDINATOR`](crate::COORDINATOR).
        frame: Vec<u8>,
    },
    /// Run the planner on another thread, because it takes tens of milliseconds, and return it in
    /// [`CoordinatorEvent::Planned`].
    Plan(PlanningJob),
}

/// Destination of the answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Asker {
    pub(crate) pe: PeId,
    pub(crate) slot: u64,
}

/// Work that one part of the coordinator leaves for another, done after the present event. It is
/// dropped if the job has an outcome by then.
pub(super) enum FollowUp {
    /// The places are known: continue the requests that waited for them.
    PlacesKnown,
    /// A broadcast has begun: record it for the advisor.
    BroadcastBegun(Travel),
    /// Begin the first rebalance in the queue.
    BeginRebalance,
}
