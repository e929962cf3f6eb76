//! Congestion control for long links: Cubic that does not take bad luck for congestion.
//!
//! A long link loses packets for two reasons: its queue is full, or it is noisy. Cubic halves its
//! rate, more or less, for either, and at 1 % loss and 50 ms it ends at 3 Mbit/s whatever the link
//! could carry. This controller tells the two apart by what else they do:
//!
//! # Start
//!
//! Slow start from a window that fits the path, doubled each round trip, until the first sign of
//! congestion.
//!
//! # Steady state
//!
//! The window grows by Cubic's curve (RFC 9438). A loss counts as bad luck, and changes
//! nothing, as long as both hold:
//!
//! - **No queue.** The smallest round trip of the latest round is within [`QUEUE_SHARE`] of the
//!   smallest of the last [`BASE_AGE`] (at least [`QUEUE_MIN`]): packets do not wait, so no queue overflows.
//! - **Little loss.** The share of lost packets, over the last [`LOSS_MEMORY`] or so,
//!   stays below [`LOSS_TOLERATED`]. A queue that is too short to be seen in the round trip, and
//!   a policer, thus still push back, as with BBRv2, whose threshold is similar.
//!
//! # Failure
//!
//! Any other loss, and congestion that routers mark (ECN), is answered as Cubic does, by 0.7. When
//! at least [`FLOOD_SHARE`] of a round was lost, the start was far too fast: the window becomes what
//! the last round delivered. Persistent congestion resets it to the minimum.
//!
//! # Fairness and bounds
//!
//! Beside Cubic flows in a full queue it is Cubic, with the same curve and the same factor. On a
//! noisy link it takes the capacity that Cubic would leave unused. It never holds more than `window_max` in flight
//! and never causes more than [`LOSS_TOLERATED`] loss for longer than the memory of losses.

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory};
use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The share of lost packets that is taken for bad luck. Noisy links lose up to 2 %; what a queue
/// loses when it overflows is far more, or comes with waiting.
const LOSS_TOLERATED: f64 = 0.04;
/// The number of packets over which the share of losses is averaged.
const LOSS_MEMORY: f64 = 400.0;
/// How much longer than the shortest a round trip may be without there being a queue.
const QUEUE_SHARE: f64 = 0.15;
/// The same as a minimum, since schedulers and interrupts delay packets as well.
const QUEUE_MIN: Duration = Duration::from_millis(4);
/// For how long the shortest round trip counts; routes change.
const BASE_AGE: Duration = Duration::from_secs(30);
/// The share of a round that must be lost for the window to fall to what was delivered.
const FLOOD_SHARE: f64 = 0.25;
/// Cubic's factor after a loss and growth constant (RFC 9438, section 4).
const BETA: f64 = 0.7;
const C: f64 = 0.4;

/// Makes [`LossTolerant`] controllers.
#[derive(Clone, Debug)]
pub struct LossTolerantConfig {
    /// Bytes in flight at the start.
    pub initial_window: u64,
    /// Bytes in flight at most.
    pub window_max: u64,
}

impl ControllerFactory for LossTolerantConfig {
    fn build(self: Arc<Self>, _now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(LossTolerant::new(&self, current_mtu))
    }
}

/// The controller of one connection.
#[derive(Clone, Debug)]
pub struct LossTolerant {
    initial_window: u64,
    window_max: u64,
    mtu: u64,
    window: u64,
    slow_start: bool,
    /// When the curve began, and where it flattens.
    epoch: Option<Instant>,
    plateau: f64,
    /// Packets sent before this are part of an answered congestion.
    recovery: Option<Instant>,
    /// Fraction of a packet by which the window has grown.
    growth: f64,
    base: Shortest,
    round: Round,
    /// The smallest round trip of the last complete round.
    round_trip: Option<Duration>,
    /// Moving share of lost packets.
    loss_share: f64,
    /// Bytes acknowledged and lost in this round and the one before.
    acknowledged: (u64, u64),
    lost: (u64, u64),
}

/// The shortest round trip of the last [`BASE_AGE`], kept for two halves of it.
#[derive(Clone, Copy, Debug)]
struct Shortest {
    current: Duration,
    before: Duration,
    since: Option<Instant>,
}

impl Shortest {
    fn update(&mut self, now: Instant, sample: Duration) {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) > BASE_AGE / 2 {
            self.before = self.current;
            self.current = sample;
            self.since = Some(now);
        }
        self.current = self.current.min(sample);
    }

    fn get(&self) -> Duration {
        self.current.min(self.before)
    }
}

/// One round trip: it ends when a packet sent after its begin is acknowledged.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    began: Option<Instant>,
    shortest: Option<Duration>,
}

