//! Commands of relays to drivers.

use crate::message::Packet;
use crate::message::frame::Frame;
use crate::pe::Action;
use gridspan_topology::{NodeId, PeId};

/// An action that a relay requests from its driver.
pub enum RelayCommand {
    /// Send a frame to the relay of another node.
    Send {
        /// The other node.
        to: NodeId,
        /// The frame, for `Relay::receive` of that node.
        frame: Frame,
        /// Whether the frame is part of a large transfer, and must not delay other frames.
        is_bulk: bool,
    },
    /// Deliver a packet to a PE of this node, or to the coordinator.
    Deliver {
        /// The sending PE.
        from: PeId,
        /// A PE of this node, or [`COORDINATOR`](crate::COORDINATOR) on its node.
        to: PeId,
        /// The packet.
        packet: Packet,
    },
    /// Make the first PE of this node run an action, because another node has sent invalid data or
    /// the job cannot continue.
    Act(Action),
}
