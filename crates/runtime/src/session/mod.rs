//! Exactly-once frames between two nodes over a connection that may break and be re-established.
//!
//! A session outlives its connections. It is pure: it numbers frames, keeps them until they are
//! acknowledged and drops duplicates, while the owner of the connection moves the bytes.
//!
//! # Start
//!
//! Both nodes begin with nothing sent and nothing received. There are two lanes, each numbered
//! separately from zero: [`Class::Small`] frames share one ordered stream and stay in the order
//! sent; each [`Class::Bulk`] frame has its own stream, so that bulk frames overtake each other and
//! never delay small ones. With a number per lane, a receiver describes all received frames
//! compactly ([`Received`]): small frames have no gaps, and bulk frames have no more gaps than
//! frames were under way at once.
//!
//! # Steady state
//!
//! The [`Sender`] keeps every frame (a reference, not a copy) until the other side acknowledges it.
//! The [`Receiver`] acknowledges a frame only after it has delivered it. Acknowledgements describe
//! the whole state, so that a lost, repeated or late one does no harm.
//!
//! # Failure
//!
//! When a connection breaks, a sender does not know which frames under way have arrived. On the
//! next connection each side first sends its [`Received`]; the other side releases those frames and
//! sends exactly the missing ones again, in order, before new ones. If a frame arrives twice anyway
//! (a late packet of the old connection), the receiver drops it by its number. A node that stays
//! silent for too long ([`Detector`]) ends the session; a new incarnation of the node has a new
//! session.
//!
//! [`PlantedSessionFault`] breaks one of these rules on purpose, for tests that prove that such a
//! bug would be found.

mod detector;
mod fault;
mod received;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use detector::{
    Detector, DetectorSettings, Health, LOST_ROUND_TRIPS, LocalHealth, crowding_factor,
};
pub use fault::PlantedSessionFault;
pub use received::{Class, Received};
pub use receiver::{FrameVerdict, Receiver};
pub use sender::{AcknowledgementError, Backlog, Sender};

/// Both directions of the session with one other node.
#[derive(Debug)]
pub struct Session {
    /// Frames from this node.
    pub sender: Sender,
    /// Frames to this node.
    pub receiver: Receiver,
}

impl Session {
    /// Creates a session with nothing sent and nothing received, which keeps at most
    /// `retained_bytes_max` unacknowledged bytes.
    pub fn new(retained_bytes_max: u64, fault: PlantedSessionFault) -> Self {
        Self { sender: Sender::new(retained_bytes_max, fault), receiver: Receiver::new(fault) }
    }
}
