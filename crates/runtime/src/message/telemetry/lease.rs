//! The messages between the nodes of a job that is watched.

use super::sample::TelemetrySample;
use crate::message::codec::{self, DecodeError};
use gridspan_topology::NodeId;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Largest size of a sample, in bytes, and of all samples together that reach the root in a period.
pub const SAMPLE_BYTES_MAX: usize = 64 << 10;

/// Room for the encoded sample of a node with a few PEs and actor types, so that it does not grow.
const NODE_BYTES: usize = 512;

/// Bounds of the period in milliseconds: a shorter one would cost too much, and a longer one would
/// show old numbers.
const PERIOD_MS: (u32, u32) = (200, 60_000);
/// Number of periods that a lease lasts, so that a late renewal does not end it.
const PERIODS: u32 = 3;
/// Shortest time that a lease lasts: more than a round trip over several slow links.
const LASTS_MIN: Duration = Duration::from_secs(5);

/// A request for samples of a job for some time.
///
/// ```
/// use gridspan_runtime::message::telemetry::TelemetryLease;
/// use std::time::Duration;
///
/// let lease = TelemetryLease { period_ms: 1000, focus: None };
/// assert_eq!(lease.period(), Duration::from_secs(1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TelemetryLease {
    /// Time between two samples, in milliseconds; from 200 to 60,000.
    pub period_ms: u32,
    /// The node whose PEs are listed, even if there are too many PEs to list all.
    pub focus: Option<NodeId>,
}

impl TelemetryLease {
    /// Returns the time between two samples, within its bounds.
    pub fn period(self) -> Duration {
        Duration::from_millis(self.period_ms.clamp(PERIOD_MS.0, PERIOD_MS.1).into())
    }

    /// Returns how long the lease lasts.
    pub(crate) fn lasts(self) -> Duration {
        (self.period() * PERIODS).max(LASTS_MIN)
    }
}

/// A message between two nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TelemetryMessage {
    /// From a parent: a lease that begins or goes on.
    Lease(TelemetryLease),
    /// From a child.
    Sample(Box<TelemetrySample>),
}

impl TelemetryMessage {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(NODE_BYTES);
        codec::append(self, &mut bytes);
        bytes
    }

    /// Reads a message of at most [`SAMPLE_BYTES_MAX`] bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        const WHAT: &str = "a sample of the job";
        if bytes.len() > SAMPLE_BYTES_MAX {
            return Err(DecodeError::new(WHAT, format_args!("it has {} bytes", bytes.len())));
        }
        codec::decode(WHAT, bytes)
    }
}
