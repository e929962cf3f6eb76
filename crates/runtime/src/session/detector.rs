//! Decides when a silent node is suspected and when it is lost.
//!
//! # Start
//!
//! The detector begins with the first contact. Each node sends a heartbeat every
//! [`DetectorSettings::beat`]; the detector records the intervals at which they arrive.
//!
//! # Steady state
//!
//! Phi grows with the silence, compared with the usual intervals: it is the negative decimal
//! logarithm of the probability that a live node is silent for this long, with normally distributed
//! intervals (Hayashibara et al., "The phi accrual failure detector", SRDS 2004). A node is
//! suspected when phi passes its threshold, or at the latest after
//! [`suspect_after`](DetectorSettings::suspect_after). Every effect of a suspicion must be
//! reversible.
//!
//! # Failure
//!
//! After [`lost_after`](DetectorSettings::lost_after) and [`LOST_ROUND_TRIPS`] of silence the node
//! is lost, for good. The round trips leave time to establish a connection again. Measured over
//! twelve hosts with 10 % loss, stops of up to 1.5 s and saturated links, 3 s gave no false alarm,
//! 1 s gave some, and phi alone gave many.
//!
//! A node that did not run itself (stopped, swapped, starved of CPU) must not blame others for the
//! silence during that time (Dadgar et al., "Lifeguard", 2017). [`LocalHealth`] detects the gap
//! between its own polls, and the detectors do not count that time.

use gridspan_topology::{Link, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// Times and thresholds of suspicion and loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DetectorSettings {
    /// The time between two heartbeats.
    pub beat: Duration,
    /// Phi above which a node is suspected.
    pub phi: f64,
    /// Silence that phi tolerates in addition to the usual interval.
    pub acceptable_pause: Duration,
    /// The least standard deviation that phi assumes, so that phi does not grow too fast after very
    /// regular beats.
    pub sigma_min: Duration,
    /// Silence after which a node is suspected, regardless of phi.
    pub suspect_after: Duration,
    /// Silence after which a node is lost, in addition to [`LOST_ROUND_TRIPS`].
    pub lost_after: Duration,
}

/// Number of round trips to a node by which its silence may exceed
/// [`DetectorSettings::lost_after`].
pub const LOST_ROUND_TRIPS: u32 = 4;

impl Default for DetectorSettings {
    fn default() -> Self {
        Self {
            beat: Duration::from_millis(200),
            phi: 8.0,
            acceptable_pause: Duration::from_millis(250),
            sigma_min: Duration::from_millis(100),
            suspect_after: Duration::from_secs(1),
            lost_after: Duration::from_secs(3),
        }
    }
}

/// Least number of beats that a node may be silent before it is lost, whatever the settings say.
const LOST_BEATS_MIN: u32 = 5;
/// Number of nodes that can share a core without delaying each other's heartbeats by much.
const NODES_PER_CORE: u32 = 8;

impl DetectorSettings {
    /// Returns the settings for a job with this many nodes per core: all times grow once there are
    /// more than `NODES_PER_CORE`, since the heartbeats of all nodes to all others also wait for
    /// the core.
    pub fn crowded(nodes_per_core: u32) -> Self {
        let factor = crowding_factor(nodes_per_core);
        let Self { beat, phi, acceptable_pause, sigma_min, suspect_after, lost_after } =
            Self::default();
        Self {
            beat: beat * factor,
            phi,
            acceptable_pause: acceptable_pause * factor,
            sigma_min: sigma_min * factor,
            suspect_after: suspect_after * factor,
            lost_after: lost_after * factor,
        }
    }

    /// Returns the settings with another silence after which a node is lost, of at least five
    /// beats and at most a day.
    #[must_use]
    pub fn with_lost_after(self, lost_after: Duration) -> Self {
        let lost_after = lost_after.min(*Link::LOST_AFTER.end());
        Self { lost_after: lost_after.max(self.beat * LOST_BEATS_MIN), ..self }
    }
}

/// Returns the factor by which times grow on a machine with this many nodes per core, at least 1.
pub fn crowding_factor(nodes_per_core: u32) -> u32 {
    nodes_per_core.div_ceil(NODES_PER_CORE).max(1)
}

/// The state of a node according to its detector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It has sent something recently.
    Alive,
    /// It has been silent for longer than usual.
    Suspected,
    /// It is lost. This is final.
    Lost,
}

/// Number of intervals that are kept: 20 s of beats, enough for a stable mean and quick to follow a
/// change.
const WINDOW: usize = 100;

/// Watches one node.
#[derive(Debug)]
pub struct Detector {
    settings: DetectorSettings,
    /// Latest round trip to the node.
    round_trip: Duration,
    health: Health,
    /// Time at which the node was last heard, moved on by the time during which this node itself
    /// did not run.
    heard: Time,
    /// End of the last interval.
    sampled: Time,
    intervals: VecDeque<f64>,
    sum: f64,
    sum_of_squares: f64,
}

