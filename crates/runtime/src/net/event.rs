//! Events and link statistics of a transport for the layer above, and the errors of a send.

use super::hello::HelloRefusal;
use crate::error::LossCause;
use crate::message::probe::ProbeReport;
use crate::session::Backlog;
use bytes::Bytes;
use gridspan_topology::{LinkSample, NodeId};
use std::net::SocketAddr;
use std::time::Duration;
use thiserror::Error;

/// An event of the transport. Events of one node are in the order in which they happened.
#[derive(Clone, Debug, PartialEq)]
pub enum TransportEvent {
    /// A frame arrived. Each frame is reported exactly once, and small frames of a node in the
    /// order sent. The bytes may be a slice of the packet that contained them and keep it in
    /// memory.
    Frame {
        /// The sender.
        from: NodeId,
        /// The frame.
        bytes: Bytes,
    },
    /// The first connection to this incarnation of a node is open.
    Connected(NodeId),
    /// A node is silent for longer than usual. Callers must do nothing irreversible.
    Suspected(NodeId),
    /// A suspected node has sent a heartbeat again.
    Recovered(NodeId),
    /// A node is declared lost: frames to it are dropped, and none of its frames will arrive.
    /// Reported once per incarnation of the node.
    Lost {
        /// The lost node.
        node: NodeId,
        /// Why it is lost.
        reason: LossReason,
    },
    /// The measurements that a probe order requested are done.
    Probed(ProbeReport),
    /// Samples of the links from open connections, at most twice a second; quiet connections are
    /// sampled less often.
    Sampled(Vec<(NodeId, LinkSample)>),
    /// A connection was refused, by this node or by the other side. Nothing changed. Refusals of
    /// unknown peers are combined into one report a second.
    Refused {
        /// The address of the other side; the last one, if the report combines several.
        address: SocketAddr,
        /// The node, if this node dialled it.
        node: Option<NodeId>,
        /// Why it was refused.
        reason: HelloRefusal,
        /// Number of connections refused since the last report, including this one.
        count: u64,
    },
}

/// Why a node is lost.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LossReason {
    /// It was silent for too long.
    #[error("it was silent for {:?}", tenths(*.silence))]
    Silent {
        /// Duration of the silence.
        silence: Duration,
        /// Other nodes that were silent for about as long, which will soon be declared lost as
        /// well.
        others: Vec<NodeId>,
    },
    /// Its port is closed, so its process has ended.
    #[error("no process has its port any more; it was silent for {:?}", tenths(*.silence))]
    PortClosed {
        /// Duration of the silence until then.
        silence: Duration,
    },
    /// It ended normally.
    #[error("it closed the connection: {0}")]
    Closed(String),
    /// It was started again, and its earlier incarnation has ended.
    #[error("it was started again as incarnation {incarnation}")]
    Restarted {
        /// The new incarnation.
        incarnation: u64,
    },
    /// It never answered.
    #[error("it could not be reached in {0:?}: check its address and its log")]
    Unreachable(Duration),
    /// It refused this node.
    #[error(transparent)]
    Refused(#[from] HelloRefusal),
}

impl LossReason {
    /// The reason without its details.
    pub fn cause(&self) -> LossCause {
        match self {
            Self::Silent { .. } => LossCause::Silent,
            Self::PortClosed { .. } => LossCause::Ended,
            Self::Closed(_) => LossCause::Closed,
            Self::Restarted { .. } => LossCause::Restarted,
            Self::Unreachable(_) => LossCause::Unreachable,
            Self::Refused(refusal) => LossCause::Refused(refusal.cause()),
        }
    }
}

/// Rounds a duration down to tenths of a second.
fn tenths(silence: Duration) -> Duration {
    Duration::from_millis(silence.as_millis() as u64 / 100 * 100)
}

/// A frame was not accepted. Nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SendError {
    /// The frame exceeds the limit for all frames.
    #[error(
        "a frame of {bytes} bytes exceeds the limit of {limit}: send it in parts, or raise `message_bytes` of the job's `Limits`"
    )]
    TooLarge {
        /// Its length.
        bytes: u64,
        /// The limit for all frames.
        limit: u64,
    },
    /// The frame exceeds the limit of [`FrameClass::Small`].
    #[error(
        "a frame of {bytes} bytes exceeds the limit of {limit} for small frames: send it as \
         `FrameClass::Auto`, or raise `small_bytes_max` of `TransportLimits`"
    )]
    NotSmall {
        /// Its length.
        bytes: u64,
        /// The limit for small frames.
        limit: u64,
    },
    /// Too many bytes already wait for the node.
    #[error(transparent)]
    Backlog(#[from] Backlog),
    /// The node was declared lost.
    #[error("{0} is lost: place its work on another node")]
    Lost(NodeId),
    /// The job has no such node, or it is this one.
    #[error("{0} is not another node of the job")]
    NoSuchPeer(NodeId),
}

/// The way to send a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FrameClass {
    /// Small if it is small enough, bulk otherwise.
    #[default]
    Auto,
    /// In order with other small frames.
    Small,
    /// On a separate stream: it may be overtaken by small frames and by other bulk frames.
    Bulk,
}

/// Statistics of the link to a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Whether a connection is open. If not, the values of the connection are zero.
    pub is_open: bool,
    /// The smoothed round trip.
    pub rtt: Duration,
    /// The shortest round trip of this connection.
    pub rtt_min: Duration,
    /// Number of bytes that may be in flight.
    pub congestion_window: u64,
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets considered lost.
    pub packets_lost: u64,
    /// UDP payload sent, in bytes.
    pub bytes_sent: u64,
    /// UDP payload received, in bytes.
    pub bytes_received: u64,
    /// The largest packet that the path accepts, in bytes.
    pub mtu: u16,
    /// Frames sent and not yet acknowledged, in bytes.
    pub bytes_unacknowledged: u64,
    /// Frames acknowledged so far, in bytes.
    pub bytes_acknowledged: u64,
    /// Whether frames wait because the connection does not accept them.
    pub is_backed_up: bool,
    /// Number of times that flow control by the other side, not the network, has stopped this node.
    pub stops: u64,
    /// Number of connections of the session so far.
    pub connections: u64,
}
