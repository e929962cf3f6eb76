//! Commands of a machine to its host.

use super::message::StealMessage;
use gridspan_topology::{NodeId, Time};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// An action of the host; actions are carried out in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Send this message.
    Send {
        /// The receiver, never the node itself.
        to: NodeId,
        /// The message.
        message: StealMessage,
    },
    /// Take the oldest tasks that are not running, ship them with `grant`, and report their number
    /// to [`Stealing::handle_given`](super::Stealing::handle_given). If there are none, ship
    /// nothing and report 0.
    Grant {
        /// The receiver, never the node itself.
        to: NodeId,
        /// Number of tasks.
        amount: Amount,
        /// Passed to the receiver's
        /// [`Stealing::handle_received`](super::Stealing::handle_received).
        grant: Grant,
    },
    /// Call [`Stealing::handle_timeout`](super::Stealing::handle_timeout) at this time. It replaces
    /// an earlier time.
    WakeAt(Time),
}

/// Number of tasks to give, of those that could be taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Amount {
    /// The oldest task.
    One,
    /// Half of the tasks, rounded up, so that a single one can be stolen.
    Half,
    /// At most this number.
    UpTo(u64),
}

impl Amount {
    /// Returns the number of tasks if there are `stock`.
    pub fn of(self, stock: u64) -> u64 {
        match self {
            Self::One => stock.min(1),
            Self::Half => stock.div_ceil(2),
            Self::UpTo(limit) => stock.min(limit),
        }
    }
}

/// The reason for a grant, shipped with its tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Grant {
    /// The tasks answer a request of the receiver.
    Answer,
    /// The tasks follow a lifeline of the receiver.
    Lifeline,
    /// A directory ordered the tasks.
    Directory {
        /// Number of tasks ordered. There may be fewer, if the holder did not have enough or they
        /// did not fit into one packet.
        meant: u64,
        /// Latency to the receiver in one direction, if it belongs to another site; otherwise zero.
        way: Duration,
    },
}