impl Detector {
    /// Creates a detector for a node that was heard at `now`.
    pub fn new(settings: DetectorSettings, now: Time) -> Self {
        let mut detector = Self {
            settings,
            round_trip: Duration::ZERO,
            health: Health::Alive,
            heard: now,
            sampled: now,
            intervals: VecDeque::with_capacity(WINDOW),
            sum: 0.0,
            sum_of_squares: 0.0,
        };
        detector.sample(settings.beat.as_secs_f64());
        detector
    }

    /// Notes that the node was heard. Returns whether it was suspected until now.
    pub fn heard(&mut self, now: Time) -> bool {
        if self.health == Health::Lost {
            return false;
        }
        // Data may arrive a thousand times per beat; more than a few samples per beat would make
        // the window too short to contain the pauses.
        let interval = now.since(self.sampled);
        if interval * 2 >= self.settings.beat {
            self.sample(interval.min(self.settings.lost_after).as_secs_f64());
            self.sampled = now;
        }
        self.heard = self.heard.max(now);
        std::mem::replace(&mut self.health, Health::Alive) == Health::Suspected
    }

    /// Excludes `gap`, during which this node did not run, from the silence.
    pub fn forgive(&mut self, gap: Duration, now: Time) {
        self.heard = (self.heard + gap).min(now);
        self.sampled = self.sampled.max(self.heard);
    }

    /// Notes the round trip to the node.
    pub fn measured(&mut self, round_trip: Duration) {
        self.round_trip = round_trip;
    }

    /// Returns the latest round trip to the node; zero if none was measured.
    pub fn round_trip(&self) -> Duration {
        self.round_trip
    }

    /// Returns the silence after which the node is lost, including [`LOST_ROUND_TRIPS`].
    pub fn patience(&self) -> Duration {
        self.settings.lost_after.saturating_add(self.round_trip.saturating_mul(LOST_ROUND_TRIPS))
    }

    /// Returns the time since the node was last heard, without the time during which this node
    /// itself did not run.
    pub fn silence(&self, now: Time) -> Duration {
        now.since(self.heard)
    }

    /// Updates the health of the node. Returns it if it changed.
    pub fn poll(&mut self, now: Time) -> Option<Health> {
        let silence = self.silence(now);
        let health = if self.health == Health::Lost || silence >= self.patience() {
            Health::Lost
        } else if silence >= self.settings.suspect_after || self.phi(now) > self.settings.phi {
            Health::Suspected
        } else {
            self.health
        };
        (std::mem::replace(&mut self.health, health) != health).then_some(health)
    }

    /// Returns the health that [`poll`](Self::poll) last determined.
    pub fn health(&self) -> Health {
        self.health
    }

    /// Returns how unlikely this silence is for a live node, as a negative decimal logarithm.
    pub fn phi(&self, now: Time) -> f64 {
        let silence = now.since(self.heard).as_secs_f64();
        let count = self.intervals.len() as f64;
        let mean = self.sum / count;
        let sigma = (self.sum_of_squares / count - mean * mean).max(0.0).sqrt();
        let sigma = sigma.max(self.settings.sigma_min.as_secs_f64());
        let y = (silence - mean - self.settings.acceptable_pause.as_secs_f64()) / sigma;
        // A logistic approximation of the normal distribution, exact to 0.014 %.
        let exponent = -y * (1.5976 + 0.070566 * y * y);
        if y > 0.0 {
            // For small values the logarithm of the quotient is the exponent; below e^-700 the
            // quotient would be zero.
            if exponent < -300.0 {
                return -exponent / std::f64::consts::LN_10;
            }
            let e = exponent.exp();
            -(e / (1.0 + e)).log10()
        } else {
            -(1.0 - 1.0 / (1.0 + exponent.exp())).log10()
        }
    }

    fn sample(&mut self, interval: f64) {
        if self.intervals.len() == WINDOW
            && let Some(oldest) = self.intervals.pop_front()
        {
            self.sum -= oldest;
            self.sum_of_squares -= oldest * oldest;
        }
        self.intervals.push_back(interval);
        self.sum += interval;
        self.sum_of_squares += interval * interval;
    }
}

/// Detects when this node itself did not run.
#[derive(Debug)]
pub struct LocalHealth {
    beat: Duration,
    polled: Time,
}

impl LocalHealth {
    /// Starts the detection; [`poll`](Self::poll) should be called at least twice per `beat`.
    pub fn new(beat: Duration, now: Time) -> Self {
        Self { beat, polled: now }
    }

