//! Congestion control for long links: Cubic that does not treat random loss as congestion.
//!
//! A long link loses packets for two reasons: its queue is full, or it is noisy. Cubic roughly
//! halves its rate for either, and at 1 % loss and 50 ms it settles at 3 Mbit/s whatever the
//! capacity of the link. This controller distinguishes the two by the round trips and by the share
//! of lost packets.
//!
//! # Start
//!
//! Slow start begins with a window that fits the path, and doubles it each round trip until all
//! packets of a round were queued (similar to HyStart++, RFC 9406). The window then becomes 1.25
//! times the measured bandwidth-delay product of the path. So the controller detects a deep queue
//! without filling it.
//!
//! # Steady state
//!
//! The window grows by Cubic's curve (RFC 9438), faster while there is no queue, and not at all
//! while packets are queued for longer than both the shortest round trip and [`WAIT_MIN`]. A loss
//! counts as random, and changes nothing, if both conditions hold:
//!
//! - **No queue.** The shortest round trip of the last round exceeds the shortest of the last
//!   [`BASE_AGE`] by at most [`QUEUE_SHARE`], or by at most [`QUEUE_MIN`] on short paths: packets
//!   are not queued, so no queue overflows.
//! - **Little loss.** The share of lost packets, over about the last [`LOSS_MEMORY`] packets, stays
//!   below [`LOSS_TOLERATED`]. So a policer, and a queue that is too short to show in the round
//!   trip, still reduce the rate, as with BBRv2, whose threshold is similar.
//!
//! # Failure
//!
//! Any other loss, and congestion that routers mark (ECN), reduces the window to 0.7 of its size as
//! in Cubic, at most once per round trip. If at least [`FLOOD_SHARE`] of the last two rounds was
//! lost, the start was far too fast, and the factor is 0.5. The window stays above 0.7 of the
//! measured bandwidth-delay product, except after persistent congestion, which resets it to the
//! minimum.
//!
//! # Fairness and bounds
//!
//! Beside Cubic flows in a full queue it behaves as Cubic, with the same curve and the same factor.
//! On a noisy link it uses the capacity that Cubic would leave unused. It never has more than
//! `window_max` in flight and never causes more than [`LOSS_TOLERATED`] loss for longer than about
//! [`LOSS_MEMORY`] packets.

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory};
use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Share of lost packets that counts as random. Noisy links lose up to 2 %; a queue that overflows
/// loses far more, or delays packets first.
const LOSS_TOLERATED: f64 = 0.04;
/// Number of packets over which the share of losses is averaged.
const LOSS_MEMORY: f64 = 400.0;
/// Share by which a round trip may exceed the shortest one without indicating a queue.
const QUEUE_SHARE: f64 = 0.15;
/// Least excess of a round trip that indicates a queue, since schedulers and interrupts delay
/// packets as well.
const QUEUE_MIN: Duration = Duration::from_millis(4);
/// Queueing delay up to which the window grows on any path.
const WAIT_MIN: Duration = Duration::from_millis(20);
/// Time for which the shortest round trip counts; routes change.
const BASE_AGE: Duration = Duration::from_secs(30);
/// Shortest span over which a rate is measured: several acknowledgements.
const SPAN_MIN: Duration = Duration::from_millis(5);
/// Least share by which the window grows each round trip while there is no queue. Cubic alone takes
/// minutes to refill a path with a large bandwidth-delay product after one loss.
const GROWTH_SHARE: f64 = 1.0 / 32.0;
/// Share of two rounds that must be lost for the window to be halved.
const FLOOD_SHARE: f64 = 0.25;
/// Cubic's factor after a loss (RFC 9438, section 4).
const BETA: f64 = 0.7;
/// Cubic's growth constant (RFC 9438, section 4).
const C: f64 = 0.4;

/// Creates [`LossTolerant`] controllers.
#[derive(Clone, Debug)]
pub(super) struct LossTolerantConfig {
    /// Bytes in flight at the start.
    pub(super) initial_window: u64,
    /// Largest number of bytes in flight.
    pub(super) window_max: u64,
}

