//! What a machine wants its host to do.

use super::message::StealMessage;
use gridspan_topology::{NodeId, Time};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What the host is to do, in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Send this message.
    Send {
        /// To this node, never to itself.
        to: NodeId,
        /// What to say.
        message: StealMessage,
    },
    /// Take the oldest tasks that nobody runs, ship them with `grant`, and report how many it were
    /// to [`Stealing::handle_given`](super::Stealing::handle_given). If there are none, ship
    /// nothing and report that.
    Grant {
        /// To this node, never to itself.
        to: NodeId,
        /// How many.
        amount: Amount,
        /// Handed to the receiver's
        /// [`Stealing::handle_received`](super::Stealing::handle_received).
        grant: Grant,
    },
    /// Call [`Stealing::handle_timeout`](super::Stealing::handle_timeout) then. It replaces an
    /// earlier time.
    WakeAt(Time),
}

/// How many tasks to give, of those that could be taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// The oldest.
    One,
    /// Half of them, rounded up, so that a single one can be had.
    Half,
    /// At most so many.
    UpTo(u64),
}

impl Amount {
    /// How many that are, if there are `stock`.
    pub fn of(self, stock: u64) -> u64 {
        match self {
            Self::One => stock.min(1),
            Self::Half => stock.div_ceil(2),
            Self::UpTo(limit) => stock.min(limit),
        }
    }
}

/// What travels with tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Grant {
    /// They answer a request of the receiver.
    Answer,
    /// They follow a lifeline of the receiver.
    Lifeline,
    /// A directory had them sent.
    Directory {
        /// How many it asked for. There may be fewer: the holder had not as many, or they would
        /// not have fitted into one packet.
        meant: u64,
        /// One way to the receiver, if it is one of another site; else zero.
        way: Duration,
    },
}
