//! What a transport tells the layer above, and how it answers a send.

use super::hello::HelloRefusal;
use crate::message::probe::ProbeReport;
use crate::session::Backlog;
use bytes::Bytes;
use gridspan_topology::{LinkSample, NodeId};
use std::net::SocketAddr;
use std::time::Duration;
use thiserror::Error;

/// What happened. Events of one node come in the order they happened.
#[derive(Clone, Debug, PartialEq)]
pub enum TransportEvent {
    /// A frame arrived: each exactly once, small ones of a node in the order sent. The bytes may be
    /// a slice of the packet that brought them and keep it in memory.
    Frame {
        /// Who sent it.
        from: NodeId,
        /// The frame.
        bytes: Bytes,
    },
    /// The first connection with this life of a node is open.
    Connected(NodeId),
    /// A node is silent for longer than usual. Nothing irreversible must follow.
    Suspected(NodeId),
    /// A suspected node was heard of again.
    Recovered(NodeId),
    /// A node is given up: frames to it are dropped, none will come. Once per life of the node.
    Lost {
        /// Which node.
        node: NodeId,
        /// Why.
        reason: LossReason,
    },
    /// The measurements of an order are done.
    Probed(ProbeReport),
    /// What open connections show of their links; twice a second, if anything was sent.
    Sampled(Vec<(NodeId, LinkSample)>),
    /// A connection was refused, here or by the other side. Nothing changed. Of strangers there is
    /// one report a second.
    Refused {
        /// The address of the other side; of several, of the last one.
        address: SocketAddr,
        /// The node, if this node dialled it.
        node: Option<NodeId>,
        /// Why.
        reason: HelloRefusal,
        /// How many connections were refused since the last report, this one included.
        count: u64,
    },
}

/// Why a node is given up.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LossReason {
    /// It was silent for too long.
    #[error("it was silent for {silence:?}")]
    Silent {
        /// For how long.
        silence: Duration,
        /// The other nodes that were silent for about as long, which will soon be declared lost as
        /// well.
        others: Vec<NodeId>,
    },
    /// It ended normally.
    #[error("it closed the connection: {0}")]
    Closed(String),
    /// It was started again, and its earlier life is over.
    #[error("it was started again as incarnation {incarnation}")]
    Restarted {
        /// Which life it is in now.
        incarnation: u64,
    },
    /// It never answered.
    #[error("it could not be reached in {0:?}: check its address and its log")]
    Unreachable(Duration),
    /// The two do not belong together.
    #[error(transparent)]
    Refused(#[from] HelloRefusal),
}

/// A frame was not taken. Nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SendError {
    /// The frame exceeds the limit.
    #[error(
        "a frame of {bytes} bytes exceeds the limit of {limit}: send it in parts, or raise `message_bytes` of the job's `Limits`"
    )]
    TooLarge {
        /// Its length.
        bytes: u64,
        /// The limit for its class.
        limit: u64,
    },
    /// Too many bytes to the node wait already.
    #[error(transparent)]
    Backlog(#[from] Backlog),
    /// The node was given up.
    #[error("{0} is lost: place its work on another node")]
    Lost(NodeId),
    /// The job has no such node, or it is this one.
    #[error("{0} is not another node of the job")]
    NoSuchPeer(NodeId),
}

/// How to send a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FrameClass {
    /// Small if it is small enough, bulk otherwise.
    #[default]
    Auto,
    /// In order with other small frames.
    Small,
    /// On its own: it may be overtaken by small frames and by other bulk frames.
    Bulk,
}

/// What is known of the link to a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Whether a connection is open. If not, the figures of the connection are zero.
    pub is_open: bool,
    /// The smoothed round trip.
    pub rtt: Duration,
    /// The shortest round trip of this connection.
    pub rtt_min: Duration,
    /// How many bytes may be in flight.
    pub congestion_window: u64,
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets taken for lost.
    pub packets_lost: u64,
    /// UDP payload sent, in bytes.
    pub bytes_sent: u64,
    /// UDP payload received, in bytes.
    pub bytes_received: u64,
    /// The largest packet the path takes, in bytes.
    pub mtu: u16,
    /// Frames sent and not yet acknowledged, in bytes.
    pub bytes_unacknowledged: u64,
    /// Frames acknowledged so far, in bytes.
    pub bytes_acknowledged: u64,
    /// Whether frames wait that the connection does not take.
    pub is_backed_up: bool,
    /// How often the other side's windows, not the network, have stopped this one.
    pub stops: u64,
    /// Connections that the session had so far.
    pub connections: u64,
}