impl ControllerFactory for LossTolerantConfig {
    fn build(self: Arc<Self>, _now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(LossTolerant::new(&self, current_mtu))
    }
}

/// The controller of one connection.
#[derive(Clone, Debug)]
pub(super) struct LossTolerant {
    initial_window: u64,
    window_max: u64,
    mtu: u64,
    window: u64,
    slow_start: bool,
    /// Start of the current curve.
    epoch: Option<Instant>,
    /// Window at which the current curve flattens, in bytes.
    plateau: f64,
    /// Time of the last reduction of the window, which answered the losses of all packets sent
    /// before.
    recovery: Option<Instant>,
    /// Fraction of a packet by which the window has grown.
    growth: f64,
    base: Shortest,
    /// Start of the current round, which ends when a packet sent since is acknowledged.
    round_began: Option<Instant>,
    /// Shortest round trip in this round, and in the previous one.
    shortest: (Option<Duration>, Option<Duration>),
    meter: Meter,
    /// Moving share of lost packets.
    loss_share: f64,
    /// Bytes acknowledged in this round, and in the previous one.
    acknowledged: (u64, u64),
    /// Bytes lost in this round, and in the previous one.
    lost: (u64, u64),
}

/// Shortest round trip of the last [`BASE_AGE`], kept in two halves.
#[derive(Clone, Copy, Debug)]
struct Shortest {
    /// Shortest round trip of the present half.
    current: Duration,
    /// Shortest round trip of the half before it.
    before: Duration,
    /// Start of the present half.
    since: Option<Instant>,
}

impl Shortest {
    fn update(&mut self, now: Instant, sample: Duration) {
        let since = *self.since.get_or_insert(now);
        let age = now.saturating_duration_since(since);
        if age > BASE_AGE {
            // After a pause, no sample falls into the half before this one.
            (self.before, self.since) = (Duration::MAX, Some(now));
            self.current = sample;
        } else if age > BASE_AGE / 2 {
            (self.before, self.since) = (self.current, Some(since + BASE_AGE / 2));
            self.current = sample;
        }
        self.current = self.current.min(sample);
    }

    fn get(&self) -> Duration {
        self.current.min(self.before)
    }
}

/// Rate of acknowledgements while data is in flight: the higher of the last two spans, each a
/// quarter of the shortest round trip, at least [`SPAN_MIN`].
#[derive(Clone, Copy, Debug, Default)]
struct Meter {
    began: Option<Instant>,
    latest: Option<Instant>,
    bytes: u64,
    rates: [Option<f64>; 2],
}

impl Meter {
    fn update(&mut self, now: Instant, bytes: u64, base: Duration) {
        let span = SPAN_MIN.max(base / 4);
        let is_idle = self.latest.is_none_or(|latest| now.saturating_duration_since(latest) > span);
        self.latest = Some(now);
        let Some(began) = self.began.filter(|_| !is_idle) else {
            // The bytes that end a pause were not sent at the rate of the following ones.
            self.began = Some(now);
            self.bytes = 0;
            return;
        };
        self.bytes += bytes;
        let elapsed = now.saturating_duration_since(began);
        if elapsed >= span {
            self.rates = [Some(self.bytes as f64 / elapsed.as_secs_f64()), self.rates[0]];
            self.began = Some(now);
            self.bytes = 0;
        }
    }

