//! The receiving side: hands each frame up once and remembers which it had.

use super::fault::PlantedFault;
use super::received::{Class, Received};

/// What to do with a frame that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameVerdict {
    /// Hand it up.
    Deliver,
    /// Drop it, it was handed up before.
    Duplicate,
    /// Close the connection: a correct sender would have sent `expected` first.
    OutOfOrder {
        /// The first number that is missing.
        expected: u64,
    },
}

/// Frames that arrive from one node.
#[derive(Debug)]
pub struct Receiver {
    received: Received,
    /// Frames and bytes handed up since the last acknowledgement was sent.
    unacknowledged: (u64, u64),
    fault: PlantedFault,
}

impl Receiver {
    pub(super) fn new(fault: PlantedFault) -> Self {
        Self { received: Received::default(), unacknowledged: (0, 0), fault }
    }

    /// A bulk frame began to arrive. It is received only when all of it is here.
    pub fn begin_bulk(&mut self, number: u64) {
        if self.fault == PlantedFault::AcknowledgeBeforeApply && !self.received.has_bulk(number) {
            self.received.add_bulk(number);
        }
    }

    /// A whole frame of `bytes` is here. On [`FrameVerdict::Deliver`] it counts as received, so the
    /// caller must hand it up before it does anything else with this session.
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
            (Class::Small, PlantedFault::ResendWithoutSequence) => {
                self.received.small = self.received.small.max(number + 1);
                FrameVerdict::Deliver
            }
            (Class::Bulk, PlantedFault::ResendWithoutSequence) => {
                self.received.bulk = self.received.bulk.max(number + 1);
                FrameVerdict::Deliver
            }
            (Class::Bulk, PlantedFault::AcknowledgeBeforeApply) => FrameVerdict::Deliver,
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

    /// What to tell the other side.
    pub fn received(&self) -> &Received {
        &self.received
    }

    /// Begins a new connection; returns what to tell the other side first.
    pub fn resume(&mut self) -> Received {
        if self.fault == PlantedFault::ForgottenReceiveState {
            self.received = Received::default();
        }
        self.received.clone()
    }

    /// Frames and bytes handed up since [`acknowledged`](Self::acknowledged) was last called.
    pub fn unacknowledged(&self) -> (u64, u64) {
        self.unacknowledged
    }

    /// The other side was told what was received.
    pub fn acknowledged(&mut self) {
        self.unacknowledged = (0, 0);
    }
}
