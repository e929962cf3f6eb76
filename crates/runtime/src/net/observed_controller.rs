//! Measures a connection from its acknowledgements: the shortest of the recent round trips, and the
//! bytes that have arrived.
//!
//! Other sources are too coarse. quinn reports only a smoothed round trip, which includes the time
//! that the receiver needs and the delay of queues that have long drained. The session counts only
//! whole frames, and a large frame arrives over many periods of the sampler. Congestion controllers
//! observe every packet. The controller here only observes, and leaves all decisions to the
//! controller that it wraps.

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Creates the controllers of another factory, wrapped in an [`ObservedController`].
pub(super) struct ObservedControllers(pub(super) Arc<dyn ControllerFactory + Send + Sync>);

impl ControllerFactory for ObservedControllers {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let inner = self.0.clone().build(now, current_mtu);
        let counts = Counts { least_ns: AtomicU64::new(u64::MAX), bytes: AtomicU64::new(0) };
        Box::new(ObservedController { inner, counts: Arc::new(counts) })
    }
}

/// Observes the controller `inner`. Copies share the observations.
struct ObservedController {
    inner: Box<dyn Controller>,
    counts: Arc<Counts>,
}

/// Observations since they were last taken.
struct Counts {
    /// The shortest round trip; the largest number if there was none.
    least_ns: AtomicU64,
    /// Bytes of the acknowledged packets.
    bytes: AtomicU64,
}

/// What the other side of a connection has acknowledged during some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Acknowledged {
    /// The shortest round trip; `None` if no packet was acknowledged.
    pub(super) round_trip: Option<Duration>,
    /// Bytes of the acknowledged packets.
    pub(super) bytes: u64,
}

/// Returns what was acknowledged since the last call.
pub(super) fn take_acknowledged(controller: &dyn Controller) -> Acknowledged {
    let observed = controller.clone_box().into_any().downcast::<ObservedController>();
    let Ok(observed) = observed else { return Acknowledged::default() };
    let ns = observed.counts.least_ns.swap(u64::MAX, Ordering::Relaxed);
    let round_trip = (ns < u64::MAX).then(|| Duration::from_nanos(ns));
    Acknowledged { round_trip, bytes: observed.counts.bytes.swap(0, Ordering::Relaxed) }
}

impl Controller for ObservedController {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.inner.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        let ns = now.saturating_duration_since(sent).as_nanos() as u64;
        self.counts.least_ns.fetch_min(ns, Ordering::Relaxed);
        self.counts.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest: Option<u64>,
    ) {
        self.inner.on_end_acks(now, in_flight, app_limited, largest);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        self.inner.on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.inner.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self { inner: self.inner.clone_box(), counts: self.counts.clone() })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quinn_proto::congestion::CubicConfig;

    #[test]
    fn observations_are_returned_once_and_the_wrapped_controller_sets_the_window() {
        let now = Instant::now();
        let cubic = Arc::new(CubicConfig::default());
        let controller = Arc::new(ObservedControllers(cubic.clone())).build(now, 1_200);
        assert_eq!(controller.window(), cubic.build(now, 1_200).window());
        assert_eq!(take_acknowledged(&*controller), Acknowledged::default());
        let seen = controller.clone_box().into_any().downcast::<ObservedController>().unwrap();
        // Not `on_ack`, because quinn's estimator cannot be created outside quinn.
        seen.counts.least_ns.fetch_min(7_000, Ordering::Relaxed);
        seen.counts.bytes.fetch_add(1_200, Ordering::Relaxed);
        let round_trip = Some(Duration::from_micros(7));
        assert_eq!(take_acknowledged(&*controller), Acknowledged { round_trip, bytes: 1_200 });
        assert_eq!(take_acknowledged(&*controller), Acknowledged::default());
    }
}
