//! The receiving side: delivers each frame once and remembers the received ones.

use super::fault::PlantedSessionFault;
use super::received::{Class, Received};

/// Treatment of a frame that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameVerdict {
    /// Deliver it.
    Deliver,
    /// Drop it; it was delivered before.
    Duplicate,
    /// Close the connection: a correct sender would have sent `expected` first.
    OutOfOrder {
        /// The first missing number.
        expected: u64,
    },
}

/// Frames that arrive from one node.
#[derive(Debug)]
pub struct Receiver {
    received: Received,
    /// Frames and bytes delivered since the last acknowledgement was sent.
    unacknowledged: (u64, u64),
    fault: PlantedSessionFault,
}

impl Receiver {
    pub(super) fn new(fault: PlantedSessionFault) -> Self {
        Self { received: Received::default(), unacknowledged: (0, 0), fault }
    }

    /// Notes that a bulk frame has begun to arrive. It counts as received once it is complete.
    pub fn begin_bulk(&mut self, number: u64) {
        if self.fault == PlantedSessionFault::AcknowledgeBeforeApply
            && !self.received.has_bulk(number)
        {
            self.received.add_bulk(number);
        }
    }

    /// Handles a complete frame of `bytes` bytes. On [`FrameVerdict::Deliver`] it counts as
    /// received, so the caller must deliver it before it does anything else with this session.
    pub fn accept(&mut self, class: Class, number: u64, bytes: u64) -> FrameVerdict {
        let verdict = self.judge(class, number);
        if verdict == FrameVerdict::Deliver {
            self.unacknowledged.0 += 1;
            self.unacknowledged.1 += bytes;
        }
        verdict
    }

    fn judge(&mut self, class: Class, number: u64) -> FrameVerdict {
        match (class, self.fault) {
            (Class::Small, PlantedSessionFault::ResendWithoutSequence) => {
                self.received.small = self.received.small.max(number + 1);
                FrameVerdict::Deliver
            }
            (Class::Bulk, PlantedSessionFault::ResendWithoutSequence) => {
                self.received.bulk = self.received.bulk.max(number + 1);
                FrameVerdict::Deliver
            }
            (Class::Bulk, PlantedSessionFault::AcknowledgeBeforeApply) => FrameVerdict::Deliver,
            (Class::Small, _) if number < self.received.small => FrameVerdict::Duplicate,
            (Class::Small, _) if number > self.received.small => {
                FrameVerdict::OutOfOrder { expected: self.received.small }
            }
            (Class::Small, _) => {
                self.received.small += 1;
                FrameVerdict::Deliver
            }
            (Class::Bulk, _) if self.received.has_bulk(number) => FrameVerdict::Duplicate,
            (Class::Bulk, _) if number - self.received.bulk >= Received::BULK_AHEAD_MAX => {
                FrameVerdict::OutOfOrder { expected: self.received.bulk }
            }
            (Class::Bulk, _) => {
                self.received.add_bulk(number);
                FrameVerdict::Deliver
            }
        }
    }

    /// Returns the received frames, for the other side.
    pub fn received(&self) -> &Received {
        &self.received
    }

    /// Starts a new connection; returns the received frames, to be sent to the other side first.
    pub fn resume(&mut self) -> Received {
        if self.fault == PlantedSessionFault::ForgottenReceiveState {
            self.received = Received::default();
        }
        self.received.clone()
    }

    /// Returns the frames and bytes delivered since the last call of
    /// [`acknowledged`](Self::acknowledged).
    pub fn unacknowledged(&self) -> (u64, u64) {
        self.unacknowledged
    }

    /// Notes that an acknowledgement was sent to the other side.
    pub fn acknowledged(&mut self) {
        self.unacknowledged = (0, 0);
    }
}
