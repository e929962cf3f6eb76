//! What drivers do for relays.

use crate::message::Packet;
use crate::message::frame::Frame;
use crate::pe::Action;
use gridspan_topology::{NodeId, PeId};

/// What a driver has to do for a relay.
pub enum RelayCommand {
    /// Send a frame to the relay of another node.
    Send {
        /// The other node.
        to: NodeId,
        /// What `Relay::receive` takes there.
        frame: Frame,
        /// Whether it is part of something large, and should hold up no others.
        is_bulk: bool,
    },
    /// Hand a packet to a PE of this node, or to the coordinator.
    Deliver {
        /// The PE that it comes from.
        from: PeId,
        /// A PE of this node, or [`COORDINATOR`](crate::COORDINATOR) on its node.
        to: PeId,
        /// The packet.
        packet: Packet,
    },
    /// Have the first PE of this node do something: what another node has sent makes no sense, or
    /// the job cannot go on.
    Act(Action),
}
