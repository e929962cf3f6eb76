//! Bounds on the memory of a PE.

use serde::{Deserialize, Serialize};

/// Byte budgets of one PE.
///
/// ```
/// use gridspan::{Job, Limits};
///
/// let limits = Limits::default().with_soft_bytes(64 << 20);
/// let job = Job::new("frugal").limits(limits);
/// # assert_eq!(limits.hard_bytes, 2 << 30);
/// # gridspan::embed::Runner::on_threads(1).run(job).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Limits {
    /// Number of bytes of ready messages above which a PE takes no more messages from its inbox
    /// before it has handled some; the node stops reading from the network, and QUIC stalls the
    /// senders. While a checkpoint is made, the PE takes all messages in flight. Default 256 MiB.
    pub soft_bytes: usize,
    /// Number of bytes of messages, ready or held for earlier ones, and of initial values whose
    /// collection is not complete, above which the job ends with an error that names the fullest
    /// mailboxes. Default 2 GiB.
    pub hard_bytes: usize,
    /// Size of the largest message that crosses to another node, and of the largest actor that
    /// moves, in bytes once encoded, up to 1 GiB. Default 60 MiB: it travels in one piece, which
    /// both nodes hold whole. Lower values count as the default, which other packets need.
    pub message_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { soft_bytes: 256 << 20, hard_bytes: 2 << 30, message_bytes: PIECE_BYTES_MAX }
    }
}

/// Size in bytes of the largest message that a job may allow: a receiver holds a message twice, as
/// bytes and as a value.
const MESSAGE_BYTES_MAX: usize = 1 << 30;

impl Limits {
    /// Sets the number of bytes above which a PE takes no more messages from its inbox.
    #[must_use]
    pub fn with_soft_bytes(mut self, soft_bytes: usize) -> Self {
        self.soft_bytes = soft_bytes;
        self
    }

    /// Sets the number of bytes above which the job ends with an error.
    #[must_use]
    pub fn with_hard_bytes(mut self, hard_bytes: usize) -> Self {
        self.hard_bytes = hard_bytes;
        self
    }

    /// Sets the size of the largest message that crosses to another node.
    #[must_use]
    pub fn with_message_bytes(mut self, message_bytes: usize) -> Self {
        self.message_bytes = message_bytes;
        self
    }
}

impl Limits {
    /// Returns the size of the largest message or actor, within its bounds.
    pub(crate) fn message_bytes(&self) -> usize {
        self.message_bytes.clamp(PIECE_BYTES_MAX, MESSAGE_BYTES_MAX)
    }
}

/// Maximum number of collections of a job. Bounds the memory that a peer can make a PE allocate.
pub(crate) const COLLECTIONS_MAX: usize = 1 << 16;

/// Maximum number of bytes sent in one piece. The frame limit of a transport is 64 MiB or more, and
/// a frame has a header besides its contents.
pub(crate) const PIECE_BYTES_MAX: usize = 60 << 20;
