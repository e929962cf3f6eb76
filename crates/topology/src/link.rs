//! One link as a few numbers: its effect on packets, and the silence that its ends accept.

use crate::units::{Bandwidth, Latency};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use std::time::Duration;
use thiserror::Error;

/// One direction of a link. The fields are plain numbers so that a caller can change one of them;
/// [`Link::validate`] checks that they are consistent, and deserialisation calls it.
///
/// ```
/// use gridspan_topology::{Latency, Link};
///
/// let link = Link::wan().with_latency(Latency::from_millis(32)).with_loss(0.001);
/// assert_eq!(link.validate(), Ok(()));
/// assert!(link.with_loss(1.5).validate().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
#[non_exhaustive]
pub struct Link {
    /// Latency of the first byte, one way. At most [`Link::MAX_DELAY`], including jitter.
    pub latency: Latency,
    /// Rate at which bytes follow each other.
    pub bandwidth: Bandwidth,
    /// Maximum additional delay of a packet, drawn uniformly from `0..=jitter`, so that the mean
    /// delay is `latency + jitter / 2`.
    pub jitter: Duration,
    /// Probability, `0.0..=1.0`, that a packet is lost.
    pub loss: f64,
    /// Maximum number of queued bytes; a packet that would exceed it is dropped (drop-tail). The
    /// packet being sent is not queued. [`Link::UNLIMITED_QUEUE`] drops nothing.
    pub queue_bytes: u64,
    /// Whether jitter may make a packet overtake another. Otherwise a packet that would overtake
    /// arrives together with the previous one.
    pub reorder: bool,
    /// Silence after which the receiving node declares the sending one lost, within
    /// [`Link::LOST_AFTER`]; `None` for that of the job. It has no effect on packets.
    pub lost_after: Option<Duration>,
}

impl Link {
    /// Maximum latency plus jitter of a valid link. The unit of a longer delay is probably wrong.
    pub const MAX_DELAY: Duration = Duration::from_secs(3600);
    /// The `queue_bytes` of a link that never drops a packet because its queue is full.
    pub const UNLIMITED_QUEUE: u64 = u64::MAX;
    /// The least and the greatest `lost_after`: less than a second is shorter than pauses of
    /// healthy nodes.
    pub const LOST_AFTER: RangeInclusive<Duration> =
        Duration::from_secs(1)..=Duration::from_secs(86_400);

    /// Creates a link of the given latency and bandwidth without jitter, loss or queue limit.
    pub const fn new(latency: Latency, bandwidth: Bandwidth) -> Self {
        Self {
            latency,
            bandwidth,
            jitter: Duration::ZERO,
            loss: 0.0,
            queue_bytes: Self::UNLIMITED_QUEUE,
            reorder: false,
            lost_after: None,
        }
    }

    /// Creates a link without effect: no delay, no limit.
    pub const fn perfect() -> Self {
        Self::new(Latency::ZERO, Bandwidth::UNLIMITED)
    }

    /// Creates a link between processes of one machine: 20 µs, 40 Gbit/s.
    pub const fn loopback() -> Self {
        Self::new(Latency::from_micros(20), Bandwidth::from_bits_per_second(40_000_000_000))
    }

    /// Creates the default link within a site: 50 µs, 10 Gbit/s.
    pub const fn lan() -> Self {
        Self::new(Latency::from_micros(50), Bandwidth::from_bits_per_second(10_000_000_000))
    }

    /// Creates the default link between sites: 10 ms one way, 1 Gbit/s.
    pub const fn wan() -> Self {
        Self::new(Latency::from_millis(10), Bandwidth::from_bits_per_second(1_000_000_000))
    }

    /// Sets the latency.
    pub const fn with_latency(mut self, latency: Latency) -> Self {
        self.latency = latency;
        self
    }

    /// Sets the bandwidth.
    pub const fn with_bandwidth(mut self, bandwidth: Bandwidth) -> Self {
        self.bandwidth = bandwidth;
        self
    }

    /// Sets the jitter.
    pub const fn with_jitter(mut self, jitter: Duration) -> Self {
        self.jitter = jitter;
        self
    }

    /// Sets the probability of loss.
    pub const fn with_loss(mut self, loss: f64) -> Self {
        self.loss = loss;
        self
    }

    /// Sets the queue limit in bytes.
    pub const fn with_queue_bytes(mut self, queue_bytes: u64) -> Self {
        self.queue_bytes = queue_bytes;
        self
    }

    /// Sets whether jitter may reorder packets.
    pub const fn with_reorder(mut self, reorder: bool) -> Self {
        self.reorder = reorder;
        self
    }

    /// Sets the silence after which the sending node is lost.
    pub const fn with_lost_after(mut self, lost_after: Duration) -> Self {
        self.lost_after = Some(lost_after);
        self
    }

    /// Checks the numbers. Fails if the loss is no probability, latency and jitter together exceed
    /// [`Link::MAX_DELAY`], or the accepted silence is not within [`Link::LOST_AFTER`].
    pub fn validate(&self) -> Result<(), LinkError> {
        if !(0.0..=1.0).contains(&self.loss) {
            return Err(LinkError::Loss { loss: self.loss });
        }
        let delay = self.latency.duration().saturating_add(self.jitter);
        if delay > Self::MAX_DELAY {
            return Err(LinkError::Delay { delay });
        }
        if let Some(silence) = self.lost_after.filter(|silence| !Self::LOST_AFTER.contains(silence))
        {
            return Err(LinkError::LostAfter { silence });
        }
        Ok(())
    }
}

/// Error of a link. Nothing was changed; correct the number named.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The loss is not a probability.
    #[error("a loss of {loss} is not a probability; write one between 0 and 1")]
    Loss {
        /// The rejected value.
        loss: f64,
    },
    /// The latency and the jitter together exceed [`Link::MAX_DELAY`].
    #[error("latency plus jitter is {delay:?}; write at most an hour")]
    Delay {
        /// Latency plus jitter.
        delay: Duration,
    },
    /// The silence after which a node is lost is too short or too long.
    #[error("a node cannot be lost after {silence:?} of silence; write between 1 s and a day")]
    LostAfter {
        /// The rejected value.
        silence: Duration,
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
    lost_after: Option<Duration>,
}

impl TryFrom<Unchecked> for Link {
    type Error = LinkError;

    fn try_from(raw: Unchecked) -> Result<Self, LinkError> {
        let Unchecked { latency, bandwidth, jitter, loss, queue_bytes, reorder, lost_after } = raw;
        let link = Self { latency, bandwidth, jitter, loss, queue_bytes, reorder, lost_after };
        link.validate()?;
        Ok(link)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_predefined_links_are_valid() {
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
    fn silence_of_less_than_a_second_or_more_than_a_day_is_refused() {
        for millis in [999, 86_400_001] {
            let silence = Duration::from_millis(millis);
            let refused = Link::wan().with_lost_after(silence).validate();
            assert_eq!(refused, Err(LinkError::LostAfter { silence }));
        }
        assert_eq!(Link::wan().with_lost_after(Duration::from_secs(60)).validate(), Ok(()));
    }

    #[test]
    fn invalid_links_are_not_deserialised() {
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
