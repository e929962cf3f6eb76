//! State of a PE that sends and receives copies of parts, and other large messages of checkpoints.

use crate::message::{Assemblies, CheckpointMessage, Segment};
use bytes::Bytes;
use gridspan_topology::{NodeId, PeId, Time};
use std::collections::VecDeque;

/// The large messages of checkpoints that a PE has to send, and those of which it has a piece.
#[derive(Default)]
pub(crate) struct Sending {
    /// Copies of segments of this PE's part, or of parts that it has restored, that are not sent
    /// yet.
    pub(crate) copies: VecDeque<CopyToSend>,
    /// When a piece of these was last sent.
    pub(crate) copied_at: Option<Time>,
    /// Whether a timer will send the next of `copies`.
    pub(crate) is_copying: bool,
    /// Copies of segments of other PEs of which some bytes are missing, by sender.
    pub(crate) incoming_copies: Assemblies<(PeId, Segment)>,
    /// Large messages of a restoration that wait for room in the network, and their receivers.
    pub(crate) large: VecDeque<(PeId, CheckpointMessage)>,
    /// When to look again whether the network has room for these messages and for copies.
    pub(crate) room_at: Option<Time>,
    /// Since when the network has had no room.
    pub(crate) crowded_since: Option<Time>,
    /// Number of bytes of this node that wait for the network.
    pub(crate) network_bytes: usize,
}

/// A copy of a segment that is not sent yet.
pub(crate) struct CopyToSend {
    /// The node that gets it.
    pub(crate) to: NodeId,
    pub(crate) segment: Segment,
    /// Size of the segment in bytes.
    pub(crate) total: u64,
    /// The bytes that are not sent.
    pub(crate) left: Bytes,
}

impl CopyToSend {
    pub(crate) fn new(to: NodeId, segment: Segment, bytes: Bytes) -> Self {
        Self { to, segment, total: bytes.len() as u64, left: bytes }
    }
}