    /// Returns the time since the last call during which this node did not run: the gap less half a
    /// beat if the gap exceeds a whole beat, and zero otherwise. Half a beat always counts as
    /// silence, so that a node that is always slow still detects a lost one, only later.
    pub fn poll(&mut self, now: Time) -> Duration {
        let gap = now.since(std::mem::replace(&mut self.polled, now));
        if gap > self.beat { gap - self.beat / 2 } else { Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time(millis * 1_000_000)
    }

    fn regular(until: u64) -> Detector {
        let mut detector = Detector::new(DetectorSettings::default(), at(0));
        for beat in (200..=until).step_by(200) {
            detector.heard(at(beat));
            assert_eq!(detector.poll(at(beat)), None);
        }
        detector
    }

    #[test]
    fn many_nodes_per_core_extend_all_times() {
        let usual = DetectorSettings::default();
        assert_eq!(DetectorSettings::crowded(0), usual);
        assert_eq!(DetectorSettings::crowded(8), usual);
        let crowded = DetectorSettings::crowded(100);
        assert_eq!(crowded.lost_after, usual.lost_after * 13);
        assert_eq!(crowded.beat, usual.beat * 13);
    }

    #[test]
    fn a_node_that_falls_silent_is_suspected_in_one_second_and_lost_in_three() {
        let mut detector = regular(10_000);
        assert_eq!(detector.poll(at(10_700)), None);
        assert_eq!(detector.poll(at(11_000)), Some(Health::Suspected));
        assert_eq!(detector.poll(at(12_900)), None);
        assert_eq!(detector.poll(at(13_000)), Some(Health::Lost));
        assert!(!detector.heard(at(13_100)), "lost is final");
        assert_eq!(detector.health(), Health::Lost);
    }

    #[test]
    fn a_distant_node_may_be_silent_for_four_round_trips_longer() {
        let mut detector = regular(10_000);
        detector.measured(Duration::from_millis(300));
        assert_eq!(detector.patience(), Duration::from_millis(4_200));
        assert_eq!(detector.poll(at(14_100)), Some(Health::Suspected));
        assert_eq!(detector.poll(at(14_200)), Some(Health::Lost));
    }

    #[test]
    fn a_node_is_not_lost_before_five_beats() {
        let crowded = DetectorSettings::crowded(32);
        let second = Duration::from_secs(1);
        assert_eq!(crowded.with_lost_after(second).lost_after, crowded.beat * 5);
        assert_eq!(DetectorSettings::default().with_lost_after(second).lost_after, second);
    }

    #[test]
    fn a_node_is_lost_after_a_day_at_the_latest() {
        let settings = DetectorSettings::default().with_lost_after(Duration::MAX);
        let mut detector = Detector::new(settings, at(0));
        detector.measured(Duration::from_secs(1));
        assert_eq!(detector.patience(), Duration::from_secs(86_404));
    }

    #[test]
    fn a_suspected_node_recovers_when_it_is_heard() {
        let mut detector = regular(2_000);
        assert_eq!(detector.poll(at(3_500)), Some(Health::Suspected));
        assert!(detector.heard(at(3_600)));
        assert_eq!(detector.poll(at(3_700)), None);
        assert_eq!(detector.health(), Health::Alive);
    }

    #[test]
    fn phi_rises_with_silence_and_stays_finite() {
        let detector = regular(4_000);
        let phis: Vec<f64> = (0..40).map(|step| detector.phi(at(4_000 + step * 100))).collect();
        assert!(phis.is_sorted() && phis.iter().all(|phi| phi.is_finite()), "{phis:?}");
        assert!(phis[2] < 1.0 && phis[39] > 100.0, "{phis:?}");
    }

    #[test]
    fn silence_while_this_node_did_not_run_does_not_count() {
        let mut detector = regular(2_000);
        let mut local = LocalHealth::new(Duration::from_millis(200), at(2_000));
        let gap = local.poll(at(7_000));
        detector.forgive(gap, at(7_000));
        assert_eq!(detector.poll(at(7_000)), None);
        for now in (7_100..=9_800).step_by(100) {
            assert_eq!(local.poll(at(now)), Duration::ZERO);
            detector.poll(at(now));
        }
        assert_eq!(detector.poll(at(9_900)), Some(Health::Lost), "but silence since then counts");
    }

    #[test]
    fn an_always_slow_node_still_detects_a_lost_one() {
        let mut detector = regular(2_000);
        let mut local = LocalHealth::new(Duration::from_millis(200), at(2_000));
        let mut now = 2_000;
        while detector.health() != Health::Lost {
            now += 400;
            let gap = local.poll(at(now));
            detector.forgive(gap, at(now));
            detector.poll(at(now));
            assert!(now < 20_000);
        }
    }
}