impl LossTolerant {
    fn new(config: &LossTolerantConfig, mtu: u16) -> Self {
        Self {
            initial_window: config.initial_window,
            window_max: config.window_max,
            mtu: mtu.into(),
            window: config.initial_window,
            slow_start: true,
            epoch: None,
            plateau: 0.0,
            recovery: None,
            growth: 0.0,
            base: Shortest { current: Duration::MAX, before: Duration::MAX, since: None },
            round: Round::default(),
            round_trip: None,
            loss_share: 0.0,
            acknowledged: (0, 0),
            lost: (0, 0),
        }
    }

    fn minimum_window(&self) -> u64 {
        4 * self.mtu
    }

    /// Whether packets waited in a queue during the last round.
    fn is_queueing(&self) -> bool {
        let base = self.base.get();
        let Some(round_trip) = self.round_trip.or(self.round.shortest) else { return false };
        round_trip.saturating_sub(base) > QUEUE_MIN.max(base.mul_f64(QUEUE_SHARE))
    }

    fn note_packets(&mut self, bytes: u64, lost: bool) {
        let weight = (bytes as f64 / self.mtu as f64 / LOSS_MEMORY).min(1.0);
        self.loss_share += (f64::from(u8::from(lost)) - self.loss_share) * weight;
    }

    fn grow(&mut self, now: Instant, bytes: u64, rtt: Duration) {
        if self.slow_start {
            self.window += bytes;
        } else {
            let mtu = self.mtu as f64;
            let epoch = *self.epoch.get_or_insert(now);
            let window = self.window as f64 / mtu;
            let plateau = self.plateau / mtu;
            let k = ((plateau - plateau * BETA).max(0.0) / C).cbrt();
            let t = (now.saturating_duration_since(epoch) + rtt).as_secs_f64();
            let cubic = C * (t - k).powi(3) + plateau;
            // What Reno would have by now, so as not to be slower than it on short paths.
            let reno = plateau * BETA
                + 3.0 * (1.0 - BETA) / (1.0 + BETA) * t / rtt.as_secs_f64().max(1e-6);
            let target = cubic.max(reno).min(window * 1.5);
            self.growth += ((target - window) / window).max(0.0) * bytes as f64 / mtu;
            let packets = self.growth.floor();
            self.growth -= packets;
            self.window += (packets * mtu) as u64;
        }
        self.window = self.window.min(self.window_max);
    }

    fn reduce(&mut self, now: Instant) {
        let window = self.window as f64;
        // Fast convergence: a flow that is still shrinking leaves room for others.
        self.plateau = if window < self.plateau { window * (1.0 + BETA) / 2.0 } else { window };
        let acknowledged = self.acknowledged.0 + self.acknowledged.1;
        let lost = self.lost.0 + self.lost.1;
        let mut reduced = window * BETA;
        if lost as f64 >= FLOOD_SHARE * (lost + acknowledged) as f64 {
            reduced = reduced.min(acknowledged.max(self.acknowledged.1) as f64);
            self.plateau = reduced / BETA;
        }
        self.window = (reduced as u64).max(self.minimum_window());
        self.slow_start = false;
        self.epoch = Some(now);
        self.recovery = Some(now);
        self.growth = 0.0;
    }
}

impl Controller for LossTolerant {
    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        let sample = now.saturating_duration_since(sent);
        self.base.update(now, sample);
        self.note_packets(bytes, false);
        self.acknowledged.0 += bytes;
        self.round.shortest = Some(self.round.shortest.map_or(sample, |s| s.min(sample)));
        if self.round.began.is_none_or(|began| sent >= began) {
            self.round_trip = self.round.shortest;
            self.round = Round { began: Some(now), shortest: None };
            self.acknowledged = (0, self.acknowledged.0);
            self.lost = (0, self.lost.0);
        }
        if app_limited || self.recovery.is_some_and(|recovery| sent <= recovery) {
            return;
        }
        self.grow(now, bytes, rtt.get());
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        let is_mark = lost_bytes == 0;
        self.note_packets(lost_bytes, true);
        self.lost.0 += lost_bytes;
        if is_persistent_congestion {
            self.reduce(now);
            self.window = self.minimum_window();
            self.plateau = self.window as f64;
            return;
        }
        if self.recovery.is_some_and(|recovery| sent <= recovery) {
            return;
        }
        if is_mark || self.is_queueing() || self.loss_share > LOSS_TOLERATED {
            self.reduce(now);
        }
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = new_mtu.into();
        self.window = self.window.max(self.minimum_window());
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.initial_window
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
