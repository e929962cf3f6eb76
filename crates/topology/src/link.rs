//! One link as a handful of numbers: what a packet meets between two places.

use crate::units::{Bandwidth, Latency};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use thiserror::Error;

/// One direction of a link. The fields are plain numbers so that a caller can change one of them;
/// [`Link::validate`] says whether they make sense together, and deserialising does so by itself.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Link {
    /// How long the first byte takes, one way. At most [`Link::MAX_DELAY`], jitter included.
    pub latency: Latency,
    /// How fast bytes follow each other.
    pub bandwidth: Bandwidth,
    /// Each packet takes a further time drawn uniformly from `0..=jitter`, so that the mean delay
    /// is `latency + jitter / 2`.
    pub jitter: Duration,
    /// The probability, `0.0..=1.0`, that a packet is lost on its way.
    pub loss: f64,
    /// How many bytes may wait for their turn; a packet that would exceed this is dropped
    /// (drop-tail). The packet being sent does not wait. [`Link::UNLIMITED_QUEUE`] drops nothing.
    pub queue_bytes: u64,
    /// Whether jitter may make a packet overtake another. Otherwise a packet that would overtake
    /// arrives together with the one before it.
    pub reorder: bool,
}

impl Link {
    /// The longest latency plus jitter of a valid link: beyond an hour a unit was surely mistaken.
    pub const MAX_DELAY: Duration = Duration::from_secs(3600);
    /// The `queue_bytes` of a link that never drops for want of room.
    pub const UNLIMITED_QUEUE: u64 = u64::MAX;

    /// A link of the given delay and rate without jitter, loss or queue limit.
    pub const fn new(latency: Latency, bandwidth: Bandwidth) -> Self {
        Self {
            latency,
            bandwidth,
            jitter: Duration::ZERO,
            loss: 0.0,
            queue_bytes: Self::UNLIMITED_QUEUE,
            reorder: false,
        }
    }

    /// A link that changes nothing: no delay, no limit.
    pub const fn perfect() -> Self {
        Self::new(Latency::ZERO, Bandwidth::UNLIMITED)
    }

    /// Between processes of one machine: 20 µs, 40 Gbit/s.
    pub const fn loopback() -> Self {
        Self::new(Latency::from_micros(20), Bandwidth::from_bits_per_second(40_000_000_000))
    }

    /// The default inside a site: 50 µs, 10 Gbit/s.
    pub const fn lan() -> Self {
        Self::new(Latency::from_micros(50), Bandwidth::from_bits_per_second(10_000_000_000))
    }

    /// The default between sites: 10 ms one way, 1 Gbit/s.
    pub const fn wan() -> Self {
        Self::new(Latency::from_millis(10), Bandwidth::from_bits_per_second(1_000_000_000))
    }

    /// The same link with another latency.
    pub const fn with_latency(mut self, latency: Latency) -> Self {
        self.latency = latency;
        self
    }

    /// The same link with another bandwidth.
    pub const fn with_bandwidth(mut self, bandwidth: Bandwidth) -> Self {
        self.bandwidth = bandwidth;
        self
    }

    /// The same link with another jitter.
    pub const fn with_jitter(mut self, jitter: Duration) -> Self {
        self.jitter = jitter;
        self
    }

    /// The same link with another probability of loss.
    pub const fn with_loss(mut self, loss: f64) -> Self {
        self.loss = loss;
        self
    }

    /// The same link with another queue limit, in bytes.
    pub const fn with_queue_bytes(mut self, queue_bytes: u64) -> Self {
        self.queue_bytes = queue_bytes;
        self
    }

    /// The same link, on which jitter may or may not reorder packets.
    pub const fn with_reorder(mut self, reorder: bool) -> Self {
        self.reorder = reorder;
        self
    }

    /// Whether the numbers make sense.
    pub fn validate(&self) -> Result<(), LinkError> {
        if !(0.0..=1.0).contains(&self.loss) {
            return Err(LinkError::Loss { loss: self.loss });
        }
        let delay = self.latency.duration().saturating_add(self.jitter);
        if delay > Self::MAX_DELAY {
            return Err(LinkError::Delay { delay });
        }
        Ok(())
    }
}

/// Why a link makes no sense. Nothing was changed; correct the number named.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum LinkError {
    /// The loss is not a probability.
    #[error("a loss of {loss} is no probability; write one between 0% and 100%")]
    Loss {
        /// The value refused.
        loss: f64,
    },
    /// The latency and the jitter together exceed [`Link::MAX_DELAY`].
    #[error("latency plus jitter is {delay:?}; write at most an hour")]
    Delay {
        /// Latency plus jitter.
        delay: Duration,
    },
}

/// A link from outside, before validation.
#[derive(Deserialize)]
struct Unchecked {
    latency: Latency,
    bandwidth: Bandwidth,
    jitter: Duration,
    loss: f64,
    queue_bytes: u64,
    reorder: bool,
}

impl TryFrom<Unchecked> for Link {
    type Error = LinkError;

    fn try_from(raw: Unchecked) -> Result<Self, LinkError> {
        let Unchecked { latency, bandwidth, jitter, loss, queue_bytes, reorder } = raw;
        let link = Self { latency, bandwidth, jitter, loss, queue_bytes, reorder };
        link.validate()?;
        Ok(link)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ready_made_links_are_valid() {
        for link in [Link::perfect(), Link::loopback(), Link::lan(), Link::wan()] {
            assert_eq!(link.validate(), Ok(()));
        }
    }

    #[test]
    fn a_loss_outside_zero_to_one_is_refused() {
        for loss in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert!(matches!(Link::wan().with_loss(loss).validate(), Err(LinkError::Loss { .. })));
        }
        assert_eq!(Link::wan().with_loss(1.0).validate(), Ok(()));
    }

    #[test]
    fn more_than_an_hour_of_delay_is_refused() {
        let link = Link::wan()
            .with_latency(Latency(Duration::from_secs(3600)))
            .with_jitter(Duration::from_nanos(1));

        let refused = link.validate();

        assert_eq!(refused, Err(LinkError::Delay { delay: Duration::new(3600, 1) }));
    }

    #[test]
    fn deserialising_refuses_what_validation_refuses() {
        let text = |loss: f64, bandwidth: u64| {
            format!(
                "latency = {{ secs = 0, nanos = 7 }}\nbandwidth = {bandwidth}\n\
                 jitter = {{ secs = 0, nanos = 0 }}\nloss = {loss:?}\nqueue_bytes = 9\n\
                 reorder = false"
            )
        };

        assert!(toml::from_str::<Link>(&text(0.5, 8)).is_ok());
        assert!(toml::from_str::<Link>(&text(1.5, 8)).is_err());
        let slow = toml::from_str::<Link>(&text(0.5, 0)).unwrap();
        assert_eq!(slow.bandwidth.bits_per_second(), 1, "zero would divide by zero");
    }
}
