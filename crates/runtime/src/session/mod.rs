//! Exactly-once frames between two nodes over a connection that may be lost and made again.
//!
//! A session is what stays while connections come and go. It is pure: it numbers, keeps, releases
//! and sorts out frames, and whoever owns the connection moves the bytes.
//!
//! # Start
//!
//! Both nodes begin with nothing sent and nothing received. There are two lanes, each numbered on
//! its own from zero: [`Class::Small`] frames share one ordered stream and stay in the order sent;
//! each [`Class::Bulk`] frame has a stream of its own, so that bulk frames overtake each other and
//! never hold small ones up. With a number per lane, a receiver describes all it has in a few
//! words ([`Received`]): small frames have no gaps, and bulk frames have no more gaps than frames
//! were under way at once.
//!
//! # Steady state
//!
//! The [`Sender`] keeps every frame (a reference, not a copy) until the other side acknowledges it.
//! The [`Receiver`] acknowledges a frame only after it has handed it up. Acknowledgements describe
//! the whole state, so that one that is lost, repeated or late does no harm.
//!
//! # Failure
//!
//! When a connection is lost, nothing is known about the frames under way. On the next connection
//! each side first says what it has received; the other forgets those frames and sends exactly
//! the missing ones again, in order, before new ones. Frames that arrive twice all the same (a late
//! packet of the old connection) are dropped by their number. A node that stays silent for too
//! long ([`Detector`]) ends the session; a new life of the node has a new session.
//!
//! [`PlantedFault`] breaks one of these rules on purpose, for tests that prove that such a bug
//! would be found.

mod detector;
mod fault;
mod received;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use detector::{Detector, DetectorSettings, Health, LocalHealth, crowding_factor};
pub use fault::PlantedFault;
pub use received::{Class, Received};
pub use receiver::{FrameVerdict, Receiver};
pub use sender::{AcknowledgementError, Backlog, Sender};

/// Both directions of the session with one other node.
#[derive(Debug)]
pub struct Session {
    /// What this node sends.
    pub sender: Sender,
    /// What this node receives.
    pub receiver: Receiver,
}

impl Session {
    /// A session with nothing sent and nothing received, which keeps at most `retained_bytes_max`
    /// unacknowledged bytes.
    pub fn new(retained_bytes_max: u64, fault: PlantedFault) -> Self {
        Self { sender: Sender::new(retained_bytes_max, fault), receiver: Receiver::new(fault) }
    }
}