    fn rate(&self) -> Option<f64> {
        let [latest, before] = self.rates;
        latest.map(|latest| latest.max(before.unwrap_or(0.0)))
    }
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
            round_began: None,
            shortest: (None, None),
            meter: Meter::default(),
            loss_share: 0.0,
            acknowledged: (0, 0),
            lost: (0, 0),
        }
    }

    fn minimum_window(&self) -> u64 {
        4 * self.mtu
    }

    /// Returns the least time that a packet of the last whole round was queued. A pause of one of
    /// the two hosts delays many packets, but not those of a whole round.
    fn wait(&self) -> Duration {
        self.shortest.1.unwrap_or_default().saturating_sub(self.base.get())
    }

    /// Whether all packets of the last whole round were queued.
    fn is_queueing(&self) -> bool {
        self.wait() > QUEUE_MIN.max(self.base.get().mul_f64(QUEUE_SHARE))
    }

    /// Returns the bandwidth-delay product of the path: the rate at which bytes are acknowledged,
    /// times the shortest round trip. `None` until a rate was measured.
    fn carried(&self) -> Option<f64> {
        Some(self.meter.rate()? * self.base.get().as_secs_f64())
    }

    /// Ends slow start at 1.25 times the measured bandwidth-delay product.
    fn end_slow_start(&mut self, now: Instant) {
        let Some(carried) = self.carried() else { return };
        let target = ((carried * 1.25) as u64).max(self.window / 4);
        self.window = self.window.min(target).max(self.minimum_window());
        self.plateau = self.window as f64;
        self.slow_start = false;
        self.epoch = Some(now);
        self.growth = 0.0;
    }

    fn note_packets(&mut self, bytes: u64, lost: bool) {
        let weight = (bytes as f64 / self.mtu as f64 / LOSS_MEMORY).min(1.0);
        self.loss_share += (f64::from(u8::from(lost)) - self.loss_share) * weight;
    }

    fn acknowledge(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: Duration,
    ) {
        let sample = now.saturating_duration_since(sent);
        self.base.update(now, sample);
        self.note_packets(bytes, false);
        self.acknowledged.0 += bytes;
        self.shortest.0 = Some(self.shortest.0.map_or(sample, |shortest| shortest.min(sample)));
        self.meter.update(now, bytes, self.base.get());
        if self.round_began.is_none_or(|began| sent >= began) {
            self.round_began = Some(now);
            self.shortest = (None, self.shortest.0);
            self.acknowledged = (0, self.acknowledged.0);
            self.lost = (0, self.lost.0);
        }
        if app_limited || self.recovery.is_some_and(|recovery| sent <= recovery) {
            return;
        }
        if self.slow_start && self.is_queueing() {
            self.end_slow_start(now);
        }
        if self.wait() <= WAIT_MIN.max(self.base.get()) {
            self.grow(now, bytes, rtt);
        }
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
            // The window that Reno would have by now, so that short paths are not slower than with
            // Reno.
            let reno = plateau * BETA
                + 3.0 * (1.0 - BETA) / (1.0 + BETA) * t / rtt.as_secs_f64().max(1e-6);
            let target = cubic.max(reno).min(window * 1.5);
            let share = if self.is_queueing() { 0.0 } else { GROWTH_SHARE };
            self.growth += ((target - window) / window).max(share) * bytes as f64 / mtu;
            let packets = self.growth.floor();
            self.growth -= packets;
            self.window += (packets * mtu) as u64;
        }
        self.window = self.window.min(self.window_max);
    }

    fn reduce(&mut self, now: Instant) {
        let window = self.window as f64;
        // Fast convergence: a flow that is still shrinking leaves room for other flows.
        self.plateau = if window < self.plateau { window * (1.0 + BETA) / 2.0 } else { window };
        let acknowledged = self.acknowledged.0 + self.acknowledged.1;
        let lost = self.lost.0 + self.lost.1;
        let is_flood = lost as f64 >= FLOOD_SHARE * (lost + acknowledged) as f64;
        let reduced = window * if is_flood { 0.5 } else { BETA };
        // Losses of one oversized burst may be detected over several round trips; the bytes that
        // arrived meanwhile limit the reduction.
        let reduced = reduced.max(self.carried().unwrap_or(0.0) * BETA).min(window);
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
        self.acknowledge(now, sent, bytes, app_limited, rtt.get());
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

#[cfg(test)]
mod tests;
